"""The pipeline on Spark."""
