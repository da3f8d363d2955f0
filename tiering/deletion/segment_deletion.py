"""The one way in which a segment is deleted, by retention, remover or failed copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.tiering.clock import Clock
from tierledger.tiering.metadata_ports import RemoteLogMetadataStore

if TYPE_CHECKING:
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager

_DELETE_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETE_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


async def delete_segment(
    store: RemoteLogMetadataStore,
    storage: RemoteStorageManager,
    metadata: RemoteLogSegmentMetadata,
    broker_id: int,
    clock: Clock,
) -> None:
    """Remove a segment's data and then its metadata; on return neither is there any more.

    From any state: nobody is served a segment in DELETE_SEGMENT_STARTED, its data goes then,
    and DELETE_SEGMENT_FINISHED is written once nothing is left. Both updates carry
    `metadata`'s custom metadata, because an update without any erases it and the storage
    manager needs it to find the data, also in the repeat. One that is in
    DELETE_SEGMENT_STARTED already is not announced again.

    Raises:
        RemoteStorageError, OSError: A step failed, and those behind it were not begun. The
            same call goes on there, with `metadata` as given or as listed since.
    """
    if metadata.state == _DELETE_FINISHED:
        return
    if metadata.state != _DELETE_STARTED:
        started = _update(metadata, _DELETE_STARTED, broker_id, clock)
        await store.update_remote_log_segment_metadata(started)
    await storage.delete_log_segment_data(metadata)
    finished = _update(metadata, _DELETE_FINISHED, broker_id, clock)
    await store.update_remote_log_segment_metadata(finished)


def _update(
    metadata: RemoteLogSegmentMetadata,
    state: RemoteLogSegmentState,
    broker_id: int,
    clock: Clock,
) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        metadata.remote_log_segment_id,
        clock.now_ms(),
        state,
        broker_id,
        metadata.custom_metadata,
    )
