"""Metrics of a tier."""
