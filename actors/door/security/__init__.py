"""TLS, tokens, and clients' identities."""
