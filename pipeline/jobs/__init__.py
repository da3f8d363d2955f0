"""Questions to the folded state of all partitions."""
