"""Which events of each log are wanted, by position and log time.

Rule: both only grow within a log. So a range of a log, or a piece of a file, is left out unread
if its first and last show that it has none. What is read is held against the bounds by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow.compute as pc

from tierledger.events.as_of import NOW, AsOf
from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.log_ranges import LogRange
from tierledger.pipeline.source.columns import CORRUPT

POSITION, TIME, TYPE = "position", "log_time_ms", "type"


class EventBounds(NamedTuple):
    """The first and last position and time that are wanted; None where there is no bound."""

    first_position: int | None = None
    last_position: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None

    @classmethod
    def between(cls, since: AsOf = NOW, until: AsOf = NOW) -> EventBounds:
        """The events from one point on, up to another.

        Raises:
            InvalidArgument: The second is before the first.
        """
        bounds = cls(since.position, until.position, since.time_ms, until.time_ms)
        for name, (first, last) in bounds.limits.items():
            if first is not None and last is not None and last < first:
                raise InvalidArgument(f"expected an end from {name} {first} up, got {last}")
        return bounds

    @property
    def limits(self) -> dict[str, tuple[int | None, int | None]]:
        """By column, the first and the last value that is wanted."""
        return {
            POSITION: (self.first_position, self.last_position),
            TIME: (self.first_ms, self.last_ms),
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell which rows are wanted."""
        names = tuple(name for name, ends in self.limits.items() if ends != (None, None))
        return (*names, TYPE) if names else ()

    def may_hold(self, one: LogRange) -> bool:
        """Whether events of a range may be wanted; they are, if its end cannot be read."""
        last, last_ms = (
            (None, None)
            if one.end is None
            else (one.end.next_position - 1, one.end.log_time_ms)
        )
        return self._meets(POSITION, one.start.next_position, last) and self._meets(
            TIME, one.start.log_time_ms, last_ms
        )

    def may_hold_rows(self, ends: Mapping[str, tuple[int, int]]) -> bool:
        """Whether rows may be wanted, of whose columns the lowest and highest are known."""
        return all(self._meets(name, *ends[name]) for name in (POSITION, TIME) if name in ends)

    def of(self, batch: Any) -> Any:  # noqa: ANN401 - Arrow has no types.
        """The wanted rows. Damage before the first is told, too: it may hide what is behind."""
        for name, (first, last) in self.limits.items():
            if first is not None:
                is_damage = pc.equal(batch[TYPE], CORRUPT)
                batch = batch.filter(pc.or_(pc.greater_equal(batch[name], first), is_damage))
            if last is not None:
                batch = batch.filter(pc.less_equal(batch[name], last))
        return batch

    def _meets(self, name: str, lowest: int, highest: int | None) -> bool:
        first, last = self.limits[name]
        return (first is None or highest is None or highest >= first) and (
            last is None or lowest <= last
        )


ALL_EVENTS = EventBounds()
"""No bounds."""
