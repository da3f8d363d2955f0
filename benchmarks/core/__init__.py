"""What the rules, the log and its checkpoints cost without a service."""
