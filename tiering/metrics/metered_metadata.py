"""A source or store of metadata that updates `RemoteLogSizeBytes` at its calls (KIP-852)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Generic, TypeVar

from tierledger.events.errors import PartitionDeleted, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.answers import PartitionSummary
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.metadata_ports import RemoteLogMetadataSource, RemoteLogMetadataStore

if TYPE_CHECKING:
    from tierledger.tiering.metrics.tier_metrics import TierMetrics

_log = ProcessLog("tierledger.tiering")

AnySource = TypeVar("AnySource", bound=RemoteLogMetadataSource)


class MeteredSource(Generic[AnySource]):
    """Passes all calls on to `metadata`.

    Each `remote_log_size` and each `partition_summary` updates the partition's size in
    `metrics`: all its segments, each once, for whichever epoch. The series of a partition are
    removed when its deletion has finished.
    """

    def __init__(self, metadata: AnySource, metrics: TierMetrics) -> None:
        self._metadata = metadata
        self._metrics = metrics

    async def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        return await self._metadata.remote_log_segment_metadata(
            topic_id_partition, epoch_for_offset, offset
        )

    async def highest_offset_for_epoch(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        return await self._metadata.highest_offset_for_epoch(topic_id_partition, leader_epoch)

    async def remote_log_size(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int:
        try:
            size = await self._metadata.remote_log_size(topic_id_partition, leader_epoch)
        except PartitionDeleted:
            self._metrics.forget(topic_id_partition)
            raise
        try:
            await self.partition_summary(topic_id_partition)
        except RemoteStorageError as error:  # The caller has its answer; the gauge can wait.
            _log.debug("size not renewed", partition=str(topic_id_partition), error=str(error))
        return size

    async def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        return await self._metadata.next_segment_with_txn_index(
            topic_id_partition, epoch, offset
        )

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> AsyncIterator[RemoteLogSegmentMetadata]:
        return self._metadata.list_remote_log_segments(topic_id_partition, leader_epoch)

    async def partition_summary(self, topic_id_partition: TopicIdPartition) -> PartitionSummary:
        try:
            summary = await self._metadata.partition_summary(topic_id_partition)
        except PartitionDeleted:
            self._metrics.forget(topic_id_partition)
            raise
        self._metrics.set_size(topic_id_partition, summary)
        return summary


class MeteredMetadata(MeteredSource[RemoteLogMetadataStore]):
    """A `MeteredSource` that takes changes, too."""

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        return await self._metadata.add_remote_log_segment_metadata(metadata)

    async def update_remote_log_segment_metadata(
        self, update: RemoteLogSegmentMetadataUpdate
    ) -> int:
        return await self._metadata.update_remote_log_segment_metadata(update)

    async def put_remote_partition_delete_metadata(
        self, metadata: RemotePartitionDeleteMetadata
    ) -> int:
        return await self._metadata.put_remote_partition_delete_metadata(metadata)
