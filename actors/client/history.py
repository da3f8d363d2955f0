"""A partition's answers as they were at a position or time, folded in the client's process."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tierledger.actors.foreign_errors import documenting
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.messages import Query
from tierledger.events.errors import PartitionDeleted
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition import answers
from tierledger.events.partition.state import PartitionState
from tierledger.events.typed_fields import Int32, checked
from tierledger.storage.partition.point_reads import next_segment_with_txn_index
from tierledger.storage.partition.reader import PartitionReader


class PartitionHistory:
    """One partition at a position or time; the log is read once, at the first query.

    If the partition's deletion had finished by then, every query raises `PartitionDeleted`.
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
            NotReady: The store cannot be read now.
        """
        if self._state is None:
            with documenting("the store cannot be read", is_sent=False):
                self._state = await self._folded()
        return self._state

    async def _folded(self) -> PartitionState:
        settings = self._settings
        connector = settings.connector()
        backend = await connector.backend(read_only=True)
        try:
            keys = connector.key_factory(settings.cluster_id)
            reader = PartitionReader(
                backend, keys, settings.serde(), settings.cluster_id, self._tip
            )
            return await reader.state_as_of(position=self._position, time_ms=self._time_ms)
        finally:
            await backend.close()

    async def _answering(self) -> PartitionState:
        state = await self.state()
        if state.is_finished:
            raise PartitionDeleted(f"{self._tip}: its deletion is finished")
        return state

    async def remote_log_segment_metadata(
        self, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        asked = checked(Query, Query("lookup", epoch_for_offset, offset), "query")
        row = answers.lookup(await self._answering(), asked.epoch, asked.offset)
        return None if row is None else answers.metadata_of(self._tip, row)

    async def highest_offset_for_epoch(self, leader_epoch: int) -> int | None:
        epoch = checked(Int32, leader_epoch, "leader_epoch")
        return answers.highest_offset_for_epoch(await self._answering(), epoch)

    async def remote_log_size(self, leader_epoch: int) -> int:
        epoch = checked(Int32, leader_epoch, "leader_epoch")
        return answers.remote_log_size(await self._answering(), epoch)

    async def next_segment_with_txn_index(
        self, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        asked = checked(Query, Query("next_txn", epoch, offset), "query")
        state = await self._answering()
        row = next_segment_with_txn_index(state, asked.epoch, asked.offset)
        return None if row is None else answers.metadata_of(self._tip, row)

    async def list_remote_log_segments(
        self, leader_epoch: int | None = None
    ) -> AsyncIterator[RemoteLogSegmentMetadata]:
        epoch = checked(Int32 | None, leader_epoch, "leader_epoch")
        snapshot = answers.Snapshot(await self._answering(), epoch)
        rows = (
            answers.list_all(snapshot) if epoch is None else answers.list_epoch(snapshot, epoch)
        )
        for row in rows:
            if row is not None:
                yield answers.metadata_of(self._tip, row)
