"""What a run must have kept to, beside the calls and their answers."""
