"""Where Spark looks for a format called `tierledger.records`: nobody needs to register it."""

from tierledger.pipeline.records import RecordsSource as DefaultSource

__all__ = ["DefaultSource"]
