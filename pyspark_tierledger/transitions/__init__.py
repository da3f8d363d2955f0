"""Where Spark looks for the format `tierledger.transitions`: nobody needs to register it."""

from tierledger.pipeline.formats import TransitionsSource as DefaultSource

__all__ = ["DefaultSource"]
