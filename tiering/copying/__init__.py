"""Copying of segments to the tier."""
