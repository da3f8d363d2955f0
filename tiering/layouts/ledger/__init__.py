"""Our own layout: a log in parts, and one object of indexes."""
