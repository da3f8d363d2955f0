"""The format `tierledger`: events as rows of Spark."""
