"""A follower's work with the tier: what it may drop locally, and where to restart its log."""

from __future__ import annotations

from typing import Final, NamedTuple

from tierledger.events.errors import (
    InvalidArgument,
    RemoteResourceNotFound,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import parse_leader_epochs
from tierledger.tiering.local.leader_epochs import OffsetAndEpoch
from tierledger.tiering.local.log import LocalLog
from tierledger.tiering.local.remote_offsets import find_highest_remote_offset
from tierledger.tiering.metadata_ports import RemoteLogMetadataSource
from tierledger.tiering.metrics.tier_metrics import (
    AUX_STATE_ERRORS,
    AUX_STATE_REQUESTS,
    TierMetrics,
)
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

AUX_STATE: Final = frozenset({IndexType.LEADER_EPOCH, IndexType.PRODUCER_SNAPSHOT})

_log = ProcessLog("tierledger.tiering")


class LeaderLog(NamedTuple):
    """The leader's report of its log, when it answered that an offset is in the tier only."""

    log_start_offset: int
    earliest_local_offset: int
    earliest_local_epoch: int
    """The leader epoch of `earliest_local_offset`."""
    end_of_epoch_before: OffsetAndEpoch | None
    """The leader's answer about the end of the epoch before `earliest_local_epoch`: an end
    offset (exclusive) and the epoch that it belongs to. None if there is no epoch before."""


class FollowerTask:
    """The task of one partition that this broker follows: run it every interval."""

    def __init__(
        self,
        log: LocalLog,
        metadata: RemoteLogMetadataSource,
        storage: RemoteStorageManager,
        metrics: TierMetrics,
    ) -> None:
        self._log = log
        self._tip = log.topic_id_partition
        self._metadata = metadata
        self._storage = storage
        self._metrics = metrics

    async def run_once(self) -> OffsetAndEpoch | None:
        """Let the local log drop all offsets up to the highest remote one, and return that.

        None if the metadata cannot answer now.

        Raises:
            RemoteResourceNotFound: The partition is unknown, or deleted.
        """
        try:
            highest = await find_highest_remote_offset(self._log, self._metadata)
        except RetryableError as error:
            _log.debug("not ready", partition=str(self._tip), error=str(error))
            return None
        await self._log.raise_highest_offset_in_remote_storage(highest.offset)
        return highest

    async def rebuild_aux_state(self, leader: LeaderLog) -> int:
        """Restart the local log behind the tier's part; return the offset to fetch from.

        Leader epochs and producer state come from the segment that holds the last offset
        before the leader's local ones. The local log is unchanged until all of these are
        fetched and verified.

        Raises:
            RemoteResourceNotFound: No segment holds that offset, or the tier lacks its leader
                epochs or producer snapshot.
            CorruptRemoteData: The tier's data does not verify.
            RetryableError: Metadata or storage cannot answer now.
            InvalidArgument: The leader's local log begins at 0, so nothing of it is remote.
        """
        self._metrics.count(AUX_STATE_REQUESTS, self._tip)
        try:
            return await self._rebuild(leader)
        except (RemoteStorageError, OSError):
            self._metrics.count(AUX_STATE_ERRORS, self._tip)
            raise

    async def _rebuild(self, leader: LeaderLog) -> int:
        segment = await self._segment_before(leader)
        found = await self._storage.fetch_indexes(segment, AUX_STATE)
        for missing in sorted(one.name for one in AUX_STATE - found.keys()):
            raise RemoteResourceNotFound(
                f"{segment.remote_log_segment_id}: expected {missing} in the tier to begin "
                "the log from, it is not there"
            )
        name = f"{segment.remote_log_segment_id}: leader epochs"
        epochs = parse_leader_epochs(found[IndexType.LEADER_EPOCH], name)
        offset = segment.end_offset + 1
        snapshot = found[IndexType.PRODUCER_SNAPSHOT]
        await self._log.restart_at(offset, epochs, snapshot, leader.log_start_offset)
        return offset

    async def _segment_before(self, leader: LeaderLog) -> RemoteLogSegmentMetadata:
        last = leader.earliest_local_offset - 1
        if last < 0:
            raise InvalidArgument(f"{self._tip}: the leader has offset 0 itself")
        epoch = epoch_of_last_remote(leader)
        segment = await self._metadata.remote_log_segment_metadata(self._tip, epoch, last)
        if segment is None:
            raise RemoteResourceNotFound(
                f"{self._tip}: the leader has its log from {last + 1} on, but no finished "
                f"segment holds offset {last} in leader epoch {epoch}"
            )
        return segment


def epoch_of_last_remote(leader: LeaderLog) -> int:
    """The leader epoch of the last offset before the leader's local ones.

    This is the epoch before the earliest local one, if that one reaches up to this offset (its
    number may be lower by more than one); else the earliest local epoch itself.
    """
    end = leader.end_of_epoch_before
    if leader.earliest_local_epoch == 0 or end is None:
        return leader.earliest_local_epoch
    is_in_it = end.offset > leader.earliest_local_offset - 1
    return end.epoch if is_in_it else leader.earliest_local_epoch
