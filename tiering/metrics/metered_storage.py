"""A storage manager that counts its reads of logs under Kafka's names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet

from typing_extensions import override

from tierledger.events.errors import RemoteStorageError
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.tiering.closing import closing
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.metrics.tier_metrics import (
    FETCH_BYTES,
    FETCH_ERRORS,
    FETCH_REQUESTS,
    TierMetrics,
)
from tierledger.tiering.remote_storage_manager import LogSegmentData, RemoteStorageManager


class MeteredStorage(RemoteStorageManager):
    """Passes all calls on to `storage`.

    A `fetch_log_segment` is counted once its iteration begins, with the bytes that it yields,
    and as an error if it raises one. Stopping early is no error. Copies and deletions are
    counted by their tasks.
    """

    def __init__(self, storage: RemoteStorageManager, metrics: TierMetrics) -> None:
        """Closing this one closes `storage`."""
        self._storage = storage
        self._metrics = metrics

    @override
    async def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        tip = metadata.remote_log_segment_id.topic_id_partition
        fetched = self._storage.fetch_log_segment(metadata, start_position, end_position)
        self._metrics.count(FETCH_REQUESTS, tip)
        try:
            async with closing(fetched) as pieces:
                async for data in pieces:
                    self._metrics.count(FETCH_BYTES, tip, len(data))
                    yield data
        except RemoteStorageError:
            self._metrics.count(FETCH_ERRORS, tip)
            raise

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        return await self._storage.fetch_index(metadata, index_type)

    @override
    async def fetch_indexes(
        self, metadata: RemoteLogSegmentMetadata, index_types: AbstractSet[IndexType]
    ) -> dict[IndexType, bytes]:
        return await self._storage.fetch_indexes(metadata, index_types)

    @override
    async def fetch_all_indexes(
        self, metadata: RemoteLogSegmentMetadata
    ) -> dict[IndexType, bytes]:
        return await self._storage.fetch_all_indexes(metadata)

    @override
    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, log_segment_data: LogSegmentData
    ) -> CustomMetadata | None:
        return await self._storage.copy_log_segment_data(metadata, log_segment_data)

    @override
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._storage.delete_log_segment_data(metadata)

    @override
    async def close(self) -> None:
        await self._storage.close()
