"""Logs of partitions as tables, by Spark or by this process."""
