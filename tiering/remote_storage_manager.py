"""Kafka's `RemoteStorageManager`: where segments themselves are kept.

What is stored under a segment's id never changes: a retry of a copy gets a new id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import ALL_INDEX_TYPES, IndexType

_log = structlog.get_logger("tierledger.tiering")


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """What of a segment is copied: files of the local log, and its leader epochs."""

    log_segment: Path
    offset_index: Path
    time_index: Path
    transaction_index: Path | None
    producer_snapshot_index: Path
    leader_epoch_index: bytes
    """Kafka's leader-epoch-checkpoint of all epochs from the log's beginning to the segment's
    end."""


class RemoteStorageManager(ABC):
    """Copies, fetches and deletes segments in remote storage. Safe for concurrent use.

    Every operation may raise `StorageUnavailable` (the store refused or was away: trying again
    is safe) and `CorruptRemoteData` (what it gave does not verify).
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, log_segment_data: LogSegmentData
    ) -> CustomMetadata | None:
        """Custom metadata to keep with the segment (KIP-917), once all of it is durable.

        Repeated for the same id after any failure, it goes on where it was. A failure may leave
        a part behind, which `delete_log_segment_data` removes.

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
        """The segment's bytes from `start_position` to `end_position`, both included.

        In pieces, in order, none empty. Without `end_position`, or with one behind the
        segment's end, up to its end.

        Raises:
            InvalidArgument: `start_position` is negative, at or behind the segment's end, or
                behind `end_position`.
            RemoteResourceNotFound: The segment's data is not there.
        """

    @abstractmethod
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        """That index, whole.

        Raises:
            RemoteResourceNotFound: It is not there; a missing transaction index is no error
                of the store.
        """

    async def fetch_indexes(
        self, metadata: RemoteLogSegmentMetadata, index_types: AbstractSet[IndexType]
    ) -> dict[IndexType, bytes]:
        """Those of `index_types` that are there; missing ones are left out (KIP-1002).

        Here one by one; a manager that keeps them together overrides it.
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
        """All indexes that are there (KIP-1002)."""
        return await self.fetch_indexes(metadata, ALL_INDEX_TYPES)

    @abstractmethod
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove everything of the segment; silent about what is not there.

        A failure leaves a part; a repeat removes the rest.

        Raises:
            RejectedError: This manager only reads.
        """

    async def close(self) -> None:
        """Let go of what is held; a repeat does nothing."""
        return
