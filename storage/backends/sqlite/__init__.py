"""One file, one writing process."""
