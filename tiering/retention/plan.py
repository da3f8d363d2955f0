"""Which segments retention deletes, asked one by one. Pure: no clock, no lists, no store.

A `RetentionWalk` is offered the segments of each local leader epoch, ascending, as they are
listed, and says what becomes of each. It stops at the first one that is to stay, so a
caller that lists lazily reads little more than what is due. What `Bounds` has only a
limit of is measured when it matters: a partition in which nothing is due is never summed up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.lineage import Lineage
from tierledger.events.metadata import RemoteLogSegmentMetadata

UNLIMITED: Final = -1
"""Of `retention.ms` and `retention.bytes`: nothing is deleted for that."""

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class Action(Enum):
    """What to do about an offered segment."""

    DELETE = auto()
    SKIP = auto()
    """It stays or is none of retention's business; offer the next."""
    STOP = auto()
    """It stays, and so does all behind it."""
    MEASURE = auto()
    """Only the exact excess can tell: call `measured`, then offer it again."""


class Reason(Enum):
    """Why, as logs and counters say it."""

    TIME = "time"
    SIZE = "size"
    LOG_START_OFFSET = "log_start_offset"
    INTERRUPTED = "interrupted"
    """Its deletion had begun."""
    STALE_EPOCH = "stale_epoch"
    """All its leader epochs are older than any the leader knows."""
    BEING_COPIED = "being_copied"
    OTHER_LINEAGE = "other_lineage"
    SEEN = "seen"
    """It was offered before, with another of its epochs; or it is deleted."""
    RETAINED = "retained"


class Verdict(NamedTuple):
    """What becomes of a segment, and why."""

    action: Action
    reason: Reason


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a partition's log is like, and what may be kept of it.

    Attributes:
        lineage: The log's leader epochs.
        log_start_offset: What lies before it may be deleted.
        log_end_offset: Of the local log.
        expired_up_to_ms: Segments whose newest record is this old are due; none: no limit.
        excess_max: Bytes above `retention.bytes`, at most; none: no limit.
        being_copied: Segments that this broker is copying now.
    """

    lineage: Lineage
    log_start_offset: int
    log_end_offset: int
    expired_up_to_ms: int | None = None
    excess_max: int | None = None
    being_copied: Collection[RemoteLogSegmentId] = ()

    def holds(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether the segment is part of this log's history."""
        return self.lineage.holds(
            segment.segment_leader_epochs, segment.end_offset, self.log_end_offset
        )


