"""Faults of real processes."""
