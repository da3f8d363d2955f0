"""A trace's segments, folded and searched by brute force, to check answers against.

It shares no table with the state that gives the answers: segments are in a plain dict, and
every question is a scan. Only the wire codec and the table of legal transitions are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tierledger.conformance.answers import After
from tierledger.conformance.trace import TraceRecord
from tierledger.events.identifiers import Uuid
from tierledger.events.kafka.codec import decode
from tierledger.events.lifecycle import (
    SEGMENT_TRANSITIONS,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)


@dataclass(slots=True)
class RecordedSegment:
    """A segment as it was added, and its present state."""

    added: RemoteLogSegmentMetadata
    state: RemoteLogSegmentState
    last: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate
    """The last record of the segment, which has its broker, time and custom metadata."""

    def holds(self, epoch: int, offset: int) -> bool:
        """Whether the segment is finished and has `offset` in `epoch`."""
        epochs = self.added.segment_leader_epochs
        if self.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED or epoch not in epochs:
            return False
        return epochs[epoch] <= offset <= self.ends()[epoch]

    def ends(self) -> dict[int, int]:
        """The last offset of each leader epoch in the segment."""
        epochs = self.added.segment_leader_epochs
        ends = {}
        for epoch in epochs:
            later = [other for other in epochs if other > epoch]
            ends[epoch] = epochs[min(later)] - 1 if later else self.added.end_offset
        return ends


@dataclass(slots=True)
class RecordedPartition:
    """One partition's segments by id as text; empty once its deletion is finished."""

    segments: dict[str, RecordedSegment] = field(default_factory=dict)
    deleted: bool = False
    highest: dict[int, int] = field(default_factory=dict)
    """By leader epoch: the highest offset of a segment that ever finished in it."""
    deletion: RemotePartitionDeleteState | None = None
    """State of the whole partition's deletion."""

    def of_epoch(self, epoch: int) -> set[str]:
        """Ids of all segments of `epoch`, in any state."""
        return {
            one
            for one, segment in self.segments.items()
            if epoch in segment.added.segment_leader_epochs
        }

    def finished_at(self, epoch: int, offset: int) -> list[str]:
        """Ids of the finished segments that hold `offset` in `epoch`."""
        return [one for one, found in self.segments.items() if found.holds(epoch, offset)]

    def txn_candidates(self, epoch: int, offset: int) -> set[str]:
        """Ids at which a walk over transaction indexes can end."""
        ends: set[str] = set()
        seen: set[int] = set()
        ahead = [offset]
        while ahead:
            offset = ahead.pop()
            if offset in seen:
                continue
            seen.add(offset)
            for one in self.finished_at(epoch, offset):
                added = self.segments[one].added
                if added.txn_index_empty:
                    ahead.append(added.end_offset + 1)
                else:
                    ends.add(one)
        return ends

    def sizes(self, ids: Iterable[str]) -> int:
        """Total bytes of these segments."""
        return sum(self.segments[one].added.segment_size_in_bytes for one in ids)

    def add(self, added: RemoteLogSegmentMetadata) -> None:
        """Apply a recorded segment, or drop it as Kafka's consumer does."""
        one = str(added.remote_log_segment_id.id)
        started = RemoteLogSegmentState.COPY_SEGMENT_STARTED
        if added.state is started and self._may_become(one, started):
            self.segments[one] = RecordedSegment(added, started, added)

    def update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Apply a recorded update, or drop it as Kafka's consumer does."""
        one = str(update.remote_log_segment_id.id)
        started = RemoteLogSegmentState.COPY_SEGMENT_STARTED
        if update.state is started or not self._may_become(one, update.state):
            return
        if update.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            del self.segments[one]
        else:
            self.segments[one].state, self.segments[one].last = update.state, update
        if update.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            for epoch, end in self.segments[one].ends().items():
                self.highest[epoch] = max(end, self.highest.get(epoch, -1))

    def _may_become(self, one: str, target: RemoteLogSegmentState) -> bool:
        known = self.segments.get(one)
        return (known and known.state, target) in SEGMENT_TRANSITIONS


class RecordedTopic:
    """All partitions of a trace, folded step by step."""

    def __init__(self, records: Iterable[TraceRecord]) -> None:
        recorded: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for record in records:
            if record.value is not None:
                recorded[record.partition].append((record.offset, record.value))
        self._ahead = {one: iter(sorted(values)) for one, values in recorded.items()}
        self._next = {one: next(values, None) for one, values in self._ahead.items()}
        self._partitions: dict[tuple[Uuid, int], RecordedPartition] = {}

    def advance(self, after: After) -> None:
        """Apply all records up to `after` that are not applied yet."""
        for one in self._ahead:
            for value in self._until(one, after):
                self.apply(value)

    def partition(self, topic_id: Uuid, partition: int) -> RecordedPartition:
        """The partition after the applied records; empty before its first."""
        return self._partitions.get((topic_id, partition)) or RecordedPartition()

    def _until(self, one: int, after: Mapping[int, int] | None) -> Iterator[bytes]:
        while (record := self._next[one]) is not None:
            if after is not None and record[0] > after.get(one, -1):
                return
            self._next[one] = next(self._ahead[one], None)
            yield record[1]

    def apply(self, value: bytes) -> None:
        """Apply one record; a partition's records have to come in their order."""
        match decode(value).value:
            case RemoteLogSegmentMetadata() as added:
                of = added.remote_log_segment_id.topic_id_partition
                if not self._of(of.topic_id, of.partition).deleted:
                    self._of(of.topic_id, of.partition).add(added)
            case RemoteLogSegmentMetadataUpdate() as update:
                of = update.remote_log_segment_id.topic_id_partition
                self._of(of.topic_id, of.partition).update(update)
            case RemotePartitionDeleteMetadata() as deletion:
                of = deletion.topic_id_partition
                self._of(of.topic_id, of.partition).deletion = deletion.state
                if deletion.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
                    gone = RecordedPartition(deleted=True)
                    self._partitions[of.topic_id, of.partition] = gone
            case _:
                pass  # A snapshot names no partition; Kafka writes none to the topic.

    def _of(self, topic_id: Uuid, partition: int) -> RecordedPartition:
        return self._partitions.setdefault((topic_id, partition), RecordedPartition())