class RetentionWalk:
    """One look at a partition's segments; made anew for each run."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._excess = 0 if bounds.excess_max is None else max(0, bounds.excess_max)
        self._is_exact = self._excess == 0
        self._freed = 0
        """Counted bytes that go for another reason than size."""
        self._seen: set[RemoteLogSegmentId] = set()
        self.interrupted = 0
        """Segments offered that were in DELETE_SEGMENT_STARTED, each once."""
        self.new_log_start_offset: int | None = None
        """Where the log begins once everything that is due by time and size is gone."""

    def offer(self, segment: RemoteLogSegmentMetadata) -> Verdict:
        """What becomes of the next segment of the epoch, or of the next epoch's first."""
        bounds, segment_id = self._bounds, segment.remote_log_segment_id
        if segment_id in bounds.being_copied:
            return Verdict(Action.STOP, Reason.BEING_COPIED)
        if segment.state == _DELETED or segment_id in self._seen:
            return Verdict(Action.SKIP, Reason.SEEN)
        if segment.state == _DELETING:
            self.interrupted += 1
            return self._delete(segment, Reason.INTERRUPTED)
        is_held = bounds.holds(segment)
        if self._is_before_log_start(segment):
            return self._delete(segment, Reason.LOG_START_OFFSET, is_counted=is_held)
        if not is_held:
            return Verdict(Action.SKIP, Reason.OTHER_LINEAGE)
        expired_up_to = bounds.expired_up_to_ms
        if expired_up_to is not None and segment.max_timestamp_ms <= expired_up_to:
            return self._delete(segment, Reason.TIME, is_counted=True)
        size = max(0, segment.segment_size_in_bytes)
        if 0 < self._excess - self._freed >= size:
            if not self._is_exact:
                return Verdict(Action.MEASURE, Reason.SIZE)
            return self._delete(segment, Reason.SIZE, is_counted=True)
        return Verdict(Action.STOP, Reason.RETAINED)

    def measured(self, excess: int) -> None:
        """The exact number of bytes above `retention.bytes`, as of this walk's beginning."""
        self._excess, self._is_exact = excess, True

    def offer_stale(self, segment: RemoteLogSegmentMetadata, earliest_epoch: int) -> Verdict:
        """What becomes of a segment listed for an epoch before the log's `earliest_epoch`."""
        segment_id = segment.remote_log_segment_id
        if segment_id in self._bounds.being_copied:
            return Verdict(Action.SKIP, Reason.BEING_COPIED)
        if segment.state == _DELETED or segment_id in self._seen:
            return Verdict(Action.SKIP, Reason.SEEN)
        if segment.state == _DELETING:
            self.interrupted += 1
            return self._delete(segment, Reason.INTERRUPTED)
        if max(segment.segment_leader_epochs) < earliest_epoch:
            return self._delete(segment, Reason.STALE_EPOCH)
        return Verdict(Action.SKIP, Reason.RETAINED)

    def offer_interrupted(self, segment: RemoteLogSegmentMetadata) -> Verdict:
        """What becomes of a segment that was listed only to find interrupted deletions."""
        segment_id = segment.remote_log_segment_id
        if segment.state != _DELETING or segment_id in self._bounds.being_copied:
            return Verdict(Action.SKIP, Reason.RETAINED)
        if segment_id in self._seen:
            return Verdict(Action.SKIP, Reason.SEEN)
        self.interrupted += 1
        return self._delete(segment, Reason.INTERRUPTED)

    def _is_before_log_start(self, segment: RemoteLogSegmentMetadata) -> bool:
        # The log forgets epochs that end before its start, so such a segment is out of the
        # lineage as a rule, and has to be asked for by its offsets.
        first = self._bounds.lineage.first_epoch
        return (
            first is not None
            and max(segment.segment_leader_epochs) <= first
            and segment.end_offset < self._bounds.log_start_offset
        )

    def _delete(
        self, segment: RemoteLogSegmentMetadata, reason: Reason, *, is_counted: bool = False
    ) -> Verdict:
        self._seen.add(segment.remote_log_segment_id)
        if reason in {Reason.TIME, Reason.SIZE}:
            following = segment.end_offset + 1
            self.new_log_start_offset = max(following, self.new_log_start_offset or 0)
        if is_counted:
            # Kafka lets an unfinished copy use up the excess, too, though it is not in it:
            # rather a segment too many than one too few.
            self._freed += max(0, segment.segment_size_in_bytes)
        return Verdict(Action.DELETE, reason)


class LineageSize:
    """The bytes that `retention.bytes` is about, summed up over lists of the log's epochs.

    Finished segments of the log's history, each once: a segment of several epochs is listed
    for each of them, so the sum of `remote_log_size` over the epochs counts it several times.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._seen: set[RemoteLogSegmentId] = set()
        self.size_in_bytes = 0

    def add(self, segment: RemoteLogSegmentMetadata) -> None:
        if segment.state != _FINISHED:
            return
        if len(segment.segment_leader_epochs) > 1:  # The others are listed only once.
            if segment.remote_log_segment_id in self._seen:
                return
            self._seen.add(segment.remote_log_segment_id)
        if self._bounds.holds(segment):
            self.size_in_bytes += max(0, segment.segment_size_in_bytes)


def expiry(now_ms: int, retention_ms: int) -> int | None:
    """The newest time that is due under `retention.ms`; none if nothing expires.

    A retention that reaches back to before 1970 keeps everything.
    """
    if retention_ms <= UNLIMITED or now_ms < retention_ms:
        return None
    return now_ms - retention_ms
