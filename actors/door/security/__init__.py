"""TLS, tokens, and who a caller is."""
