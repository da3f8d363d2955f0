"""One partition in the store: its log, its checkpoints, and what reads them."""
