"""Logs read as they are stored, with their chains, and written into another store."""
