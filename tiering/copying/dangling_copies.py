"""Removes copies that were announced and never finished: their data and their entries.

Kafka leaves such entries to retention, which may take them for served data or never meet them.
Here earlier leaders are fenced, so only this leader can still finish a copy. It may therefore
remove every unfinished copy that is not its own running one: see docs/adr/0022.
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

    This broker's own entries are removed at once. Another broker's entry is removed when the
    grace is over, counted from when this leader first saw it: a former leader that does not
    know yet that it is fenced may still be sending data.

    A copy whose finishing update is in doubt (`unsettled`) stays until another segment makes
    its offsets remote. `highest_offset_for_epoch` never goes down: if that late update were
    applied and the segment then deleted, the next leader would take the offsets for remote,
    and its broker would drop the only copy.
    """

    def __init__(self, deletions: CountedDeletions, grace_ms: int) -> None:
        self._deletions = deletions
        self._grace_ms = grace_ms
        self.unsettled: dict[RemoteLogSegmentId, int] = {}
        """Copies whose finishing update is in doubt, with their end offsets."""
        self._seen_at: dict[RemoteLogSegmentId, int] = {}
        """Entries that may not be removed yet, and when each was first seen (ms)."""

    async def clean(
        self, tip: TopicIdPartition, summary: PartitionSummary, copied_offset: int
    ) -> int:
        """Remove the entries that may go; return how many. Call it while no copy is running.

        Segments are listed only if `summary` counts an entry that was not seen before, or if
        an entry seen before is due. A failed deletion is counted and retried by the next call.

        Raises:
            Fenced, PartitionDeleted: This broker leads the partition no longer.
            RetryableError: The segments cannot be listed now.
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
        except (RemoteStorageError, OSError):
            return False
        self.unsettled.pop(segment.remote_log_segment_id, None)
        return True
