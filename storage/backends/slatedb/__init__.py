"""The store in a bucket: a SlateDB database, to which one process writes."""
