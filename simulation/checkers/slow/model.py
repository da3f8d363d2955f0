"""One partition's answers, computed the slow way.

Every table is a plain dict and every question is a scan, so that a reader can hold each rule
against Kafka's. What is fast elsewhere is compared with this. Four choices are ours, where
Kafka leaves them open, throws or never ends:

- unreferenced segments with equal start offsets are listed by id (Kafka: hash order);
- ids that are left in an epoch without metadata are as if they were not there (Kafka throws);
- a repeated COPY_SEGMENT_FINISHED counts as finishing again, since it re-takes Kafka's key;
- a walk over transaction indexes that would not advance ends with "none". Kafka's would
  never end: an epoch may claim offsets beyond the end of its own segment.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import count
from typing import Literal, NamedTuple, TypeAlias

import msgpack

_pack = msgpack.Packer(autoreset=True).pack
"""As `msgpack.packb`, which makes a packer each time."""

COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = range(4)
PARTITION_DELETE_FINISHED = 2

LEGAL = {
    (None, COPY_STARTED),
    (COPY_STARTED, COPY_STARTED),
    (COPY_STARTED, COPY_FINISHED),
    (COPY_STARTED, DELETE_STARTED),
    (COPY_FINISHED, COPY_FINISHED),
    (COPY_FINISHED, DELETE_STARTED),
    (DELETE_STARTED, DELETE_STARTED),
    (DELETE_STARTED, DELETE_FINISHED),
}
"""Transitions that reach a segment: it is forgotten once its deletion has finished."""

LEGAL_DELETES = {(None, 0), (0, 0), (0, 1), (1, 1), (1, 2), (2, 2)}
"""Transitions of a partition's own deletion: marked, started, finished, each once or more."""

SERVED, LISTED, LOST = 0, 1, 2
"""How a segment stands in one epoch of its row: Kafka finds it, only lists it, or neither."""


class Add(NamedTuple):
    """A recorded segment; `epochs` maps each leader epoch to its first offset in it."""

    segment_id: bytes
    start_offset: int
    end_offset: int
    epochs: Mapping[int, int]
    size: int = 0
    max_timestamp_ms: int = -1
    broker_id: int = 0
    event_timestamp_ms: int = 0
    custom_metadata: bytes | None = None
    txn_index_empty: bool = False
    state: int = COPY_STARTED


class Update(NamedTuple):
    """A recorded change of a segment's state."""

    segment_id: bytes
    state: int
    broker_id: int = 0
    event_timestamp_ms: int = 0
    custom_metadata: bytes | None = None


class PartitionDelete(NamedTuple):
    """A recorded step of deleting the whole partition."""

    state: int
    broker_id: int = 0
    event_timestamp_ms: int = 0


Record: TypeAlias = Add | Update | PartitionDelete


@dataclass(frozen=True)
class Segment:
    """What is known of a segment: as it was added, and what updates replaced."""

    added: Add
    state: int
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None
    finished_at: int = -1
    """The position of the event that finished it last; -1 if none did."""

    def epoch_end(self, epoch: int) -> int:
        """The last offset of `epoch` here, which may lie before its first or past the end."""
        later = [other for other in self.added.epochs if other > epoch]
        return self.added.epochs[min(later)] - 1 if later else self.added.end_offset

    def holds(self, epoch: int, offset: int) -> bool:
        """Whether this is finished and has `offset` in `epoch`."""
        if self.state != COPY_FINISHED or epoch not in self.added.epochs:
            return False
        return self.added.epochs[epoch] <= offset <= self.epoch_end(epoch)


@dataclass
class Epoch:
    """Kafka's three tables of one leader epoch."""

    offset_to_id: dict[int, bytes] = field(default_factory=dict)
    unreferenced: set[bytes] = field(default_factory=set)
    highest: int | None = None

    def finish(self, segment_id: bytes, start: int, end: int) -> None:
        """Serve a finished segment, superseding as Kafka does."""
        while self.offset_to_id and self.highest is not None and self.highest <= end:
            last = max(self.offset_to_id)
            if last < start:
                break
            self.unreferenced.add(self.offset_to_id.pop(last))
        # Kafka overwrites an equal key when the newcomer is shorter: the old id is then lost.
        self.offset_to_id[start] = segment_id
        self.unreferenced.discard(segment_id)
        self.highest = end if self.highest is None else max(self.highest, end)

    def begin_delete(self, segment_id: bytes, start: int) -> None:
        """No longer serve the segment."""
        if self.offset_to_id.get(start) == segment_id:
            del self.offset_to_id[start]
        self.unreferenced.add(segment_id)


