"""The caller's side of the door."""
