"""A partition's tier at one moment: its lineage, and which segment holds which offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import CorruptRemoteData, InvalidArgument, RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.producer_snapshot import (
    open_transactions,
    parse_producer_snapshot,
)
from tierledger.tiering.metadata_ports import RemoteLogMetadataSource
from tierledger.tiering.reader.lineage_chain import EpochRange, LineageChain

if TYPE_CHECKING:
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager


class Stretch(NamedTuple):
    """What one segment holds of the lineage from an offset on; both ends are inclusive."""

    metadata: RemoteLogSegmentMetadata
    first: int
    last: int

    @property
    def name(self) -> str:
        """The segment's name in errors."""
        return str(self.metadata.remote_log_segment_id)


@dataclass(frozen=True, slots=True)
class Tier:
    """One partition's tier as of its newest finished segment."""

    topic_id_partition: TopicIdPartition
    source: RemoteLogMetadataSource
    storage: RemoteStorageManager
    chain: LineageChain
    newest: RemoteLogSegmentMetadata

    @property
    def next_offset(self) -> int:
        """The offset after the last one."""
        return self.chain.end_offset + 1

    async def earliest_offset(self) -> int:
        """The first offset that a finished segment holds."""
        for epoch_range in self.chain.ranges:
            async for _, held in self.segments_in(epoch_range):
                return held.first
        return self.next_offset

    async def segments_in(
        self, epoch_range: EpochRange
    ) -> AsyncIterator[tuple[RemoteLogSegmentMetadata, EpochRange]]:
        """Finished segments that hold offsets of `epoch_range`, each with the offsets it holds.

        Ordered by start offset; they may overlap.
        """
        listed = self.source.list_remote_log_segments(
            self.topic_id_partition, epoch_range.epoch
        )
        async for one in listed:
            if one.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                continue
            held = self.chain.shared_in(one, epoch_range)
            if held is not None:
                yield one, held

    async def stretch_at(self, offset: int) -> Stretch:
        """What one segment holds from `offset` on.

        Raises:
            InvalidArgument: The tier begins behind `offset`, or ends before it.
            RemoteResourceNotFound: No segment holds it, though the tier goes on behind it.
            CorruptRemoteData: A segment's epochs contradict the lineage.
        """
        tip = self.topic_id_partition
        held_in = self.chain.range_for(offset)
        if held_in is None:
            raise await self.out_of_range(offset)
        found = await self.source.remote_log_segment_metadata(tip, held_in.epoch, offset)
        if found is None:
            if offset < await self.earliest_offset():
                raise await self.out_of_range(offset)
            raise RemoteResourceNotFound(
                f"{tip}: no segment holds offset {offset} of leader epoch {held_in.epoch}, "
                f"though the tier reaches to {self.chain.end_offset}"
            )
        self._check_epochs(found)
        last = self.chain.shared_end(found, offset)
        if last is None:
            raise CorruptRemoteData(
                f"{tip}: expected {found.remote_log_segment_id} to hold offset {offset} of "
                f"leader epoch {held_in.epoch}, it has epochs "
                f"{dict(found.segment_leader_epochs)} and ends at {found.end_offset}"
            )
        following = self.chain.range_for(last + 1)
        if following is not None and following.first == last + 1:
            # If that epoch really began earlier, the end of this stretch belongs to a lost
            # lineage. The segment behind shows whether the chain has its start right.
            behind = await self.source.remote_log_segment_metadata(
                tip, following.epoch, following.first
            )
            if behind is not None:
                self._check_epochs(behind)
        return Stretch(found, offset, last)

    def _check_epochs(self, segment: RemoteLogSegmentMetadata) -> None:
        newest = self.newest.remote_log_segment_id
        self.chain.check(segment, f"leader-epoch index of {newest}")

    async def out_of_range(self, offset: int) -> InvalidArgument:
        return InvalidArgument(
            f"{self.topic_id_partition}: offset {offset} is not in the tier, "
            f"which holds {await self.earliest_offset()} to {self.chain.end_offset}"
        )


async def stable_offset_after(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata
) -> int:
    """Where the oldest transaction begins that is open at the segment's end; else that end + 1.

    Raises:
        RemoteResourceNotFound: The segment's producer snapshot is not there.
        CorruptRemoteData: The snapshot cannot be parsed.
    """
    opened = await open_transactions_after(storage, segment)
    return min((segment.end_offset + 1, *opened.values()))


async def open_transactions_after(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata
) -> dict[int, int]:
    """By producer, where its transaction begins that is open at the segment's end.

    Raises as `stable_offset_after` does.
    """
    name = f"producer snapshot of {segment.remote_log_segment_id}"
    snapshot = await storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
    return open_transactions(parse_producer_snapshot(snapshot, name))
