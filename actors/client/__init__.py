"""The client: routes, repeats, roles, and what it remembers."""
