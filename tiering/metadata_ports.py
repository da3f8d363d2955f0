"""What the tier needs of the metadata, as protocols: handed in, never looked up.

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

    Every question raises `RemoteResourceNotFound` for an unknown or deleted partition, and
    `RetryableError` when it cannot be answered now: never "none" for "I do not know yet".
    """

    async def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds `offset` in that leader epoch; none if none does."""
        ...

    async def highest_offset_for_epoch(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        """The highest offset that finished in `leader_epoch`; none if none did."""
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

        As of one position, and fetched page by page while it is iterated.
        """
        ...

    async def partition_summary(self, topic_id_partition: TopicIdPartition) -> PartitionSummary:
        """Counts, bytes and epochs, without listing anything."""
        ...


class RemoteLogMetadataStore(RemoteLogMetadataSource, Protocol):
    """Takes changes, too. What returns is durable; each returns the position it holds from.

    Every answer is as of that position or later, from leader, follower or storage.

    Raises:
        Fenced: Another broker leads the partition by now; it did not happen and will not.
        OutcomeUnknown: It may have happened: clean nothing up before it is known.
        RejectedError: It did not happen.
    """

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        """Store a segment whose copy starts (COPY_SEGMENT_STARTED)."""
        ...

    async def update_remote_log_segment_metadata(
        self, update: RemoteLogSegmentMetadataUpdate
    ) -> int:
        """Move a segment on in its life."""
        ...

    async def put_remote_partition_delete_metadata(
        self, metadata: RemotePartitionDeleteMetadata
    ) -> int:
        """Move the deletion of a whole partition on."""
        ...
