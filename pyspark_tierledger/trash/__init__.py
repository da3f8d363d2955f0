"""Where Spark looks for the format `tierledger.trash`: nobody needs to register it."""

from tierledger.pipeline.formats import TrashSource as DefaultSource

__all__ = ["DefaultSource"]
