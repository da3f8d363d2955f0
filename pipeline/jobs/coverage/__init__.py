"""Gaps and overlaps."""
