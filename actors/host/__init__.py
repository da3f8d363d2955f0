"""A process that runs many partitions on one loop."""
