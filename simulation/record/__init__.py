"""A run kept as a file, to be judged again."""