class SlowPartition:
    """One partition, folded from records as Kafka's consumer folds them."""

    def __init__(self) -> None:
        self.segments: dict[bytes, Segment] = {}
        self.epochs: dict[int, Epoch] = {}
        self.deleted = False
        self.delete: PartitionDelete | None = None
        self._counted = count()
        self._position = -1

    def apply(
        self, record: Record, position: int | None = None
    ) -> Literal["applied", "dropped"]:
        """Fold one record in; "dropped" if Kafka ignores it or dies of it.

        `position`: of the record in the log; without it, records are counted.
        """
        self._position = next(self._counted) if position is None else position
        if self.deleted:
            return "dropped"
        match record:
            case Add():
                return "applied" if self._add(record) else "dropped"
            case Update():
                return "applied" if self._update(record) else "dropped"
            case PartitionDelete(state=state):
                # Kafka takes these in any order, and only the last one shows.
                self.delete = record
                if state == PARTITION_DELETE_FINISHED:
                    self.segments, self.epochs, self.deleted = {}, {}, True
                return "applied"

    def lookup(self, epoch: int, offset: int) -> bytes | None:
        """The segment to read `offset` from."""
        return self.kafka_lookup(epoch, offset) or self._finished_last(epoch, offset)

    def kafka_lookup(self, epoch: int, offset: int) -> bytes | None:
        """What Kafka would answer: its floor entry, if that one reaches `offset`."""
        table = self._epoch(epoch).offset_to_id
        floor = max((key for key in table if key <= offset), default=None)
        if floor is None or offset > self.segments[table[floor]].epoch_end(epoch):
            return None
        return table[floor]

    def list_all(self) -> list[Segment]:
        """Every segment that is not gone, by start offset and id."""
        return sorted(self.segments.values(), key=_by_start)

    def list_epoch(self, epoch: int) -> list[bytes]:
        """Kafka's ids in Kafka's order, and those it lost, each at its start offset."""
        kafka = self.kafka_list(epoch)
        of_epoch = [one for one in self.list_all() if epoch in one.added.epochs]
        lost = [one for one in of_epoch if one.added.segment_id not in kafka]
        known = [self.segments[one] for one in kafka]
        # `merge` takes from Kafka's list first when start offsets are equal.
        merged = merge(known, lost, key=lambda one: one.added.start_offset)
        return [one.added.segment_id for one in merged]

    def kafka_list(self, epoch: int) -> list[bytes]:
        """Kafka's ids: by the epoch's offset, or by start offset if any is unreferenced."""
        tables = self._epoch(epoch)
        served = [tables.offset_to_id[key] for key in sorted(tables.offset_to_id)]
        known = [self.segments[one] for one in tables.unreferenced if one in self.segments]
        if not known:
            return served
        rest = [one.added.segment_id for one in sorted(known, key=_by_start)]
        return sorted(served + rest, key=lambda one: self.segments[one].added.start_offset)

    def size(self, epoch: int) -> int:
        """Bytes of everything that `list_epoch` names."""
        return sum(self.segments[one].added.size for one in self.list_epoch(epoch))

    def highest(self, epoch: int) -> int | None:
        """The highest offset ever finished in `epoch`; it never goes back."""
        return self._epoch(epoch).highest

    def next_txn(self, epoch: int, offset: int) -> bytes | None:
        """The first segment from `offset` on that may have a transaction index."""
        while (found := self.lookup(epoch, offset)) is not None:
            added = self.segments[found].added
            if not added.txn_index_empty:
                return found
            if added.end_offset < offset:
                return None
            offset = added.end_offset + 1
        return None

    def row(self, segment_id: bytes | None) -> bytes | None:
        """A segment as answers carry it: the service's row, put together from these tables."""
        segment = None if segment_id is None else self.segments.get(segment_id)
        if segment is None:
            return None
        added, epochs = segment.added, []
        for epoch, start in sorted(added.epochs.items()):
            epochs += [epoch, start, self._standing(segment, epoch, start)]
        fields = [
            added.segment_id,
            segment.state,
            added.start_offset,
            added.end_offset,
            epochs,
            added.size,
            added.max_timestamp_ms,
            segment.broker_id,
            segment.event_timestamp_ms,
            segment.custom_metadata,
            added.txn_index_empty,
            segment.finished_at,
        ]
        packed: bytes = _pack(fields)
        return packed

    def _standing(self, segment: Segment, epoch: int, start: int) -> int:
        tables, segment_id = self._epoch(epoch), segment.added.segment_id
        if segment.state != COPY_FINISHED or segment_id in tables.unreferenced:
            return LISTED
        return SERVED if tables.offset_to_id.get(start) == segment_id else LOST

    def _add(self, add: Add) -> bool:
        known = self.segments.get(add.segment_id)
        if add.state != COPY_STARTED or (known and known.state, COPY_STARTED) not in LEGAL:
            return False
        for epoch in add.epochs:
            self.epochs.setdefault(epoch, Epoch()).unreferenced.add(add.segment_id)
        self.segments[add.segment_id] = Segment(
            added=add,
            state=add.state,
            broker_id=add.broker_id,
            event_timestamp_ms=add.event_timestamp_ms,
            custom_metadata=add.custom_metadata,
        )
        return True

    def _update(self, update: Update) -> bool:
        known = self.segments.get(update.segment_id)
        if known is None or update.state == COPY_STARTED:
            return False
        if (known.state, update.state) not in LEGAL:
            return False
        for tables, start, end in self._of(known):
            if update.state == COPY_FINISHED:
                tables.finish(update.segment_id, start, end)
            elif update.state == DELETE_STARTED:
                tables.begin_delete(update.segment_id, start)
            else:
                tables.unreferenced.discard(update.segment_id)
        if update.state == DELETE_FINISHED:
            del self.segments[update.segment_id]
            return True
        is_finished = update.state == COPY_FINISHED
        self.segments[update.segment_id] = replace(
            known,
            state=update.state,
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=update.custom_metadata,
            finished_at=self._position if is_finished else known.finished_at,
        )
        return True

    def _of(self, segment: Segment) -> Iterator[tuple[Epoch, int, int]]:
        for epoch, start in sorted(segment.added.epochs.items()):
            yield self.epochs[epoch], start, segment.epoch_end(epoch)

    def _epoch(self, epoch: int) -> Epoch:
        return self.epochs.get(epoch) or Epoch()

    def _finished_last(self, epoch: int, offset: int) -> bytes | None:
        holders = [one for one in self.segments.values() if one.holds(epoch, offset)]
        latest = max(holders, key=lambda one: one.finished_at, default=None)
        return None if latest is None else latest.added.segment_id


def _by_start(segment: Segment) -> tuple[int, bytes]:
    return segment.added.start_offset, segment.added.segment_id
