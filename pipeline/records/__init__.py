"""The Spark format `tierledger.records`: records of the tier as rows."""
