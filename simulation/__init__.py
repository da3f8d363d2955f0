"""A deterministic world in which the rules of `actors/` are put to the test."""
