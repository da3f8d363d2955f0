"""The lineage of a tier: the leader epochs that wrote its log, with their first offsets.

It comes from the newest finished segment, without a broker: that segment's leader-epoch index
holds all epochs up to its end. Records of any other lineage were lost in an unclean election.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import CorruptRemoteData
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.lineage import without_empty_epochs
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import parse_leader_epochs
from tierledger.tiering.local.leader_epochs import epochs_until
from tierledger.tiering.metadata_ports import RemoteLogMetadataSource

if TYPE_CHECKING:
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager


class EpochRange(NamedTuple):
    """The offsets that one leader epoch wrote, both inclusive."""

    epoch: int
    first: int
    last: int

    def shared(self, other: EpochRange) -> EpochRange | None:
        """The offsets that both ranges hold of the same epoch; none if there are none."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        if self.epoch != other.epoch or first > last:
            return None
        return EpochRange(self.epoch, first, last)


class LineageChain:
    """Epochs without gaps between them, from the first known offset to the tier's end."""

    def __init__(self, epochs: Mapping[int, int], end_offset: int) -> None:
        """Take each epoch's first offset, ascending, and the last epoch's end (inclusive)."""
        self.ranges = _ranges(epochs, end_offset)
        self._firsts = [one.first for one in self.ranges]

    @property
    def first_offset(self) -> int:
        """The first offset whose epoch is known."""
        return self.ranges[0].first

    @property
    def end_offset(self) -> int:
        """The last offset, inclusive."""
        return self.ranges[-1].last

    def range_for(self, offset: int) -> EpochRange | None:
        """The epoch that wrote `offset`; none if the chain does not hold it."""
        at = bisect_right(self._firsts, offset) - 1
        if at < 0 or offset > self.ranges[at].last:
            return None
        return self.ranges[at]

    def shared_end(self, segment: RemoteLogSegmentMetadata, offset: int) -> int | None:
        """The last offset to which `segment` follows this lineage from `offset` on.

        None if it does not hold `offset` in this lineage. A segment leaves the chain where it
        holds records of a leader that lost an unclean election.
        """
        end = None
        for one in ranges_of(segment):
            if one.last < offset:
                continue
            mine = self.range_for(max(offset, one.first))
            held = None if mine is None else mine.shared(one)
            # A gap: chain and segment differ in what they have between these two epochs.
            if held is None or (end is not None and held.first != end + 1):
                return end
            if end is None and held.first > offset:
                return None
            end = held.last
        return end

    def check(self, segment: RemoteLogSegmentMetadata, name: str) -> None:
        """Compare the chain with the epochs of `segment`, which holds part of the lineage.

        Raises:
            CorruptRemoteData: An epoch begins at another offset in the chain. The message
                names the chain's origin, `name`.
        """
        firsts = {one.epoch: one.first for one in self.ranges[1:]}
        for held in ranges_of(segment):
            first = firsts.get(held.epoch)
            began_before = held.first == segment.start_offset
            is_right = first is None or (
                first <= held.first if began_before else first == held.first
            )
            if not is_right:
                raise CorruptRemoteData(
                    f"{name}: expected leader epoch {held.epoch} from {held.first} on as "
                    f"{segment.remote_log_segment_id} has it, got {first}"
                )

    def shared_in(
        self, segment: RemoteLogSegmentMetadata, epoch_range: EpochRange
    ) -> EpochRange | None:
        for one in ranges_of(segment):
            if one.epoch == epoch_range.epoch:
                return one.shared(epoch_range)
        return None


def ranges_of(segment: RemoteLogSegmentMetadata) -> list[EpochRange]:
    """The epochs of a segment, each with the offsets that it holds."""
    return _ranges(segment.segment_leader_epochs, segment.end_offset)


def _ranges(epochs: Mapping[int, int], end_offset: int) -> list[EpochRange]:
    kept = without_empty_epochs(epochs_until(epochs, end_offset + 1))
    ends = [following - 1 for _, following in pairwise(kept.values())]
    return [
        EpochRange(epoch, first, last)
        for (epoch, first), last in zip(kept.items(), [*ends, end_offset], strict=True)
    ]


async def newest_segment(
    source: RemoteLogMetadataSource, topic_id_partition: TopicIdPartition
) -> RemoteLogSegmentMetadata | None:
    """The finished segment with the highest offset of the highest epoch; none without any."""
    tip = topic_id_partition
    summary = await source.partition_summary(tip)
    for epoch in reversed(summary.leader_epochs):
        highest = await source.highest_offset_for_epoch(tip, epoch)
        if highest is None:
            continue
        found = await source.remote_log_segment_metadata(tip, epoch, highest)
        if found is None:
            # The segment was deleted since, and `highest_offset_for_epoch` never goes down.
            found = await _last_listed(source, tip, epoch)
        if found is not None:
            return found
    return None


async def fetch_chain(
    storage: RemoteStorageManager, newest: RemoteLogSegmentMetadata
) -> LineageChain:
    """The lineage up to the end of `newest`, from its leader-epoch index.

    Raises:
        RemoteResourceNotFound: The segment has no leader-epoch index in the tier.
        CorruptRemoteData: The index cannot be parsed, or contradicts the segment's epochs.
    """
    name = f"leader-epoch index of {newest.remote_log_segment_id}"
    epochs = parse_leader_epochs(
        await storage.fetch_index(newest, IndexType.LEADER_EPOCH), name
    )
    if not epochs_until(epochs, newest.end_offset + 1):
        raise CorruptRemoteData(f"{name}: expected epochs up to {newest.end_offset}, got none")
    chain = LineageChain(epochs, newest.end_offset)
    first = ranges_of(newest)[0].first
    if chain.shared_end(newest, max(first, chain.first_offset)) != newest.end_offset:
        expected = dict(newest.segment_leader_epochs)
        raise CorruptRemoteData(f"{name}: expected it to end with {expected}, got {epochs}")
    return chain


async def _last_listed(
    source: RemoteLogMetadataSource, tip: TopicIdPartition, epoch: int
) -> RemoteLogSegmentMetadata | None:
    last, end = None, -1
    async for one in source.list_remote_log_segments(tip, epoch):
        held = [part.last for part in ranges_of(one) if part.epoch == epoch]
        finished = one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        if finished and held and held[0] > end:
            last, end = one, held[0]
    return last
