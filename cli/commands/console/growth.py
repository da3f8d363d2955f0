"""What was tiered and deleted over time, by topic, as the logs tell it.

Rule: a log is read from its start once, a little at a time, and from then on what is new in it.
So what this costs goes by the events, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.events.errors import DataError
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.log_events import (
    PartitionDeleteUpdated,
    SegmentAdded,
    SegmentKept,
    SegmentUpdated,
)
from tierledger.storage.partition.reader import LogEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.log_events import Event
    from tierledger.storage.catalog import Catalog
    from tierledger.storage.partition.reader import PartitionReader

COLUMNS: Final = 48
"""Stretches of equal length into which a time is divided."""

HOUR_MS: Final = 3_600_000

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
_GONE = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


class TierChange(NamedTuple):
    """Segments that were tiered and that were deleted, and their bytes."""

    tiered: int = 0
    tiered_bytes: int = 0
    deleted: int = 0
    deleted_bytes: int = 0

    def plus(self, other: TierChange) -> TierChange:
        return TierChange(*map(sum, zip(self, other, strict=True)))


class MovedOverTime:
    """Sums by topic in at most `COLUMNS` stretches of time, the newest of which is now."""

    def __init__(self, width_ms: int, *, widens: bool = False) -> None:
        """`width_ms`: of a stretch, at first.

        `widens`: it doubles when there are too many, so that all that ever happened is there;
        otherwise what is older than all of them is left out.
        """
        self.width_ms = width_ms
        self._widens = widens
        self._sums: dict[int, dict[str, TierChange]] = {}
        """By number of the stretch since 1970, and topic."""

    def add(self, time_ms: int, now_ms: int, topic: str, moved: TierChange) -> None:
        """A time ahead of now is now: some clock was wrong."""
        self.shift(now_ms)
        column = min(time_ms, now_ms) // self.width_ms
        while self._widens and now_ms // self.width_ms - column >= COLUMNS:
            self._widen()
            column = min(time_ms, now_ms) // self.width_ms
        if now_ms // self.width_ms - column < COLUMNS:
            by_topic = self._sums.setdefault(column, {})
            by_topic[topic] = by_topic.get(topic, TierChange()).plus(moved)

    def shift(self, now_ms: int) -> None:
        """Make room for the stretch that is now."""
        newest = now_ms // self.width_ms
        while self._sums and newest - min(self._sums) >= COLUMNS:
            if self._widens:
                self._widen()
                newest = now_ms // self.width_ms
            else:
                del self._sums[min(self._sums)]

    def columns(self, now_ms: int) -> list[tuple[int, dict[str, TierChange]]]:
        """Each stretch: its begin (ms) and its sums; if they widen, from the first with any."""
        self.shift(now_ms)
        newest = now_ms // self.width_ms
        oldest = newest - COLUMNS + 1
        if self._widens:
            oldest = min(self._sums, default=newest)
        return [
            (column * self.width_ms, self._sums.get(column, {}))
            for column in range(oldest, newest + 1)
        ]

    def _widen(self) -> None:
        before, self._sums = self._sums, {}
        self.width_ms *= 2
        for column, by_topic in before.items():
            sums = self._sums.setdefault(column // 2, {})
            for topic, moved in by_topic.items():
                sums[topic] = sums.get(topic, TierChange()).plus(moved)


@dataclass(slots=True)
class _FollowedLog:
    """How far a log was read, and what of it has to be known to go on."""

    entry: LogEntry | None = None
    """Where to go on; None: nothing was read."""
    end: str | None = None
    """The log's last key when it was read to its end."""
    sizes: dict[bytes, int] = field(default_factory=dict)
    """Of the segments that are there, by id."""
    copying: set[bytes] = field(default_factory=set)
    copied_ms: int | None = None
    """Log time of the newest copy that has finished."""

    def moves(self, event: Event) -> TierChange | None:
        """What the event has tiered or deleted; None: nothing."""
        match event.body:
            case SegmentAdded(segment_id=segment_id, size=size):
                self.sizes[segment_id] = max(size, 0)
                self.copying.add(segment_id)
            case SegmentUpdated(segment_id=segment_id, state=state) if state == _FINISHED:
                return self._copied(segment_id, event.log_time_ms)
            case SegmentUpdated(segment_id=segment_id, state=state) if state == _DELETED:
                return self._deleted([segment_id])
            case SegmentKept(segment_id=segment_id):
                return self._deleted([segment_id])
            case PartitionDeleteUpdated(state=state) if state == _GONE:
                return self._deleted(list(self.sizes))
            case _:
                pass  # Nothing has come or gone.
        return None

    def _copied(self, segment_id: bytes, time_ms: int) -> TierChange | None:
        if segment_id not in self.copying:
            return None
        self.copying.remove(segment_id)
        self.copied_ms = time_ms
        return TierChange(tiered=1, tiered_bytes=self.sizes[segment_id])

    def _deleted(self, segment_ids: list[bytes]) -> TierChange | None:
        found = {one: self.sizes.pop(one) for one in segment_ids if one in self.sizes}
        tiered = found.keys() - self.copying  # A copy that was given up never was.
        self.copying -= found.keys()
        if not tiered:
            return None
        return TierChange(deleted=len(tiered), deleted_bytes=sum(found[one] for one in tiered))


