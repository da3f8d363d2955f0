"""Segments on their way out of the tier."""
