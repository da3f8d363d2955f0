"""Clients that come through a host's door, and what they say there."""
