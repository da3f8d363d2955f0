"""The lineage of a tier: which leader epochs wrote the log that it holds, each from where on.

Without a broker the newest finished segment says so: its leader-epoch index holds all epochs up
to its end. What other segments hold of another lineage was lost in an unclean election.
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
        """What both have of one epoch; none if nothing."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        if self.epoch != other.epoch or first > last:
            return None
        return EpochRange(self.epoch, first, last)


class LineageChain:
    """Epochs without gaps between them, from the first offset known to the tier's end."""

    def __init__(self, epochs: Mapping[int, int], end_offset: int) -> None:
        """Take each epoch's start, ascending, and the last offset of all (inclusive)."""
        self.ranges = _ranges(epochs, end_offset)
        self._firsts = [one.first for one in self.ranges]

    @property
    def first_offset(self) -> int:
        """No offset before it has a known epoch."""
        return self.ranges[0].first

    @property
    def end_offset(self) -> int:
        """The last offset, inclusive."""
        return self.ranges[-1].last

    def range_for(self, offset: int) -> EpochRange | None:
        """The epoch that wrote `offset`; none if it lies outside."""
        at = bisect_right(self._firsts, offset) - 1
        if at < 0 or offset > self.ranges[at].last:
            return None
        return self.ranges[at]

    def shared_end(self, segment: RemoteLogSegmentMetadata, offset: int) -> int | None:
        """Up to which offset `segment` holds this lineage, from `offset` on; none if it is not.

        A segment may hold what a leader wrote that lost an unclean election: there it parts
        from the chain.
        """
        end = None
        for one in ranges_of(segment):
            if one.last < offset:
                continue
            mine = self.range_for(max(offset, one.first))
            held = None if mine is None else mine.shared(one)
            # Epochs that follow each other in both have no room for another one between them.
            if held is None or (end is not None and held.first != end + 1):
                return end
            if end is None and held.first > offset:
                return None
            end = held.last
        return end

    def check(self, segment: RemoteLogSegmentMetadata, name: str) -> None:
        """Compare the epochs of `segment`, which holds part of the lineage, with these.

        Raises:
            CorruptRemoteData: An epoch begins elsewhere here; `name` is where these are from.
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
    """The epochs of a segment and what it holds of each."""
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
    """The finished segment with the highest offset of the highest epoch; none if none is."""
    tip = topic_id_partition
    summary = await source.partition_summary(tip)
    for epoch in reversed(summary.leader_epochs):
        highest = await source.highest_offset_for_epoch(tip, epoch)
        if highest is None:
            continue
        found = await source.remote_log_segment_metadata(tip, epoch, highest)
        if found is None:
            # It was deleted since, and what is highest is never lowered.
            found = await _last_listed(source, tip, epoch)
        if found is not None:
            return found
    return None


async def fetch_chain(
    storage: RemoteStorageManager, newest: RemoteLogSegmentMetadata
) -> LineageChain:
    """The lineage that `newest` knows of.

    Raises:
        RemoteResourceNotFound: The segment's leader-epoch index is not there.
        CorruptRemoteData: It is none, or knows other epochs than the segment has.
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
