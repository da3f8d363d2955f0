"""Where Spark looks for the format `tierledger.events`: nobody needs to register it."""

from tierledger.pipeline.formats import EventsSource as DefaultSource

__all__ = ["DefaultSource"]
