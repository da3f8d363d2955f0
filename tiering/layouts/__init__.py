"""How a segment lies in the tier."""
