"""The whole service, unchanged, under virtual time."""
