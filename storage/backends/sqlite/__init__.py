"""The store in one SQLite file, to which one process writes."""
