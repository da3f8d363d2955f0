"""What a run's callers, logs and processes showed."""
