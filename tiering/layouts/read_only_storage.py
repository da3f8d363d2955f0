"""A read-only storage manager, for tiers that belong to another program."""

from __future__ import annotations

from typing import NoReturn

from typing_extensions import override

from tierledger.events.errors import RejectedError
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.remote_storage_manager import LogSegmentData, RemoteStorageManager


class ReadOnlyStorageManager(RemoteStorageManager):
    """Refuses to copy and to delete."""

    layout: str
    """Name of the tier's kind, for error messages."""

    @override
    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, log_segment_data: LogSegmentData
    ) -> NoReturn:
        raise self._refusal("copied to", metadata)

    @override
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        raise self._refusal("deleted from", metadata)

    def _refusal(self, what: str, metadata: RemoteLogSegmentMetadata) -> RejectedError:
        return RejectedError(
            f"{metadata.remote_log_segment_id}: nothing is {what} {self.layout}, "
            "which is only read here"
        )
