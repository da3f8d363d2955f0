"""tierledger's own layout: a log in parts, and one object with all indexes."""
