"""The format `tierledger.records`: records of the tier as rows of Spark."""
