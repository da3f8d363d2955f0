"""Removes whole partitions from the tier: the remover that Kafka's interface describes.

Kafka's brokers have none (a deleted topic's leader tries once to delete what it listed). Here
a partition is MARKED by the topic's deletion; the remover then walks the rest of
`RemotePartitionDeleteState`, at its own pace and over any number of restarts: what has been
done stands in the metadata, and nothing else is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from tierledger.events.errors import Fenced, NotLeader, PartitionDeleted, RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata
from tierledger.tiering.closing import closing

if TYPE_CHECKING:
    from tierledger.tiering.deletion.counted_deletions import CountedDeletions

_log = structlog.get_logger("tierledger.tiering")

SEGMENTS_LISTED_MAX = 1000
"""Segments held at once. A list that waits for their deletion would be closed meanwhile, so
each thousand is listed anew."""

_MARKED, _STARTED, _FINISHED = RemotePartitionDeleteState


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """Where a partition's removal stands after a run.

    Attributes:
        state: Of the partition's deletion; none: nobody has marked it.
        deleted: Segments that this run deleted.
        waits_for_copy: Whether nothing was done because this broker still copies to it.
    """

    state: RemotePartitionDeleteState | None
    deleted: int = 0
    waits_for_copy: bool = False


class PartitionRemover:
    """Removes the partitions that are marked and that this broker leads."""

    def __init__(
        self,
        deletions: CountedDeletions,
        being_copied: Callable[[TopicIdPartition], Collection[RemoteLogSegmentId]],
    ) -> None:
        """`being_copied` names the segments that this broker is copying for a partition.

        A copy must be named from before its announcement to its end, and ask for a deletion
        behind the announcement, before it sends anything. `CopyTask` keeps to that.
        """
        self._deletions = deletions
        self._store = deletions.store
        self._being_copied = being_copied
        self._is_cancelled = False

    def cancel(self) -> None:
        """Begin no further deletion; one that has begun is carried to its end."""
        self._is_cancelled = True

    async def mark(self, topic_id_partition: TopicIdPartition) -> None:
        """Let the partition be removed; durable on return. A repeat changes nothing.

        Raises:
            RemoteStorageError: As the store says.
        """
        if await self._state(topic_id_partition) is None:
            await self._put(topic_id_partition, _MARKED)

    async def run_once(self, topic_id_partition: TopicIdPartition) -> RemovalResult:
        """Remove the partition as far as possible, if it is marked.

        Every segment goes through DELETE_SEGMENT_STARTED, the deletion of its data and
        DELETE_SEGMENT_FINISHED, whatever state it is in. When the metadata has none left, the
        partition itself becomes FINISHED. Stopped at any point, the next run goes on.

        Raises:
            Fenced: Another broker leads the partition by now; it removes it. So `NotLeader`.
            RemoteStorageError: Not all could be deleted, and all were tried; this is the first
                failure, and the next run tries those that are left.
        """
        tip = topic_id_partition
        state = await self._state(tip)
        if state is None or state == _FINISHED:
            return RemovalResult(state)
        # One under way would put its data where nobody looks for it any more; one that begins
        # from here on meets the mark.
        if self._being_copied(tip):
            return RemovalResult(state, waits_for_copy=True)
        if state == _MARKED:
            await self._put(tip, _STARTED)
        deleted = await self._delete_all(tip)
        # Asked of the counters once more: what they still know would be orphaned for good.
        if self._is_cancelled or any((await self._store.partition_summary(tip)).count_by_state):
            return RemovalResult(_STARTED, deleted)
        await self._put(tip, _FINISHED)
        self._deletions.metrics.forget(tip)
        return RemovalResult(_FINISHED, deleted)

    async def _state(self, tip: TopicIdPartition) -> RemotePartitionDeleteState | None:
        try:
            summary = await self._store.partition_summary(tip)
        except PartitionDeleted:
            self._deletions.metrics.forget(tip)
            return _FINISHED
        state = summary.delete_state
        return None if state is None else RemotePartitionDeleteState(state)

    async def _put(self, tip: TopicIdPartition, state: RemotePartitionDeleteState) -> None:
        now_ms, broker_id = self._deletions.clock.now_ms(), self._deletions.broker_id
        deletion = RemotePartitionDeleteMetadata(tip, state, now_ms, broker_id)
        await self._store.put_remote_partition_delete_metadata(deletion)
        _log.info("partition removal", partition=str(tip), state=state.name)

    async def _delete_all(self, tip: TopicIdPartition) -> int:
        """How many segments were deleted; all that a first look counts were tried."""
        failed: dict[RemoteLogSegmentId, RemoteStorageError] = {}
        deleted = 0
        left = sum((await self._store.partition_summary(tip)).count_by_state)
        while left > 0 and (segments := await self._listed_without(tip, failed)):
            left -= len(segments)
            for segment in segments:
                if self._is_cancelled:
                    return deleted
                try:
                    await self._deletions.delete(segment, "partition_deleted")
                except (Fenced, NotLeader):
                    raise
                except RemoteStorageError as error:
                    failed[segment.remote_log_segment_id] = error
                else:
                    deleted += 1
        if failed:
            first = next(iter(failed.values()))
            first.add_note(f"{tip}: {len(failed)} segments not deleted, {deleted} deleted")
            raise first
        return deleted

    async def _listed_without(
        self, tip: TopicIdPartition, failed: Collection[RemoteLogSegmentId]
    ) -> list[RemoteLogSegmentMetadata]:
        found: list[RemoteLogSegmentMetadata] = []
        async with closing(self._store.list_remote_log_segments(tip)) as segments:
            async for segment in segments:
                if segment.remote_log_segment_id not in failed:
                    found.append(segment)
                if len(found) == SEGMENTS_LISTED_MAX:
                    break
        return found
