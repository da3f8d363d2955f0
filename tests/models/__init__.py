"""Slow models that are plain enough to be right, and inputs to compare them with."""
