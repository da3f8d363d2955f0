"""Backups of a store: its logs in files that verify themselves."""
