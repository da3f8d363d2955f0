"""The remote tier: storage managers, index cache, copy and retention tasks, and a reader."""
