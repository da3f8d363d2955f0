"""Deletion of segments and partitions from the tier."""
