"""Status of a running service: read, put together, and served as metrics."""
