"""Which segments a broker would delete of one folded partition, in which order, and when. Pure.

Each simulated run uses `tiering.retention.walk.RetentionWalk` over the same lists as the
expiration task. The next run sees the partition without the deleted segments, and with the
raised log start offset. When a run finds nothing, the clock moves to the time at which the
segment that stopped it is due.

Rule: facts that only a broker knows (log start and end, bytes that are not in the tier yet,
leader epochs) come from `LocalFacts` where given. Else the tier's newest history is the whole
log, nothing is only local, and copies run only behind the newest finished segment.
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
from tierledger.tiering.broker_version import NEWEST, BrokerVersion
from tierledger.tiering.local.leader_epochs import epochs_from
from tierledger.tiering.retention.walk import (
    UNLIMITED,
    Action,
    LineageSize,
    Reason,
    RetentionBounds,
    RetentionVerdict,
    RetentionWalk,
    expiry,
)

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_OUTSIDE = {Reason.LOG_START_OFFSET, Reason.STALE_EPOCH}


class LocalFacts(NamedTuple):
    """Facts about a partition that its broker knows and the metadata does not have."""

    log_start_offset: int = 0
    local_bytes: int = 0
    """Bytes of local segments that are not in the tier."""
    log_end_offset: int | None = None
    """None: the end of the newest finished segment."""
    leader_epochs: tuple[tuple[int, int], ...] | None = None
    """Epochs with their first offsets; none: as derived from the segments."""


UNKNOWN = LocalFacts()


class RetentionQuestion(NamedTuple):
    """The retention to simulate; -1 is no limit."""

    retention_ms: int
    retention_bytes: int
    now_ms: int
    until_ms: int
    """End of the simulation, `now_ms` or later. Nothing is written to the log until then."""
    broker: BrokerVersion = NEWEST
    """The version of Kafka whose rules hold."""


class Deletion(NamedTuple):
    """A segment that would be deleted."""

    segment: RemoteLogSegmentMetadata
    reason: Reason
    run: int
    """Number of the run that deletes it, from 1; runs that find nothing have no number."""
    at_ms: int
    """Time of that run."""


class PartitionPlan:
    """The deletions of all runs over one partition; iterate it once.

    Afterwards `log_start_offset` is the final one.
    """

    def __init__(
        self, state: PartitionState, question: RetentionQuestion, local: LocalFacts = UNKNOWN
    ) -> None:
        """Take `state`, which must not change during the iteration."""
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

    def _bounds(self, now_ms: int) -> RetentionBounds:
        question, excess_max = self._question, None
        if question.retention_bytes > UNLIMITED:
            excess_max = (
                self._finished_bytes + self._local.local_bytes - question.retention_bytes
            )
        return RetentionBounds(
            Lineage(self._epochs),
            self.log_start_offset,
            self._end,
            expiry(now_ms, question.retention_ms, question.broker),
            excess_max,
        )

    def _due(
        self, walk: RetentionWalk, bounds: RetentionBounds, earliest: int | None
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
        self, walk: RetentionWalk, bounds: RetentionBounds
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

    def _note_blocked(
        self, segment: RemoteLogSegmentMetadata, verdict: RetentionVerdict
    ) -> None:
        kept_ms = self._question.retention_ms
        if verdict.reason == Reason.RETAINED and kept_ms > UNLIMITED:
            due_ms = max(segment.max_timestamp_ms, 0) + kept_ms
            self._blocked_until = due_ms + self._question.broker.keeps_at_limit

    def _excess(self, bounds: RetentionBounds, finished: int) -> int:
        """The exact number of bytes above `retention.bytes` when the run began."""
        # A segment outside the lineage stays outside until the lineage changes.
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
    """The segments of each leader epoch in the leader's order, without deleted ones."""

    def __init__(self, state: PartitionState, epochs: tuple[int, ...]) -> None:
        self._state = state
        self._tip = state.topic_id_partition
        self._epochs = epochs
        self._rows: dict[int, list[bytes]] = {}
        self._first: dict[int, int] = {}
        """By epoch: index of the first row that is not deleted."""
        self._gone: set[bytes] = set()
        """Segments deleted before this run."""
        self._going: set[bytes] = set()
        """Segments deleted in this run."""
        self._interrupted = state.count_by_state[RemoteLogSegmentState.DELETE_SEGMENT_STARTED]

    def epochs_below(self, epoch: int) -> list[int]:
        return [one for one in self._epochs if one < epoch]

    def interrupted(self) -> int:
        """Number of segments still in DELETE_SEGMENT_STARTED."""
        return self._interrupted

    def of(
        self, epoch: int, *, with_dropped: bool = False
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """The segments of `epoch`; with `with_dropped`, as they were when the run began."""
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
        """Note that `segment` is deleted in this run."""
        self._going.add(bytes(segment.remote_log_segment_id.id))
        if segment.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            self._interrupted -= 1

    def shrink(self) -> None:
        """End the run: forget the segments that it deleted."""
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
