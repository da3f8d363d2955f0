"""What the index cache holds of a segment, and how it comes from remote storage."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.formats.index_files import (
    TIMES_WITHOUT_OFFSETS_MAX,
    OffsetIndex,
    OffsetPosition,
    SegmentBounds,
    TimeIndex,
    TransactionIndex,
)
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.files import RawIndexes
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

CHECKED_IN_PLACE_BYTES_MAX: Final = 16 << 10
"""Checking this much takes about a millisecond; larger indexes are checked in a thread."""


_log = ProcessLog("tierledger.tiering")


class IndexEntry(NamedTuple):
    """The verified indexes of one segment. It stays valid whatever the cache does."""

    offset_index: OffsetIndex
    time_index: TimeIndex
    txn_index: TransactionIndex
    """Empty if the segment has none."""

    def lookup_offset(self, offset: int) -> OffsetPosition:
        """The entry at whose position to begin reading the log for `offset`."""
        return self.offset_index.lookup(offset)

    @property
    def lacks_offsets(self) -> bool:
        """Whether the offset index lost its entries; reads then begin at position 0."""
        return not len(self.offset_index) and len(self.time_index) > TIMES_WITHOUT_OFFSETS_MAX

    def lookup_timestamp(self, timestamp_ms: int, starting_offset: int) -> OffsetPosition:
        """The entry at whose position to begin searching for `timestamp_ms` or later.

        It is not before the entry for `starting_offset`.
        """
        found = self.time_index.lookup(timestamp_ms)
        return self.offset_index.lookup(max(starting_offset, found.offset))

    @property
    def raw(self) -> RawIndexes:
        return RawIndexes(self.offset_index.data, self.time_index.data, self.txn_index.data)


def warn_of_lacking_offsets(entry: IndexEntry, metadata: RemoteLogSegmentMetadata) -> bool:
    """Log a warning if the offset index lost its entries; whether. Lookups stay correct."""
    if entry.lacks_offsets:
        _log.warning(
            "offset index without entries; the segment is read from its beginning",
            segment=str(metadata.remote_log_segment_id),
            times=len(entry.time_index),
        )
    return entry.lacks_offsets


def rebuilt(metadata: RemoteLogSegmentMetadata, raw: RawIndexes) -> IndexEntry:
    """The entry from `raw`, which was verified before it was written to the disk."""
    return IndexEntry(
        OffsetIndex(metadata.start_offset, raw.offset),
        TimeIndex(metadata.start_offset, raw.time),
        TransactionIndex(raw.transaction),
    )


async def fetch_entry(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata
) -> IndexEntry:
    """The segment's indexes from remote storage, verified; one `fetch_indexes` gets them.

    Raises:
        RemoteResourceNotFound: The offset or the time index is not there.
        CorruptRemoteData: One of them is not an index of this segment.
    """
    wanted = {IndexType.OFFSET, IndexType.TIMESTAMP}
    if not metadata.txn_index_empty:
        wanted.add(IndexType.TRANSACTION)
    found = await storage.fetch_indexes(metadata, wanted)
    for required in (IndexType.OFFSET, IndexType.TIMESTAMP):
        if required not in found:
            raise RemoteResourceNotFound(
                f"the remote storage has no {required.name} index of "
                f"{metadata.remote_log_segment_id}"
            )
    raw = RawIndexes(
        found[IndexType.OFFSET],
        found[IndexType.TIMESTAMP],
        found.get(IndexType.TRANSACTION, b""),
    )
    if raw.file_size <= CHECKED_IN_PLACE_BYTES_MAX:
        return _checked(metadata, raw)
    return await asyncio.to_thread(_checked, metadata, raw)


def _checked(metadata: RemoteLogSegmentMetadata, raw: RawIndexes) -> IndexEntry:
    bounds = SegmentBounds.of(metadata)
    return IndexEntry(
        OffsetIndex.parse(raw.offset, bounds),
        TimeIndex.parse(raw.time, bounds),
        TransactionIndex.parse(raw.transaction, bounds),
    )
