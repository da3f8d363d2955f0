"""A partition's answers as they were: folded from storage by whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.events import answers
from tierledger.events.errors import PartitionDeleted
from tierledger.storage.partition_reader import PartitionReader
from tierledger.storage.point_reads import next_segment_with_txn_index

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.metadata import RemoteLogSegmentMetadata
    from tierledger.events.partition_state import PartitionState


class PartitionHistory:
    """One partition at a position or time; the log is read at the first question, once.

    After its deletion has finished, every question raises `PartitionDeleted`, as it does live.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        topic_id_partition: TopicIdPartition,
        position: int | None,
        time_ms: int | None,
    ) -> None:
        self._settings = settings
        self._tip = topic_id_partition
        self._position = position
        self._time_ms = time_ms
        self._state: PartitionState | None = None

    async def state(self) -> PartitionState:
        """The fold of the log up to the position or time.

        Raises:
            RemoteResourceNotFound: The partition has no log.
            CorruptLog: The log does not verify up to there.
        """
        if self._state is None:
            settings = self._settings
            connector = settings.connector()
            backend = await connector.backend(read_only=True)
            try:
                keys = connector.key_factory(settings.cluster_id)
                reader = PartitionReader(
                    backend, keys, settings.serde(), settings.cluster_id, self._tip
                )
                self._state = await reader.state_as_of(
                    position=self._position, time_ms=self._time_ms
                )
            finally:
                await backend.close()
        return self._state

    async def _answering(self) -> PartitionState:
        state = await self.state()
        if state.is_finished:
            raise PartitionDeleted(f"{self._tip}: its deletion is finished")
        return state

    async def remote_log_segment_metadata(
        self, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        row = answers.lookup(await self._answering(), epoch_for_offset, offset)
        return None if row is None else answers.metadata_of(self._tip, row)

    async def highest_offset_for_epoch(self, leader_epoch: int) -> int | None:
        return answers.highest_offset_for_epoch(await self._answering(), leader_epoch)

    async def remote_log_size(self, leader_epoch: int) -> int:
        return answers.remote_log_size(await self._answering(), leader_epoch)

    async def next_segment_with_txn_index(
        self, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        row = next_segment_with_txn_index(await self._answering(), epoch, offset)
        return None if row is None else answers.metadata_of(self._tip, row)

    async def list_remote_log_segments(
        self, leader_epoch: int | None = None
    ) -> AsyncIterator[RemoteLogSegmentMetadata]:
        snapshot = answers.Snapshot(await self._answering(), leader_epoch)
        rows = (
            answers.list_all(snapshot)
            if leader_epoch is None
            else answers.list_epoch(snapshot, leader_epoch)
        )
        for row in rows:
            if row is not None:
                yield answers.metadata_of(self._tip, row)
