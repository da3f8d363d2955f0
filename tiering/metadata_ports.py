"""The metadata interfaces that the tier needs, as protocols. Callers pass implementations in.

`actors.client.AsyncRemoteLogMetadataManager` is both; `tiering.stored_metadata` is a source.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.answers import PartitionSummary


class RemoteLogMetadataSource(Protocol):
    """Answers about segments.

    Every method raises `RemoteResourceNotFound` for an unknown or deleted partition, and
    `RetryableError` if it cannot answer now. None means "there is none", never "not known yet".
    """

    async def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds `offset` in that leader epoch; none if none does."""
        ...

    async def highest_offset_for_epoch(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        """The highest offset ever finished in `leader_epoch`; none if there is none."""
        ...

    async def remote_log_size(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int:
        """Bytes of all segments listed for `leader_epoch` (KIP-852)."""
        ...

    async def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The first segment from `offset` on that may have a transaction index (KIP-1058)."""
        ...

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> AsyncIterator[RemoteLogSegmentMetadata]:
        """All segments in no order, or those of `leader_epoch` by start offset.

        The list is as of one log position. It is fetched page by page during the iteration.
        """
        ...

    async def partition_summary(self, topic_id_partition: TopicIdPartition) -> PartitionSummary:
        """Counts and bytes by state, leader epochs and deletion state; nothing is listed."""
        ...


class RemoteLogMetadataStore(RemoteLogMetadataSource, Protocol):
    """A source that also takes changes.

    A change is durable when its method returns the log position from which it holds. Later
    answers are as of that position or later, whether from leader, follower or storage.

    Raises:
        Fenced: Another broker leads the partition. The change was not and will not be made.
        OutcomeUnknown: In doubt: the change may have been made, so clean nothing up until that
            is known.
        RejectedError: The change was not made.
    """

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        """Store a segment whose copy starts (COPY_SEGMENT_STARTED)."""
        ...

    async def update_remote_log_segment_metadata(
        self, update: RemoteLogSegmentMetadataUpdate
    ) -> int:
        """Move a segment to its next state."""
        ...

    async def put_remote_partition_delete_metadata(
        self, metadata: RemotePartitionDeleteMetadata
    ) -> int:
        """Move the deletion of a whole partition to its next state."""
        ...
