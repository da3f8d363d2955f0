"""Removes whole partitions from the tier: the remover that Kafka's interface describes.

Kafka's brokers have none: a deleted topic's leader tries once to delete the segments it listed.
Here the topic's deletion makes a partition MARKED. The remover then walks the other states of
`RemotePartitionDeleteState`, at its own pace and over any number of restarts. All its progress
is in the metadata; it keeps no other state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierledger.events.errors import Fenced, NotLeader, PartitionDeleted, RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.closing import closing

if TYPE_CHECKING:
    from tierledger.tiering.deletion.counted_deletions import CountedDeletions

_log = ProcessLog("tierledger.tiering")

SEGMENTS_LISTED_MAX = 1000
"""Segments held at once. A list left open during their deletion would be closed meanwhile, so
the segments are listed anew for each thousand."""

_MARKED, _STARTED, _FINISHED = RemotePartitionDeleteState


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """Where a partition's removal stands after a run.

    Attributes:
        state: State of the partition's deletion; none if the partition is not marked.
        deleted: Number of segments that this run deleted.
        waits_for_copy: Whether the run did nothing because this broker is still copying a
            segment of the partition.
    """

    state: RemotePartitionDeleteState | None
    deleted: int = 0
    waits_for_copy: bool = False


class PartitionRemover:
    """Removes partitions that are marked for deletion and led by this broker."""

    def __init__(
        self,
        deletions: CountedDeletions,
        being_copied: Callable[[TopicIdPartition], Collection[RemoteLogSegmentId]],
    ) -> None:
        """`being_copied` returns the segments of a partition that this broker is copying.

        It must include a copy from before its announcement to its end. The copy must ask,
        after its announcement and before it sends data, whether the partition is being
        deleted. `CopyTask` does both.
        """
        self._deletions = deletions
        self._store = deletions.store
        self._being_copied = being_copied
        self._is_cancelled = False

    def cancel(self) -> None:
        """Begin no further deletion; a deletion that has begun is completed."""
        self._is_cancelled = True

    async def mark(self, topic_id_partition: TopicIdPartition) -> None:
        """Mark the partition for removal; durable on return. Idempotent.

        Raises:
            RemoteStorageError: As the metadata store raises it.
        """
        if await self._state(topic_id_partition) is None:
            await self._put(topic_id_partition, _MARKED)

    async def run_once(self, topic_id_partition: TopicIdPartition) -> RemovalResult:
        """Remove the partition as far as possible, if it is marked.

        Every segment, in any state, goes through DELETE_SEGMENT_STARTED, the deletion of its
        data and DELETE_SEGMENT_FINISHED. When the metadata has no segment left, the partition
        becomes FINISHED. If a run is stopped at any point, the next one goes on from there.

        Raises:
            Fenced, NotLeader: Another broker leads the partition now, and removes it.
            RemoteStorageError, OSError: All segments were tried and some could not be deleted;
                this is the first failure. The next run tries the remaining ones.
        """
        tip = topic_id_partition
        state = await self._state(tip)
        if state is None or state == _FINISHED:
            return RemovalResult(state)
        # A running copy could leave data that no entry names any more, so wait for its end. A
        # copy that begins from here on finds the mark before it sends data.
        if self._being_copied(tip):
            return RemovalResult(state, waits_for_copy=True)
        if state == _MARKED:
            await self._put(tip, _STARTED)
        deleted = await self._delete_all(tip)
        # Ask for the counters once more: the data of any segment that is still in the metadata
        # would be orphaned for good once the partition is FINISHED.
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
        """Try to delete as many segments as the counters have; return how many succeeded."""
        failed: dict[RemoteLogSegmentId, Exception] = {}
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
                except (RemoteStorageError, OSError) as error:
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
