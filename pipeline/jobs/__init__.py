"""Reports on the folded state of all partitions."""
