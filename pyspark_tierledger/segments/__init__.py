"""Where Spark looks for the format `tierledger.segments`: nobody needs to register it."""

from tierledger.pipeline.formats import SegmentsSource as DefaultSource

__all__ = ["DefaultSource"]
