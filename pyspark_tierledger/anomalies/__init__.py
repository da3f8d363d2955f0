"""Where Spark looks for the format `tierledger.anomalies`: nobody needs to register it."""

from tierledger.pipeline.formats import AnomaliesSource as DefaultSource

__all__ = ["DefaultSource"]
