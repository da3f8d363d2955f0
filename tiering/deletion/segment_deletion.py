"""The deletion of a segment, the same for retention, partition remover and failed copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.storage.clock import Clock
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
    """Delete a segment's data and then its metadata, from any state; on return both are gone.

    DELETE_SEGMENT_STARTED is written first, unless the segment has it already: from then on no
    reader is served the segment. Then its data is deleted. DELETE_SEGMENT_FINISHED is written
    when no data is left. Both updates carry `metadata`'s custom metadata: an update without it
    would erase it, and the storage manager needs it to find the data, also in a retry.

    Raises:
        RemoteStorageError, OSError: A step failed, and no later step was begun. A retry goes
            on there, with `metadata` as given or as listed since.
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
