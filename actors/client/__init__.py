"""The client: routes, retries, roles, and positions that it has seen."""
