"""Feeds: changes of a partition's state as a stream, from which replicas answer queries."""
