"""Retention of one partition's remote log: Kafka's RLMExpirationTask, from counters and pages.

Kafka lists all segments of a partition two or three times per interval. Here one request for
the partition's counters is enough for most runs. Where segments must be listed, the list is
read page by page and left at the first segment behind which nothing can be due.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple

from tierledger.events.errors import Fenced, InvalidArgument, PartitionDeleted
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.lineage import Lineage
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.answers import PartitionSummary
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.broker_version import NEWEST, BrokerVersion
from tierledger.tiering.closing import closing
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.local.log import LocalLog
from tierledger.tiering.local.remote_offsets import find_highest_remote_offset
from tierledger.tiering.metrics.tier_metrics import (
    DELETE_LAG_BYTES,
    DELETE_LAG_SEGMENTS,
    SIZE_COMPUTATION_MS,
)
from tierledger.tiering.retention.walk import (
    UNLIMITED,
    Action,
    LineageSize,
    Reason,
    RetentionBounds,
    RetentionWalk,
    expiry,
)

_log = ProcessLog("tierledger.tiering")

SEGMENTS_PER_RUN_MAX = 10_000
"""Segments that one run deletes at most; the next run goes on. Each takes 1 KB of memory."""

_OUTSIDE = {Reason.LOG_START_OFFSET, Reason.STALE_EPOCH}
"""Reasons for which segments outside the log's lineage are deleted."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a partition is kept; -1 of either: all of it.

    Attributes:
        retention_ms: Segments whose newest record is older are deleted; before Kafka 4.3,
            also those that are exactly as old.
        retention_bytes: The oldest segments are deleted while the local and remote log
            together are larger than this. A segment stays if less would be left without it.
        broker: The version of Kafka whose rules hold.
    """

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    broker: BrokerVersion = NEWEST

    def __post_init__(self) -> None:
        for name, value in (("ms", self.retention_ms), ("bytes", self.retention_bytes)):
            if value < UNLIMITED:
                raise InvalidArgument(f"retention.{name}: expected -1 or more, got {value}")


class DueSegment(NamedTuple):
    """A segment that retention deletes, and why."""

    segment: RemoteLogSegmentMetadata
    reason: Reason

    @property
    def size_in_bytes(self) -> int:
        return max(0, self.segment.segment_size_in_bytes)


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """What one run did.

    Attributes:
        deleted: The deleted segments, in the order of deletion.
        log_start_offset: The new log start offset; none if it was not raised.
        is_complete: Whether nothing else is due. False after `cancel`, and if more was due
            than one run may delete.
    """

    deleted: tuple[DueSegment, ...]
    log_start_offset: int | None
    is_complete: bool


class ExpirationTask:
    """Deletes the segments that are due in a partition that this broker leads.

    The time is that of `CountedDeletions.retention_clock`. The owner calls `run_once` at every
    interval, one call at a time. `retention` may be replaced between two runs.
    """

    def __init__(
        self,
        log: LocalLog,
        deletions: CountedDeletions,
        retention: Retention,
        being_copied: Callable[[], Collection[RemoteLogSegmentId]],
    ) -> None:
        """`being_copied` names the segments that this broker's copy task works on."""
        self.retention = retention
        self._local = log
        self._tip = log.topic_id_partition
        self._deletions = deletions
        self._store = deletions.store
        self._metrics = deletions.metrics
        self._being_copied = being_copied
        self._failed: set[RemoteLogSegmentId] = set()
        self._outside: tuple[object, int] | None = None
        """A lineage, and the bytes of the finished segments outside it: see `_excess`."""
        self._is_cancelled = False

    def cancel(self) -> None:
        """Begin no further deletion; a deletion that has begun is completed."""
        self._is_cancelled = True

    async def run_once(self) -> RetentionResult:
        """Find the segments due by time, size, log start or leader epoch, and delete them.

        The log start offset is raised first, so that no reader is pointed to records that are
        being deleted. Interrupted deletions are completed, another broker's too. If a run is
        stopped at any point, the next one goes on from there.

        Raises:
            RetryableError: The metadata cannot answer now; nothing was deleted.
            PartitionDeleted: The partition was deleted.
            Fenced: Another broker leads, and runs retention.
            RemoteStorageError, OSError: One deletion failed, and no later one was begun. The
                next run tries the failed segment last.
        """
        try:
            return await self._run()
        except (PartitionDeleted, Fenced):
            self._metrics.forget(self._tip)
            raise

    async def _run(self) -> RetentionResult:
        summary = await self._store.partition_summary(self._tip)
        count = sum(summary.count_by_state)
        self._metrics.set_size(self._tip, summary)
        plan = self._planned(summary)
        if count:
            await self._fill(plan)
        if self._is_cancelled:
            return RetentionResult((), None, is_complete=False)
        if any(one.reason in _OUTSIDE for one in plan.due):
            self._outside = None
        start = await self._raise_log_start(plan.walk.new_log_start_offset)
        deleted = await self._delete(plan.due)
        is_complete = len(deleted) == len(plan.due) and not plan.is_full
        return RetentionResult(tuple(deleted), start, is_complete)

    def _planned(self, summary: PartitionSummary) -> _Plan:
        log, retention = self._local, self.retention
        excess_max = None
        if retention.retention_bytes > UNLIMITED:
            # The local log learns late which offsets are remote, so some segments may count
            # twice here: this is an upper bound of the excess.
            local_only = self._local_only_bytes(log.highest_offset_in_remote_storage)
            excess_max = _finished(summary) + local_only - retention.retention_bytes
            self._metrics.set(SIZE_COMPUTATION_MS, self._tip, 0)
        bounds = RetentionBounds(
            lineage=Lineage(log.leader_epochs),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            expired_up_to_ms=expiry(
                self._deletions.retention_clock.now_ms(),
                retention.retention_ms,
                retention.broker,
            ),
            excess_max=excess_max,
            being_copied=frozenset(self._being_copied()),
        )
        return _Plan(summary, bounds)

    def _local_only_bytes(self, remote_up_to: int) -> int:
        segments = self._local.segments()
        return sum(one.size_in_bytes for one in segments if one.base_offset > remote_up_to)

    # Finding the segments that are due.

    async def _fill(self, plan: _Plan) -> None:
        earliest = min(self._local.leader_epochs, default=None)
        await self._walk_lineage(plan)
        if earliest is not None:
            await self._walk_stale(plan, earliest)
        interrupted = plan.summary.count_by_state[RemoteLogSegmentState.DELETE_SEGMENT_STARTED]
        if interrupted > plan.walk.interrupted:
            await self._find_interrupted(plan, interrupted)

    async def _walk_lineage(self, plan: _Plan) -> None:
        listed = set(plan.summary.leader_epochs)
        for epoch in plan.bounds.lineage.epochs:
            if epoch not in listed:
                continue
            async with self._listed(epoch) as segments:
                async for segment in segments:
                    verdict = plan.walk.offer(segment)
                    if verdict.action == Action.MEASURE:
                        plan.walk.measured(await self._excess(plan))
                        verdict = plan.walk.offer(segment)
                    if verdict.action == Action.DELETE:
                        plan.due.append(DueSegment(segment, verdict.reason))
                    if verdict.action == Action.STOP or self._ends(plan):
                        return

    async def _walk_stale(self, plan: _Plan, earliest: int) -> None:
        for epoch in plan.summary.leader_epochs:
            if epoch >= earliest:
                return
            async with self._listed(epoch) as segments:
                async for segment in segments:
                    if self._ends(plan):
                        return
                    verdict = plan.walk.offer_stale(segment, earliest)
                    if verdict.action == Action.DELETE:
                        plan.due.append(DueSegment(segment, verdict.reason))

    async def _find_interrupted(self, plan: _Plan, expected: int) -> None:
        async with self._listed(None) as segments:
            async for segment in segments:
                if plan.walk.interrupted >= expected or self._ends(plan):
                    return
                verdict = plan.walk.offer_interrupted(segment)
                if verdict.action == Action.DELETE:
                    plan.due.append(DueSegment(segment, verdict.reason))

    async def _excess(self, plan: _Plan) -> int:
        """The exact number of bytes above `retention.bytes`."""
        lineage = plan.bounds.lineage
        # A segment is in or out of the lineage until the lineage changes, and this broker's new
        # copies are all in it. So the bytes outside it are measured once and remembered.
        key = lineage.epochs, lineage.offsets[1:]
        if self._outside is None or self._outside[0] != key:
            size = await self._measured(plan)
            if plan.finished_bytes == _finished(await self._store.partition_summary(self._tip)):
                self._outside = key, plan.finished_bytes - size
        else:
            size = plan.finished_bytes - self._outside[1]
        # Asked after the finished bytes: a copy that finishes in between is at most missing
        # from the sum. In the other order it could count twice, and too much be deleted.
        highest = await find_highest_remote_offset(self._local, self._store)
        local_only = self._local_only_bytes(highest.offset)
        return size + local_only - self.retention.retention_bytes

    async def _measured(self, plan: _Plan) -> int:
        """Bytes of the lineage's finished segments; lists every epoch of it once."""
        monotonic_s = self._deletions.monotonic_s
        began_s = monotonic_s()
        size = LineageSize(plan.bounds)
        for epoch in plan.bounds.lineage.epochs:
            if epoch in plan.summary.leader_epochs:
                async with self._listed(epoch) as segments:
                    async for segment in segments:
                        size.add(segment)
                        if self._is_cancelled:  # The caller will not use the sum.
                            return 0
        took_s = monotonic_s() - began_s
        self._metrics.set(SIZE_COMPUTATION_MS, self._tip, int(took_s * 1000))
        return size.size_in_bytes

    def _listed(
        self, epoch: int | None
    ) -> AbstractAsyncContextManager[AsyncIterator[RemoteLogSegmentMetadata]]:
        return closing(self._store.list_remote_log_segments(self._tip, epoch))

    def _ends(self, plan: _Plan) -> bool:
        """Whether the search ends here; the plan notes it if it is full."""
        plan.is_full = len(plan.due) >= SEGMENTS_PER_RUN_MAX
        return plan.is_full or self._is_cancelled

    # Deleting them.

    async def _raise_log_start(self, offset: int | None) -> int | None:
        if offset is None or offset <= self._local.log_start_offset:
            return None
        # Raised before any deletion: a reader of these offsets must get "out of range" and
        # never meet a hole in the log (KAFKA-15352).
        await self._local.raise_log_start_offset(offset)
        _log.info("log start raised", partition=str(self._tip), offset=offset)
        return offset

    async def _delete(self, due: list[DueSegment]) -> list[DueSegment]:
        """Delete `due`; return the deleted ones: all, unless the task was cancelled."""
        # Segments that failed before come last: a lasting failure holds up no other segment.
        self._failed &= {one.segment.remote_log_segment_id for one in due}
        due = sorted(due, key=lambda one: one.segment.remote_log_segment_id in self._failed)
        lag_bytes = sum(one.size_in_bytes for one in due)
        deleted: list[DueSegment] = []
        for at, one in enumerate(due):
            self._set_lag(lag_bytes, len(due) - at)
            if self._is_cancelled:
                return deleted
            segment_id = one.segment.remote_log_segment_id
            self._failed.add(segment_id)
            await self._deletions.delete(one.segment, one.reason.value)
            self._failed.discard(segment_id)
            lag_bytes -= one.size_in_bytes
            deleted.append(one)
        self._set_lag(0, 0)
        return deleted

    def _set_lag(self, size_in_bytes: int, segments: int) -> None:
        self._metrics.set(DELETE_LAG_BYTES, self._tip, size_in_bytes)
        self._metrics.set(DELETE_LAG_SEGMENTS, self._tip, segments)


class _Plan:
    """What one run has found so far. `is_full`: no more may be deleted in this run."""

    def __init__(self, summary: PartitionSummary, bounds: RetentionBounds) -> None:
        self.summary = summary
        self.bounds = bounds
        self.finished_bytes = _finished(summary)
        self.walk = RetentionWalk(bounds)
        self.due: list[DueSegment] = []
        self.is_full = False


def _finished(summary: PartitionSummary) -> int:
    return summary.bytes_by_state[RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
