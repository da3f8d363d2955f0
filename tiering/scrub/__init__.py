"""Whether every object of a tier still is what was copied there, byte for byte."""
