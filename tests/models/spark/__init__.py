"""Spark clusters and jobs, and stores whose rows are known."""
