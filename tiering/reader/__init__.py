"""Records, read from the tier."""
