"""Access to object storage."""
