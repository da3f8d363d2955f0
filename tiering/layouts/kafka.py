"""The directory tree that Kafka's LocalTieredStorage writes, for reading only.

    <topic>-<partition>-<topic id>/<start offset>-<segment id>.log
                                                              .index, .timeindex, ...

Only the log's own batches have checksums.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from typing_extensions import override

from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.read_only_storage import ReadOnlyStorageManager
from tierledger.tiering.objects.names import segment_name, topic_name
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.objects.stream import checked_range, pieces, read_ahead

if TYPE_CHECKING:
    from tierledger.tiering.objects.store import ObjectStore

LOG_SUFFIX = "log"


class KafkaLayoutStorageManager(ReadOnlyStorageManager):
    """Reads segments that LocalTieredStorage has written, by one request per file."""

    layout = "a tier of Kafka's LocalTieredStorage"

    def __init__(self, store: ObjectStore) -> None:
        """Read from the root of `store`, which holds the partitions' folders."""
        self._store = store

    @override
    async def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        start, end = checked_range(metadata, start_position, end_position)
        name = _name(metadata, LOG_SUFFIX)
        size = metadata.segment_size_in_bytes
        wanted = pieces(name, start, end, size)
        with self._store.counts.noting_damage(Operation.FETCH_LOG):
            async with aclosing(read_ahead(self._store, wanted)) as reading:
                async for _, data in reading:
                    yield data

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        name = _name(metadata, index_type.value)
        return await self._store.get(Operation.FETCH_INDEXES, name)


def place_of(metadata: RemoteLogSegmentMetadata) -> str:
    """The prefix of the names of the segment's files."""
    partition = metadata.topic_id_partition
    folder = f"{topic_name(metadata)}-{partition.partition}-{partition.topic_id}"
    return f"{folder}/{segment_name(metadata)}"


def _name(metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
    return f"{place_of(metadata)}.{suffix}"
