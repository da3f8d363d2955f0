"""A database that several hosts write to."""
