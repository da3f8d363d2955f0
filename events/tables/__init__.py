"""The containers of a partition's state."""
