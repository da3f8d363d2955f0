"""Object storage, and what is asked of it."""
