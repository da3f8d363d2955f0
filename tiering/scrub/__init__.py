"""Verification that every object of a tier still is, byte for byte, what was copied."""
