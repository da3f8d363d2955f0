"""A point in a log, up to which a question or a job looks."""

from __future__ import annotations

from typing import NamedTuple


class AsOf(NamedTuple):
    """A point in a log: after the event at a position, or at a time. At most one is given."""

    position: int | None = None
    time_ms: int | None = None

    def holds(self, position: int, log_time_ms: int) -> bool:
        """Whether an event at that position and time is not behind this point."""
        if self.position is not None and position > self.position:
            return False
        return self.time_ms is None or log_time_ms <= self.time_ms


NOW = AsOf()
"""No bound but the log's end when it was looked at."""
