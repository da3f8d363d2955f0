"""Removes what copies left behind that ended between their first and their last word.

Kafka leaves such entries to retention, which may take them for served data or never meet them.
Here the leader knows that nobody but itself can finish a copy any more, and that is enough to
remove them: see docs/adr/0022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.events.errors import Fenced, PartitionDeleted, RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.answers import PartitionSummary

if TYPE_CHECKING:
    from tierledger.tiering.deletion.counted_deletions import CountedDeletions

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED


class DanglingCopies:
    """Entries in COPY_SEGMENT_STARTED of one partition that no running copy will finish.

    Those of this broker are removed at once; another's when the grace is over, counted from
    when they were first seen here: a copy that was under way when its broker stopped to lead
    may still be sending data. One whose last word may yet arrive (`unsettled`) is left until
    its offsets are remote otherwise: finished and deleted at once, it would still have told
    the metadata that they are.
    """

    def __init__(self, deletions: CountedDeletions, grace_ms: int) -> None:
        self._deletions = deletions
        self._grace_ms = grace_ms
        self.unsettled: dict[RemoteLogSegmentId, int] = {}
        """Copies of which nobody knows whether they finished, with their end offsets."""
        self._seen_at: dict[RemoteLogSegmentId, int] = {}
        """Entries that are left for now, and when each was first seen."""

    async def clean(
        self, tip: TopicIdPartition, summary: PartitionSummary, copied_offset: int
    ) -> int:
        """Remove what may be removed, while no copy is running; how many that was.

        Lists nothing unless `summary` counts entries that are not among those left for now.
        What cannot be removed is counted and tried again the next time.

        Raises:
            Fenced, PartitionDeleted: There is nothing to lead any more.
            RetryableError: The list could not be made now.
        """
        now_ms = self._deletions.clock.now_ms()
        started = summary.count_by_state[_STARTED]
        if started == 0:
            self._seen_at.clear()
            return 0
        if started <= len(self._seen_at) and not self._is_any_due(now_ms, copied_offset):
            return 0
        found = [
            segment
            async for segment in self._deletions.store.list_remote_log_segments(tip)
            if segment.state == _STARTED
        ]
        seen_at, self._seen_at = self._seen_at, {}
        listed = {segment.remote_log_segment_id for segment in found}
        self.unsettled = {one: end for one, end in self.unsettled.items() if one in listed}
        removed = 0
        for segment in found:
            segment_id = segment.remote_log_segment_id
            first_seen = seen_at.get(segment_id, now_ms)
            if self._may_go(segment, copied_offset, now_ms - first_seen):
                if await self._remove(segment):
                    removed += 1
            else:
                self._seen_at[segment_id] = first_seen
        return removed

    def _is_any_due(self, now_ms: int, copied_offset: int) -> bool:
        grace_is_over = any(now_ms - seen >= self._grace_ms for seen in self._seen_at.values())
        return grace_is_over or any(end <= copied_offset for end in self.unsettled.values())

    def _may_go(
        self, segment: RemoteLogSegmentMetadata, copied_offset: int, age_ms: int
    ) -> bool:
        end = self.unsettled.get(segment.remote_log_segment_id)
        if end is not None:
            return end <= copied_offset
        return segment.broker_id == self._deletions.broker_id or age_ms >= self._grace_ms

    async def _remove(self, segment: RemoteLogSegmentMetadata) -> bool:
        try:
            await self._deletions.delete(segment, "dangling copy")
        except (Fenced, PartitionDeleted):
            raise
        except RemoteStorageError:
            return False
        self.unsettled.pop(segment.remote_log_segment_id, None)
        return True
