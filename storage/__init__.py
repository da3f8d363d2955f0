"""Where events and checkpoints are kept: key-value backends, and the log on top of them."""
