"""Indexes of the segments that are read: from the index cache, or fetched."""

from __future__ import annotations

from typing import Final, NamedTuple

from tierledger.events.errors import CorruptRemoteData
from tierledger.events.identifiers import Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_files import AbortedTransaction, TimestampOffset
from tierledger.tiering.formats.record_batches import RecordBatch
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.index_cache.entry import (
    IndexEntry,
    fetch_entry,
    warn_of_lacking_offsets,
)
from tierledger.tiering.reader.tier import Stretch
from tierledger.tiering.recent import Recent
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

ENTRIES_MAX: Final = 4
"""Segments whose indexes are kept without a cache: a reading needs each segment's twice."""


class TimePlace(NamedTuple):
    """Where in a segment's log to begin the search for a timestamp."""

    position: int
    offset: int
    """The batch at `position` begins at this offset or before it."""
    claim: TimestampOffset | None
    """The time index's entry that lets earlier records be skipped; none if none are."""

    def check(self, batch: RecordBatch, name: str) -> bool:
        """Whether `batch`, the log's next one, confirms `claim`; if not, check the next, too.

        Raises:
            CorruptRemoteData: The batch contradicts `claim`.
        """
        if self.claim is None:
            return True
        time, offset = self.claim
        is_there = batch.base_offset <= offset <= batch.last_offset
        if is_there and batch.max_timestamp_ms == time:
            return True
        if batch.last_offset < offset and batch.max_timestamp_ms < time:
            return False
        raise CorruptRemoteData(
            f"time index of {name}: expected time {time} to be reached at offset {offset}, the "
            f"log has {batch.max_timestamp_ms} at {batch.base_offset} to {batch.last_offset}"
        )


class SegmentIndexes:
    """Lookups in a segment's indexes. All raise the errors of `RemoteIndexCache.get`."""

    def __init__(
        self, storage: RemoteStorageManager, cache: RemoteIndexCache | None = None
    ) -> None:
        self._storage = storage
        self._cache = cache
        self._recent: Recent[Uuid, IndexEntry] = Recent(ENTRIES_MAX)

    async def lookup_offset(self, metadata: RemoteLogSegmentMetadata, offset: int) -> int:
        """The position from which to read for `offset`."""
        return (await self._get(metadata)).lookup_offset(offset).position

    async def lookup_timestamp(self, stretch: Stretch, timestamp_ms: int) -> TimePlace:
        """Where to begin the search for `timestamp_ms` in `stretch`."""
        entry = await self._get(stretch.metadata)
        found = entry.time_index.lookup(timestamp_ms)
        if not stretch.first < found.offset <= stretch.last:
            position = entry.offset_index.lookup(stretch.first).position
            return TimePlace(position, stretch.first, None)
        position = entry.offset_index.lookup(found.offset).position
        return TimePlace(position, found.offset, found)

    async def aborted_transactions(
        self, metadata: RemoteLogSegmentMetadata
    ) -> list[AbortedTransaction]:
        """Aborted transactions that ended in the segment; empty without a transaction index."""
        if metadata.txn_index_empty:
            return []
        return list((await self._get(metadata)).txn_index.entries())

    def distrust(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Drop the segment's indexes, which were wrong: the next lookup fetches them anew."""
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
            warn_of_lacking_offsets(found, metadata)
            self._recent.put(segment_id, found)
        return found
