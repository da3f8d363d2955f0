"""Actors without Ray: driven by a test, or as a service in this process."""
