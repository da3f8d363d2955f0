"""Decides segment by segment what retention deletes. Pure: no clock, no lists, no store.

The caller offers a `RetentionWalk` the segments of each local leader epoch, epochs ascending,
each in the order in which it is listed. The walk stops at the first segment that stays, so a
caller that lists lazily reads little more than what is due. `RetentionBounds` has only an upper
bound of the excess size. The exact size is measured once a segment is due by that bound: a
partition in which nothing is due is never summed up.
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
from tierledger.tiering.broker_version import BrokerVersion

UNLIMITED: Final = -1
"""Value of `retention.ms` and `retention.bytes` for no limit."""

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class Action(Enum):
    """What to do about an offered segment."""

    DELETE = auto()
    SKIP = auto()
    """The walk does not delete it; offer the next segment."""
    STOP = auto()
    """It stays, and so do all segments behind it."""
    MEASURE = auto()
    """The exact excess decides: call `measured`, then offer the same segment again."""


class Reason(Enum):
    """Why an action was chosen, as named in logs and counters."""

    TIME = "time"
    SIZE = "size"
    LOG_START_OFFSET = "log_start_offset"
    INTERRUPTED = "interrupted"
    """Its deletion had begun and was not finished."""
    STALE_EPOCH = "stale_epoch"
    """All its leader epochs are older than the oldest in the leader's log."""
    BEING_COPIED = "being_copied"
    OTHER_LINEAGE = "other_lineage"
    SEEN = "seen"
    """It was offered before under another of its epochs, or it is deleted already."""
    RETAINED = "retained"


class RetentionVerdict(NamedTuple):
    """What becomes of a segment, and why."""

    action: Action
    reason: Reason


