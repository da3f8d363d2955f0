"""A remote storage in memory. Copies and deletions have two steps, and may stop in between."""

import asyncio
from collections.abc import AsyncIterator

from typing_extensions import override

from tests.models.tiering.planned_faults import PlannedFaults
from tierledger.events.errors import InvalidArgument, RemoteResourceNotFound
from tierledger.events.identifiers import Uuid
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.remote_storage_manager import LogSegmentData, RemoteStorageManager

PIECE_BYTES = 1 << 20


class MemoryStorage(RemoteStorageManager):
    """Keeps logs and indexes by segment id. Each copy returns `custom_metadata`."""

    def __init__(
        self, faults: PlannedFaults | None = None, custom_metadata: bytes | None = None
    ) -> None:
        self.faults = faults or PlannedFaults()
        self.custom_metadata = custom_metadata
        self.logs: dict[Uuid, bytes] = {}
        self.indexes: dict[Uuid, dict[IndexType, bytes]] = {}
        self.copied: list[RemoteLogSegmentMetadata] = []
        self.deleted: list[RemoteLogSegmentMetadata] = []
        """The segments whose deletion took effect, in order."""
        self.copy_gate: asyncio.Event | None = None
        """If there is one, a copy waits for this event before it begins."""

    @property
    def ids(self) -> set[Uuid]:
        """The segments that have a log or indexes."""
        return {*self.logs, *self.indexes}

    @override
    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, log_segment_data: LogSegmentData
    ) -> CustomMetadata | None:
        if self.copy_gate is not None:
            await self.copy_gate.wait()

        async def log() -> None:
            found = log_segment_data.log_segment.read_bytes()
            if len(found) != metadata.segment_size_in_bytes:
                raise InvalidArgument(f"the log has {len(found)} bytes")
            self.logs[metadata.remote_log_segment_id.id] = found

        async def indexes() -> None:
            self.indexes[metadata.remote_log_segment_id.id] = _indexes(log_segment_data)
            self.copied.append(metadata)

        await self.faults.call("copy log", log)
        await self.faults.call("copy indexes", indexes)
        return None if self.custom_metadata is None else CustomMetadata(self.custom_metadata)

    @override
    async def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        found = self.logs.get(metadata.remote_log_segment_id.id)
        if found is None:
            raise RemoteResourceNotFound(f"{metadata.remote_log_segment_id}: no log is there")
        last = len(found) - 1 if end_position is None else min(end_position, len(found) - 1)
        if not 0 <= start_position <= last:
            raise InvalidArgument(f"expected 0 to {last}, got {start_position}")
        for at in range(start_position, last + 1, PIECE_BYTES):
            await asyncio.sleep(0)
            yield found[at : min(at + PIECE_BYTES, last + 1)]

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        async def work() -> bytes:
            found = self.indexes.get(metadata.remote_log_segment_id.id, {}).get(index_type)
            if found is None:
                name = index_type.name
                raise RemoteResourceNotFound(f"{metadata.remote_log_segment_id}: no {name}")
            return found

        return await self.faults.call("fetch_index", work)

    @override
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        segment_id = metadata.remote_log_segment_id.id

        async def indexes() -> None:
            self.indexes.pop(segment_id, None)

        async def log() -> None:
            self.logs.pop(segment_id, None)
            self.deleted.append(metadata)

        await self.faults.call("delete indexes", indexes)
        await self.faults.call("delete log", log)


def _indexes(data: LogSegmentData) -> dict[IndexType, bytes]:
    found = {
        IndexType.OFFSET: data.offset_index.read_bytes(),
        IndexType.TIMESTAMP: data.time_index.read_bytes(),
        IndexType.PRODUCER_SNAPSHOT: data.producer_snapshot_index,
        IndexType.LEADER_EPOCH: data.leader_epoch_index,
    }
    if data.transaction_index is not None:
        found[IndexType.TRANSACTION] = data.transaction_index.read_bytes()
    return found
