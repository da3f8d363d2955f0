"""Indexes of the segments that are read: from the cache, or fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierledger.tiering.index_cache_entry import IndexEntry, fetch_entry
from tierledger.tiering.recent import Recent

if TYPE_CHECKING:
    from tierledger.events.identifiers import Uuid
    from tierledger.events.metadata import RemoteLogSegmentMetadata
    from tierledger.tiering.index_cache import RemoteIndexCache
    from tierledger.tiering.index_files import AbortedTransaction
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager

ENTRIES_MAX: Final = 4
"""Segments whose indexes are kept without a cache: a reading asks twice for each."""


class SegmentIndexes:
    """Answers from a segment's indexes. All raise as `RemoteIndexCache.get` does."""

    def __init__(
        self, storage: RemoteStorageManager, cache: RemoteIndexCache | None = None
    ) -> None:
        self._storage = storage
        self._cache = cache
        self._recent: Recent[Uuid, IndexEntry] = Recent(ENTRIES_MAX)

    async def lookup_offset(self, metadata: RemoteLogSegmentMetadata, offset: int) -> int:
        """The position from which to read for `offset`."""
        return (await self._get(metadata)).lookup_offset(offset).position

    async def lookup_timestamp(
        self, metadata: RemoteLogSegmentMetadata, timestamp_ms: int, starting_offset: int
    ) -> int:
        """The position from which to look for `timestamp_ms` from `starting_offset` on."""
        entry = await self._get(metadata)
        return entry.lookup_timestamp(timestamp_ms, starting_offset).position

    async def aborted_transactions(
        self, metadata: RemoteLogSegmentMetadata
    ) -> list[AbortedTransaction]:
        """Those that ended in the segment; empty if it has no transaction index."""
        if metadata.txn_index_empty:
            return []
        return list((await self._get(metadata)).txn_index.entries())

    def distrust(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Fetch the segment's indexes anew when they are next asked for: they were wrong."""
        self._recent.forget(metadata.remote_log_segment_id.id)
        if self._cache is not None:
            self._cache.distrust(metadata)

    async def _get(self, metadata: RemoteLogSegmentMetadata) -> IndexEntry:
        if self._cache is not None:
            return await self._cache.get(metadata)
        segment_id = metadata.remote_log_segment_id.id
        found = self._recent.get(segment_id)
        if found is None:
            found = await fetch_entry(self._storage, metadata)
            self._recent.put(segment_id, found)
        return found
