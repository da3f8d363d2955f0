"""How a client finds the service."""
