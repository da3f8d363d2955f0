"""Retention: deletion of expired segments from the tier."""
