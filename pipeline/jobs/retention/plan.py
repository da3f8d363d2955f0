"""Which segments a broker would delete of one folded partition, in which order, and when. Pure.

Each run is `tiering.retention_plan.RetentionWalk`, which the expiration task walks, too, over
the same lists. What a run deletes is gone for the next, and the log begins where it raised its
start to; runs follow each other until one finds nothing, then the clock is moved to when the
segment that stopped it is due.

Rule: what only a broker knows (where the log starts and ends, what is not in the tier yet, its
leader epochs) is taken from `LocalFacts` if it is there; else the tier's newest history is the
log, nothing is only local, and no copy is under way but behind the newest finished segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.lineage import Lineage
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.answers import (
    Snapshot,
    list_all,
    list_epoch,
    metadata_of,
    summary,
)
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.pipeline.tables.lineage import lineage_of
from tierledger.tiering.local.leader_epochs import epochs_from
from tierledger.tiering.retention.plan import (
    UNLIMITED,
    Action,
    Bounds,
    LineageSize,
    Reason,
    RetentionWalk,
    Verdict,
    expiry,
)

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_OUTSIDE = {Reason.LOG_START_OFFSET, Reason.STALE_EPOCH}


class LocalFacts(NamedTuple):
    """What a broker knows of a partition, and the metadata does not."""

    log_start_offset: int = 0
    local_bytes: int = 0
    """Of local segments that are not in the tier."""
    log_end_offset: int | None = None
    """None: behind the newest finished segment."""
    leader_epochs: tuple[tuple[int, int], ...] | None = None
    """Epoch and first offset; none: as the segments tell it."""


UNKNOWN = LocalFacts()


class Question(NamedTuple):
    """What if retention were this; -1 of either keeps everything."""

    retention_ms: int
    retention_bytes: int
    now_ms: int
    until_ms: int
    """`now_ms` or later: runs follow until then, and nothing is written meanwhile."""


class Deletion(NamedTuple):
    """A segment that would go."""

    segment: RemoteLogSegmentMetadata
    reason: Reason
    run: int
    """Which run deletes it, from 1; runs that find nothing have no number."""
    at_ms: int
    """When that run is."""


class PartitionPlan:
    """The runs over one partition; iterate it once, then ask what is left."""

    def __init__(
        self, state: PartitionState, question: Question, local: LocalFacts = UNKNOWN
    ) -> None:
        """Take a state that nobody changes meanwhile."""
        self._question, self._local = question, local
        history = lineage_of(state)
        known = {} if history is None else history.leader_epochs
        if local.leader_epochs is not None:
            known = dict(local.leader_epochs)
        self._end = 0 if history is None else history.log_end_offset
        if local.log_end_offset is not None:
            self._end = local.log_end_offset
        self.log_start_offset = local.log_start_offset
        self._epochs = epochs_from(known, self.log_start_offset)
        if not self._epochs:
            self._epochs = dict(known)
        found = summary(state)
        self._finished_bytes = found.bytes_by_state[_FINISHED]
        self._lists = _Lists(state, found.leader_epochs)
        self._outside: tuple[object, int] | None = None
        self._blocked_until: int | None = None

    def __iter__(self) -> Iterator[Deletion]:
        now_ms, number = self._question.now_ms, 1
        while True:
            deleted = 0
            for segment, reason in self._run(now_ms):
                deleted += 1
                yield Deletion(segment, reason, number, now_ms)
            if deleted:
                number += 1
                continue
            coming = self._blocked_until
            if coming is None or not now_ms < coming <= self._question.until_ms:
                return
            now_ms = coming

    def _run(self, now_ms: int) -> Iterator[tuple[RemoteLogSegmentMetadata, Reason]]:
        """One run of the expiration task."""
        bounds = self._bounds(now_ms)
        walk = RetentionWalk(bounds)
        earliest = min(self._epochs, default=None)
        start = self.log_start_offset
        is_outside_changed = False
        freed = 0
        for segment, reason in self._due(walk, bounds, earliest):
            self._lists.drop(segment)
            if segment.state == _FINISHED:
                freed += max(0, segment.segment_size_in_bytes)
            is_outside_changed = is_outside_changed or reason in _OUTSIDE
            yield segment, reason
        self._finished_bytes -= freed
        self._lists.shrink()
        if is_outside_changed:
            self._outside = None
        if walk.new_log_start_offset is not None and walk.new_log_start_offset > start:
            self.log_start_offset = walk.new_log_start_offset
            self._epochs = epochs_from(self._epochs, self.log_start_offset)

    def _bounds(self, now_ms: int) -> Bounds:
        question, excess_max = self._question, None
        if question.retention_bytes > UNLIMITED:
            excess_max = (
                self._finished_bytes + self._local.local_bytes - question.retention_bytes
            )
        return Bounds(
            Lineage(self._epochs),
            self.log_start_offset,
            self._end,
            expiry(now_ms, question.retention_ms),
            excess_max,
        )

    def _due(
        self, walk: RetentionWalk, bounds: Bounds, earliest: int | None
    ) -> Iterator[tuple[RemoteLogSegmentMetadata, Reason]]:
        self._blocked_until = None
        yield from self._walk_lineage(walk, bounds)
        if earliest is not None:
            for epoch in self._lists.epochs_below(earliest):
                for segment in self._lists.of(epoch):
                    verdict = walk.offer_stale(segment, earliest)
                    if verdict.action == Action.DELETE:
                        yield segment, verdict.reason
        if self._lists.interrupted() > 0:
            for segment in self._lists.unlisted():
                verdict = walk.offer_interrupted(segment)
                if verdict.action == Action.DELETE:
                    yield segment, verdict.reason

    def _walk_lineage(
        self, walk: RetentionWalk, bounds: Bounds
    ) -> Iterator[tuple[RemoteLogSegmentMetadata, Reason]]:
        finished = self._finished_bytes
        for epoch in bounds.lineage.epochs:
            for segment in self._lists.of(epoch):
                verdict = walk.offer(segment)
                if verdict.action == Action.MEASURE:
                    walk.measured(self._excess(bounds, finished))
                    verdict = walk.offer(segment)
                if verdict.action == Action.DELETE:
                    yield segment, verdict.reason
                if verdict.action == Action.STOP:
                    self._note_blocked(segment, verdict)
                    return

    def _note_blocked(self, segment: RemoteLogSegmentMetadata, verdict: Verdict) -> None:
        kept_ms = self._question.retention_ms
        if verdict.reason == Reason.RETAINED and kept_ms > UNLIMITED:
            self._blocked_until = max(segment.max_timestamp_ms, 0) + kept_ms

    def _excess(self, bounds: Bounds, finished: int) -> int:
        """Bytes above `retention.bytes`, exactly, as of the run's beginning."""
        # What is out of the lineage stays out of it until this changes.
        key = bounds.lineage.epochs, bounds.lineage.offsets[1:]
        if self._outside is None or self._outside[0] != key:
            size = LineageSize(bounds)
            for epoch in bounds.lineage.epochs:
                for segment in self._lists.of(epoch, with_dropped=True):
                    size.add(segment)
            self._outside = key, finished - size.size_in_bytes
        local = self._local.local_bytes
        return finished - self._outside[1] + local - self._question.retention_bytes


