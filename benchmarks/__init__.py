"""Measurements and their goals."""