@dataclass(frozen=True, slots=True)
class RetentionBounds:
    """State of a partition's log, and the limits of what is kept of it.

    Attributes:
        lineage: The log's leader epochs.
        log_start_offset: Segments that end before it may be deleted.
        log_end_offset: End of the local log (exclusive).
        expired_up_to_ms: Segments without a newer record than this are due; none: no limit.
        excess_max: Upper bound of the bytes above `retention.bytes`; none: no limit.
        being_copied: Segments that this broker is copying now.
    """

    lineage: Lineage
    log_start_offset: int
    log_end_offset: int
    expired_up_to_ms: int | None = None
    excess_max: int | None = None
    being_copied: Collection[RemoteLogSegmentId] = ()

    def holds(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether the segment belongs to this log's lineage."""
        return self.lineage.holds(
            segment.segment_leader_epochs, segment.end_offset, self.log_end_offset
        )


class RetentionWalk:
    """One pass over a partition's segments; make a new one for each run."""

    def __init__(self, bounds: RetentionBounds) -> None:
        self._bounds = bounds
        self._excess = 0 if bounds.excess_max is None else max(0, bounds.excess_max)
        self._is_exact = self._excess == 0
        self._freed = 0
        """Bytes that this walk's deletions take from the lineage; interrupted ones excluded."""
        self._seen: set[RemoteLogSegmentId] = set()
        self.interrupted = 0
        """Number of distinct segments offered in DELETE_SEGMENT_STARTED."""
        self.new_log_start_offset: int | None = None
        """Log start offset once all that is due by time or size is deleted; none: as it is."""

    def offer(self, segment: RemoteLogSegmentMetadata) -> RetentionVerdict:
        """The verdict on the next segment of the epoch, or on the next epoch's first."""
        bounds, segment_id = self._bounds, segment.remote_log_segment_id
        if segment_id in bounds.being_copied:
            return RetentionVerdict(Action.STOP, Reason.BEING_COPIED)
        if segment.state == _DELETED or segment_id in self._seen:
            return RetentionVerdict(Action.SKIP, Reason.SEEN)
        if segment.state == _DELETING:
            self.interrupted += 1
            return self._delete(segment, Reason.INTERRUPTED)
        is_held = bounds.holds(segment)
        if self._is_before_log_start(segment):
            return self._delete(segment, Reason.LOG_START_OFFSET, is_counted=is_held)
        if not is_held:
            return RetentionVerdict(Action.SKIP, Reason.OTHER_LINEAGE)
        expired_up_to = bounds.expired_up_to_ms
        if expired_up_to is not None and segment.max_timestamp_ms <= expired_up_to:
            return self._delete(segment, Reason.TIME, is_counted=True)
        size = max(0, segment.segment_size_in_bytes)
        if 0 < self._excess - self._freed >= size:
            if not self._is_exact:
                return RetentionVerdict(Action.MEASURE, Reason.SIZE)
            return self._delete(segment, Reason.SIZE, is_counted=True)
        return RetentionVerdict(Action.STOP, Reason.RETAINED)

    def measured(self, excess: int) -> None:
        """Take the exact number of bytes above `retention.bytes` when this walk began."""
        self._excess, self._is_exact = excess, True

    def offer_stale(
        self, segment: RemoteLogSegmentMetadata, earliest_epoch: int
    ) -> RetentionVerdict:
        """The verdict on a segment listed for an epoch before the log's `earliest_epoch`."""
        segment_id = segment.remote_log_segment_id
        if segment_id in self._bounds.being_copied:
            return RetentionVerdict(Action.SKIP, Reason.BEING_COPIED)
        if segment.state == _DELETED or segment_id in self._seen:
            return RetentionVerdict(Action.SKIP, Reason.SEEN)
        if segment.state == _DELETING:
            self.interrupted += 1
            return self._delete(segment, Reason.INTERRUPTED)
        if max(segment.segment_leader_epochs) < earliest_epoch:
            return self._delete(segment, Reason.STALE_EPOCH)
        return RetentionVerdict(Action.SKIP, Reason.RETAINED)

    def offer_interrupted(self, segment: RemoteLogSegmentMetadata) -> RetentionVerdict:
        """The verdict on a segment that was listed only to find interrupted deletions."""
        segment_id = segment.remote_log_segment_id
        if segment.state != _DELETING or segment_id in self._bounds.being_copied:
            return RetentionVerdict(Action.SKIP, Reason.RETAINED)
        if segment_id in self._seen:
            return RetentionVerdict(Action.SKIP, Reason.SEEN)
        self.interrupted += 1
        return self._delete(segment, Reason.INTERRUPTED)

    def _is_before_log_start(self, segment: RemoteLogSegmentMetadata) -> bool:
        # The log forgets epochs that end before its start. So a segment before the start is
        # usually outside the lineage, and only its offsets tell.
        first = self._bounds.lineage.first_epoch
        return (
            first is not None
            and max(segment.segment_leader_epochs) <= first
            and segment.end_offset < self._bounds.log_start_offset
        )

    def _delete(
        self, segment: RemoteLogSegmentMetadata, reason: Reason, *, is_counted: bool = False
    ) -> RetentionVerdict:
        self._seen.add(segment.remote_log_segment_id)
        if reason in {Reason.TIME, Reason.SIZE}:
            following = segment.end_offset + 1
            self.new_log_start_offset = max(following, self.new_log_start_offset or 0)
        if is_counted:
            # As in Kafka an unfinished copy reduces the excess, although the excess does not
            # include it: better to keep a segment too many than one too few.
            self._freed += max(0, segment.segment_size_in_bytes)
        return RetentionVerdict(Action.DELETE, reason)


class LineageSize:
    """Sums up the bytes that `retention.bytes` limits, from the lists of the log's epochs.

    It counts each finished segment of the lineage once. A segment of several epochs is in the
    list of each, so the sum of `remote_log_size` over the epochs would count it several times.
    """

    def __init__(self, bounds: RetentionBounds) -> None:
        self._bounds = bounds
        self._seen: set[RemoteLogSegmentId] = set()
        self.size_in_bytes = 0

    def add(self, segment: RemoteLogSegmentMetadata) -> None:
        if segment.state != _FINISHED:
            return
        if len(segment.segment_leader_epochs) > 1:  # Segments of one epoch are listed once.
            if segment.remote_log_segment_id in self._seen:
                return
            self._seen.add(segment.remote_log_segment_id)
        if self._bounds.holds(segment):
            self.size_in_bytes += max(0, segment.segment_size_in_bytes)


def expiry(now_ms: int, retention_ms: int, broker: BrokerVersion) -> int | None:
    """The newest timestamp (ms) that has expired under `retention.ms`; none if none has.

    A retention that reaches back beyond 1970 keeps everything.
    """
    if retention_ms <= UNLIMITED or now_ms < retention_ms:
        return None
    return now_ms - retention_ms - broker.keeps_at_limit
