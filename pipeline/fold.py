"""Folds one partition's log by `events.evolve`, up to the point that a job may read.

Rule 1: a job reads only the batches that existed when it was planned.
Rule 2: only one page of batches and one state are in memory, however long the log is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias

from tierledger.events.as_of import NOW, AsOf
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.log_events import Event, SessionOpened
from tierledger.events.partition.state import PartitionState
from tierledger.storage.partition.event_log import StoredBatch, apply_events, decode_batch
from tierledger.storage.serde import MetadataSerDe

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def point(as_of: int | datetime | None) -> AsOf:
    """The point at a position or a time, taken as UTC if it has no zone; `NOW` for none."""
    if as_of is None:
        return NOW
    if isinstance(as_of, int):
        return AsOf(position=as_of)
    at = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    return AsOf(time_ms=(at - EPOCH) // timedelta(milliseconds=1))


class PlannedLog(NamedTuple):
    """The extent of one partition's log when the job was planned."""

    topic_id: Uuid
    partition: int
    first_batch: int
    end_batch: int
    """The number of the next batch (exclusive end)."""

    @property
    def batches(self) -> int:
        return self.end_batch - self.first_batch


Watcher: TypeAlias = "Callable[[PartitionState, Event], object]"
"""Called with each event before the event is applied to the state."""


class LogFold:
    """Folds a log into the state of its partition; call `run` once."""

    def __init__(
        self, state: PartitionState, serde: MetadataSerDe, as_of: AsOf, watch: Watcher | None
    ) -> None:
        """Begin with `state`, the state before the log's first event."""
        self.state = state
        self.events = 0
        """Number of events applied."""
        self._serde = serde
        self._as_of = as_of
        self._watch = watch

    @property
    def topic(self) -> str:
        """The partition's topic, as its first session names it."""
        return self.state.topic_id_partition.topic

    def run(self, pages: Iterable[Sequence[StoredBatch]]) -> Iterator[int]:
        """Fold `pages` batch by batch; yield the number of events of each page.

        Raises:
            CorruptLog: The log does not verify, or no leader can have written it.
            FormatTooNew: A newer program has written to the log.
        """
        for page in pages:
            before = self.events
            for batch in page:
                if not self._apply(batch):
                    yield self.events - before
                    return
            yield self.events - before

    def _apply(self, batch: StoredBatch) -> bool:
        """Apply the events of `batch` up to `as_of`; whether those are all."""
        state, watch = self.state, self._watch
        decoded = decode_batch(self._serde, batch, state.next_position, state.chain_hash)
        events = decoded.events
        first = events[0].body
        if not self.topic and isinstance(first, SessionOpened):
            tip = state.topic_id_partition
            state.topic_id_partition = TopicIdPartition(
                tip.topic_id, tip.partition, first.topic
            )
        last = events[-1]
        whole = self._as_of.holds(last.position, last.log_time_ms)
        if whole and watch is None:
            apply_events(state, batch.number, events, decoded.chain_hash)
        else:
            if not whole:
                events = _until(events, self._as_of)
            for event in events:
                if watch is not None:
                    watch(state, event)
                apply_events(state, batch.number, (event,), state.chain_hash)
            if whole:
                state.chain_hash = decoded.chain_hash
        self.events += len(events)
        return whole


def _until(events: Sequence[Event], as_of: AsOf) -> list[Event]:
    kept: list[Event] = []
    for event in events:
        if not as_of.holds(event.position, event.log_time_ms):
            break
        kept.append(event)
    return kept
