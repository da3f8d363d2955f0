"""One partition: its state, what is decided on it, what an event changes, what it answers."""
