"""The host's side of the door."""
