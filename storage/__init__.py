"""Storage of events and checkpoints: key-value backends, and the log on top of them."""
