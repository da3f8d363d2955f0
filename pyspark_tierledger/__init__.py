"""Where Spark looks for a format called `tierledger`: nobody needs to register it."""

from tierledger.pipeline.source.source import TierledgerSource as DefaultSource

__all__ = ["DefaultSource"]
