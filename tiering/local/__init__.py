"""A broker's local log."""
