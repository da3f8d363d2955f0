"""Kafka's `RemoteStorageManager`: it keeps the data of segments.

The data under a segment's id never changes: a retry of a copy gets a new id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.formats.index_type import ALL_INDEX_TYPES, IndexType

_log = ProcessLog("tierledger.tiering")


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """The data of a segment to copy: files of the local log, and its leader epochs."""

    log_segment: Path
    offset_index: Path
    time_index: Path
    transaction_index: Path | None
    producer_snapshot_index: bytes
    """Kafka's producer snapshot at the segment's end."""
    leader_epoch_index: bytes
    """Kafka's leader-epoch-checkpoint with all epochs from the log's start to the segment's
    end."""


class RemoteStorageManager(ABC):
    """Copies, fetches and deletes segments in remote storage. Safe for concurrent use.

    Every operation may raise `StorageUnavailable` (the store refused or cannot be reached: a
    retry is safe) and `CorruptRemoteData` (the store's data does not verify).
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, log_segment_data: LogSegmentData
    ) -> CustomMetadata | None:
        """Copy a segment; return its custom metadata (KIP-917) once all data is durable.

        A retry with the same id goes on where the failed call ended. A failure may leave some
        of the data, which `delete_log_segment_data` removes.

        Raises:
            InvalidArgument: A file of `log_segment_data` is missing, or not the segment's.
            RejectedError: This manager only reads.
        """

    @abstractmethod
    def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The segment's bytes from `start_position` to `end_position`, both inclusive.

        They come in order, in non-empty pieces. Without `end_position`, or with one behind the
        segment's end, they reach to its end. A segment of 0 bytes has none.

        Raises:
            InvalidArgument: `start_position` is negative, behind `end_position`, or not before
                the segment's end; 0 is right for a segment of 0 bytes.
            RemoteResourceNotFound: The segment's data is not there.
        """

    @abstractmethod
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        """One whole index of the segment.

        Raises:
            RemoteResourceNotFound: The segment has no such index in the store. This is normal
                for a transaction index.
        """

    async def fetch_indexes(
        self, metadata: RemoteLogSegmentMetadata, index_types: AbstractSet[IndexType]
    ) -> dict[IndexType, bytes]:
        """The indexes of `index_types` that exist; missing ones are left out (KIP-1002).

        They are fetched one by one. A manager that stores them together overrides this.
        """
        found = {}
        for index_type in sorted(index_types, key=lambda one: one.name):
            try:
                found[index_type] = await self.fetch_index(metadata, index_type)
            except RemoteResourceNotFound:
                _log.debug(
                    "index missing",
                    segment=str(metadata.remote_log_segment_id),
                    index=index_type.name,
                )
        return found

    async def fetch_all_indexes(
        self, metadata: RemoteLogSegmentMetadata
    ) -> dict[IndexType, bytes]:
        """All indexes of the segment that exist (KIP-1002)."""
        return await self.fetch_indexes(metadata, ALL_INDEX_TYPES)

    @abstractmethod
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove all data of the segment. Idempotent: missing data is no error.

        A failure may leave some of the data; a retry removes the rest.

        Raises:
            RejectedError: This manager only reads.
        """

    async def close(self) -> None:
        """Release the manager's resources. Idempotent."""
        return
