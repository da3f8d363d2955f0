"""Logs of partitions as tables, on Spark."""
