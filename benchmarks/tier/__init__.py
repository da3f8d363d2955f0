"""The remote tier."""