class Growth:
    """What the logs tell of all partitions; `read` goes on."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._logs: dict[TopicIdPartition, _FollowedLog] = {}
        self._spans = {
            "day": MovedOverTime(24 * HOUR_MS // COLUMNS),
            "month": MovedOverTime(30 * 24 * HOUR_MS // COLUMNS),
            "all": MovedOverTime(HOUR_MS // 60, widens=True),
        }

    def columns(self, span: str) -> list[tuple[int, dict[str, TierChange]]]:
        """The stretches of the last `day`, `month` or of `all` time: begin (ms), and sums."""
        return self._spans[span].columns(self._now_ms())

    def copied_ms(self, tip: TopicIdPartition) -> int | None:
        """When the newest copy of the partition has finished; None if that is not known."""
        log = self._logs.get(tip)
        return None if log is None else log.copied_ms

    def is_read(self, tip: TopicIdPartition) -> bool:
        """Whether the partition's log was read to its end once."""
        log = self._logs.get(tip)
        return log is not None and log.end is not None

    def forget(self, tip: TopicIdPartition) -> None:
        """The store does not have it any more; what it has moved stays."""
        self._logs.pop(tip, None)

    async def read(
        self, catalog: Catalog, ends: Mapping[TopicIdPartition, str | None], seconds: float
    ) -> bool:
        """Read what is new, for about `seconds`; returns whether anything was.

        `ends`: each log's last key. A log that does not verify is left where it ends to.

        Raises:
            StorageUnavailable: The store cannot be read.
        """
        loop = asyncio.get_running_loop()
        until, is_news = loop.time() + seconds, False
        for tip, end in self._grown(ends):
            is_news, log = True, self._logs.setdefault(tip, _FollowedLog())
            try:
                is_whole = await self._read(catalog.reader(tip), log, until)
            except DataError:
                is_whole = True  # The list of partitions says what is wrong.
            if is_whole:
                log.end = end
            if loop.time() >= until:
                break
        return is_news

    def _grown(
        self, ends: Mapping[TopicIdPartition, str | None]
    ) -> Iterator[tuple[TopicIdPartition, str]]:
        for tip, end in list(ends.items()):
            log = self._logs.get(tip)
            if end is not None and (log is None or log.end != end):
                yield tip, end

    async def _read(self, reader: PartitionReader, log: _FollowedLog, until: float) -> bool:
        """Go on in one log until its end, or until the time is over; whether it ended."""
        if log.entry is None:
            state, next_batch = await reader.start()
            log.entry = LogEntry(state.next_position, next_batch, state.chain_hash)
        time = asyncio.get_running_loop().time
        async for batch in reader.decoded_batches(log.entry):
            self._take(log, reader.topic_id_partition.topic, batch.events)
            position = batch.events[-1].position + 1
            log.entry = LogEntry(position, batch.number + 1, batch.chain_hash)
            await asyncio.sleep(0)  # Others have their turn: a page of batches is long.
            if time() >= until:
                return False
        return True

    def _take(self, log: _FollowedLog, topic: str, events: list[Event]) -> None:
        now_ms = self._now_ms()
        for event in events:
            moved = log.moves(event)
            if moved is not None and event.log_time_ms > 0:
                for span in self._spans.values():
                    span.add(event.log_time_ms, now_ms, topic, moved)
