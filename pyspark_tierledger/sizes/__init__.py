"""Where Spark looks for the format `tierledger.sizes`: nobody needs to register it."""

from tierledger.pipeline.formats import SizesSource as DefaultSource

__all__ = ["DefaultSource"]
