"""Segments on their way to the tier."""
