"""Which segments have expired."""
