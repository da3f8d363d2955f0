"""From where to where a log is remote, as its own leader epochs and the metadata say."""

from __future__ import annotations

from tierledger.tiering.local.leader_epochs import NOWHERE, OffsetAndEpoch, end_offset_for
from tierledger.tiering.local.log import LocalLog
from tierledger.tiering.metadata_ports import RemoteLogMetadataSource


async def find_highest_remote_offset(
    log: LocalLog, metadata: RemoteLogMetadataSource
) -> OffsetAndEpoch:
    """The last offset of `log` that is remote, and its leader epoch; `NOWHERE` if none is.

    Never an offset that this log does not have: what an unclean election cut off may have been
    copied further than this log's part of that epoch, whose end counts then.

    Raises:
        RetryableError: The metadata cannot answer now; nothing follows from that.
        RemoteResourceNotFound: The partition is unknown there, or deleted.
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
    """The first offset that the tier has of `log`, or where its local segments begin.

    The first segment listed for the first epoch that lists any counts, whatever its state: too
    low an answer hides nothing, since a log's start never goes back; too high a one would.

    Raises:
        RetryableError: The metadata cannot answer now; nothing follows from that.
        RemoteResourceNotFound: The partition is unknown there, or deleted.
    """
    tip = log.topic_id_partition
    for epoch in sorted(log.leader_epochs):
        async for segment in metadata.list_remote_log_segments(tip, epoch):
            return segment.start_offset
    return max(log.log_start_offset, log.segments()[0].base_offset)