class _Lists:
    """The segments of each leader epoch in the leader's order, less those that are gone."""

    def __init__(self, state: PartitionState, epochs: tuple[int, ...]) -> None:
        self._state = state
        self._tip = state.topic_id_partition
        self._epochs = epochs
        self._rows: dict[int, list[bytes]] = {}
        self._first: dict[int, int] = {}
        """Of each list, where it begins by now."""
        self._gone: set[bytes] = set()
        """Before this run."""
        self._going: set[bytes] = set()
        self._interrupted = state.count_by_state[RemoteLogSegmentState.DELETE_SEGMENT_STARTED]

    def epochs_below(self, epoch: int) -> list[int]:
        return [one for one in self._epochs if one < epoch]

    def interrupted(self) -> int:
        """Segments in DELETE_SEGMENT_STARTED that are still there."""
        return self._interrupted

    def of(
        self, epoch: int, *, with_dropped: bool = False
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Those of `epoch`; `with_dropped`, as they were when the run began."""
        for row in islice(self._rows_of(epoch), self._first.get(epoch, 0), None):
            segment_id = id_of_row(row)
            if segment_id in self._gone:
                continue
            if segment_id in self._going and not with_dropped:
                continue
            yield metadata_of(self._tip, row)

    def unlisted(self) -> Iterator[RemoteLogSegmentMetadata]:
        """All segments, in no order."""
        for row in list_all(Snapshot(self._state)):
            if id_of_row(row) not in self._gone and id_of_row(row) not in self._going:
                yield metadata_of(self._tip, row)

    def drop(self, segment: RemoteLogSegmentMetadata) -> None:
        """It is deleted in this run."""
        self._going.add(bytes(segment.remote_log_segment_id.id))
        if segment.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            self._interrupted -= 1

    def shrink(self) -> None:
        """The run is over."""
        if not self._going:
            return
        self._gone |= self._going
        self._going.clear()
        for epoch, rows in self._rows.items():
            first = self._first.get(epoch, 0)
            while first < len(rows) and id_of_row(rows[first]) in self._gone:
                first += 1
            self._first[epoch] = first

    def _rows_of(self, epoch: int) -> list[bytes]:
        rows = self._rows.get(epoch)
        if rows is None:
            listed = list_epoch(Snapshot(self._state, epoch), epoch)
            rows = self._rows[epoch] = [row for row in listed if row is not None]
        return rows
