"""What every storage backend must do, and the backends that are held to it."""
