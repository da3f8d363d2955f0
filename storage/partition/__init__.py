"""One partition in the store: its log, its checkpoints, and their readers."""
