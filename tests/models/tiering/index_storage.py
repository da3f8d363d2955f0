"""A remote storage that serves only indexes, records requests, and fails where a test plans."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from typing_extensions import override

from tests.models.actors.local_world import eventually
from tests.models.tiering.tier_trace import TieredSegment
from tierledger.events.errors import RemoteResourceNotFound, RemoteStorageError
from tierledger.events.identifiers import Uuid
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.index_cache.entry import IndexEntry
from tierledger.tiering.remote_storage_manager import LogSegmentData, RemoteStorageManager


class IndexStorage(RemoteStorageManager):
    """The indexes of some segments. Each `fetch_indexes` is one request."""

    def __init__(self, *segments: TieredSegment) -> None:
        self.indexes = {
            one.metadata.remote_log_segment_id.id: dict(one.indexes) for one in segments
        }
        self.requests: list[tuple[Uuid, frozenset[IndexType]]] = []
        self.gates: dict[Uuid, asyncio.Event] = {}
        """By segment: the event for which requests for it wait."""
        self.errors: list[RemoteStorageError] = []
        """Errors with which the next requests fail, one each."""
        self.damaged: list[dict[IndexType, bytes]] = []
        """Indexes that the next requests get instead of the stored ones, an item each."""

    def requested(self, segment: TieredSegment) -> int:
        """The number of requests for the segment's indexes."""
        return [one for one, _ in self.requests].count(
            segment.metadata.remote_log_segment_id.id
        )

    @override
    async def fetch_indexes(
        self, metadata: RemoteLogSegmentMetadata, index_types: AbstractSet[IndexType]
    ) -> dict[IndexType, bytes]:
        segment_id = metadata.remote_log_segment_id.id
        self.requests.append((segment_id, frozenset(index_types)))
        if segment_id in self.gates:
            await self.gates[segment_id].wait()
        if self.errors:
            raise self.errors.pop(0)
        found = dict(self.indexes.get(segment_id, {}))
        if self.damaged:
            found.update(self.damaged.pop(0))
        return {kind: data for kind, data in found.items() if kind in index_types}

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        found = await self.fetch_indexes(metadata, {index_type})
        if index_type not in found:
            raise RemoteResourceNotFound(f"no {index_type.name} index")
        return found[index_type]

    @override
    def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        raise RemoteResourceNotFound("there are indexes only")

    @override
    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, log_segment_data: LogSegmentData
    ) -> CustomMetadata | None:
        raise RemoteResourceNotFound("there are indexes only")

    @override
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.indexes.pop(metadata.remote_log_segment_id.id, None)


async def filled(folder: Path, *segments: TieredSegment) -> None:
    """Leave in `folder` the files of a cache that has loaded `segments` in this order."""
    async with RemoteIndexCache(folder, IndexStorage(*segments)) as cache:
        for segment in segments:
            await cache.get(segment.metadata)


async def held_load(
    cache: RemoteIndexCache, storage: IndexStorage, segment: TieredSegment
) -> tuple[asyncio.Event, asyncio.Task[IndexEntry]]:
    """Start a load of the segment; returns the event that its request waits for, and it."""
    gate = storage.gates[segment.metadata.remote_log_segment_id.id] = asyncio.Event()
    before = storage.requested(segment)
    loading = asyncio.create_task(cache.get(segment.metadata))
    await eventually(lambda: storage.requested(segment) > before)
    return gate, loading


def name_of(segment: TieredSegment) -> str:
    """The name of the segment's file in the folder of an index cache."""
    metadata = segment.metadata
    return f"{metadata.start_offset}_{metadata.remote_log_segment_id.id}.indexes"


def names(folder: Path) -> set[str]:
    """The names of all files in the folder of an index cache, without its lock."""
    return {path.name for path in folder.iterdir() if path.suffix != ".lock"}


async def turns() -> None:
    """Run more steps of the event loop than an index cache needs that nothing holds up."""
    for _ in range(100):
        await asyncio.sleep(0)
