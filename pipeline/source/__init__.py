"""The Spark format `tierledger`: events as rows."""
