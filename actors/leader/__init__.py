"""The machine that leads a partition."""
