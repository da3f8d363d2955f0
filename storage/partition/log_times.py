"""Log times that a wrong clock has carried ahead, for readers to remark on.

Log time never goes back, so one wrong hour stays in the log: events of later hours get the time
of the wrong one, and whatever goes by log time is wrong until the present has caught up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierledger.events.errors import DataError
from tierledger.events.event_codec import log_time_of
from tierledger.events.log_events import (
    Event,
    PartitionDeleteUpdated,
    SegmentAdded,
    SegmentUpdated,
)
from tierledger.storage.partition.event_log import StoredBatch, stored_events
from tierledger.storage.partition.reader import PartitionReader

AHEAD_MS: Final = 300_000
"""Log time is ahead if it is later than the reader's time by more than this; their clocks are
not the same."""

LEAP_MS: Final = 3_600_000
"""Log time has leapt if it gains more than this on the brokers' times from one to the next."""


def ahead_ms(log_time_ms: int, now_ms: int) -> int:
    """By how much a log's time is ahead of the reader's; 0 if it is not, but for skew."""
    ahead = log_time_ms - now_ms
    return ahead if ahead > AHEAD_MS else 0


async def newest_times(readers: Sequence[PartitionReader]) -> list[int | None]:
    """For each log the time of its newest event; None if it has none, or is damaged there.

    Takes two requests for all logs of a store.
    """
    if not readers:
        return []
    backend = readers[0].backend
    prefixes = [reader.keys.log(reader.topic_id_partition) for reader in readers]
    lasts = await backend.last_keys(prefixes)
    keys = [last for last in lasts if last is not None]
    values = dict(zip(keys, await backend.get_each(keys), strict=True))
    return [
        None if last is None else _time_in(reader, values[last])
        for reader, last in zip(readers, lasts, strict=True)
    ]


def _time_in(reader: PartitionReader, value: bytes | None) -> int | None:
    if value is None:
        return None
    try:
        _, stored = stored_events(reader.serde, StoredBatch(0, value))
        return log_time_of(stored[-1])
    except DataError:
        return None  # Forgotten, or damaged; whoever reads the log tells.


class Leaps:
    """Finds events at which log time leaps though the brokers' own times do not."""

    def __init__(self) -> None:
        self._lead: int | None = None
        """By how much log time was ahead of the broker's time in the last such event."""

    def leap_ms(self, event: Event) -> int | None:
        """By how much log time has leapt before `event`, the next of the log; None: not."""
        body = event.body
        if not isinstance(body, SegmentAdded | SegmentUpdated | PartitionDeleteUpdated):
            return None
        lead = event.log_time_ms - body.event_timestamp_ms
        last, self._lead = self._lead, lead
        gained = 0 if last is None else lead - last
        return gained if gained > LEAP_MS else None
