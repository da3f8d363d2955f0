"""Finds the remote range of a log, from its own leader epochs and the metadata."""

from __future__ import annotations

from tierledger.tiering.local.leader_epochs import NOWHERE, OffsetAndEpoch, end_offset_for
from tierledger.tiering.local.log import LocalLog
from tierledger.tiering.metadata_ports import RemoteLogMetadataSource


async def find_highest_remote_offset(
    log: LocalLog, metadata: RemoteLogMetadataSource
) -> OffsetAndEpoch:
    """The last offset of `log` that is remote, and its leader epoch; `NOWHERE` if none is.

    It is never an offset that this log does not have. Before an unclean election more of an
    epoch may have been copied than this log has of it; the end of this log's part counts then.

    Raises:
        RetryableError: The metadata cannot answer now, so the offset is not known.
        RemoteResourceNotFound: The partition is unknown, or deleted.
    """
    tip, epochs = log.topic_id_partition, log.leader_epochs
    for epoch in sorted(epochs, reverse=True):
        highest = await metadata.highest_offset_for_epoch(tip, epoch)
        if highest is None:
            continue
        end = end_offset_for(epochs, epoch, log.log_end_offset)
        if end.offset <= highest:
            return OffsetAndEpoch(end.offset - 1, end.epoch)
        return OffsetAndEpoch(highest, epoch)
    return NOWHERE


async def find_log_start_offset(log: LocalLog, metadata: RemoteLogMetadataSource) -> int:
    """The first offset of `log` in the tier; without any, the start of its local segments.

    It is the start of the first segment listed for the lowest epoch with segments, in any
    state. Too low a result does no harm, since a log start offset never goes back; too high a
    result would hide records.

    Raises:
        RetryableError: The metadata cannot answer now, so the offset is not known.
        RemoteResourceNotFound: The partition is unknown, or deleted.
    """
    tip = log.topic_id_partition
    for epoch in sorted(log.leader_epochs):
        async for segment in metadata.list_remote_log_segments(tip, epoch):
            return segment.start_offset
    return max(log.log_start_offset, log.segments()[0].base_offset)
