"""Lists of segments that may be left early."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.metadata import RemoteLogSegmentMetadata
    from tierledger.tiering.metadata_ports import RemoteLogMetadataSource


@asynccontextmanager
async def listed_segments(
    source: RemoteLogMetadataSource,
    topic_id_partition: TopicIdPartition,
    leader_epoch: int | None = None,
) -> AsyncIterator[AsyncIterator[RemoteLogSegmentMetadata]]:
    """`list_remote_log_segments`, closed on leaving and not when memory is next cleaned up."""
    segments = source.list_remote_log_segments(topic_id_partition, leader_epoch)
    try:
        yield segments
    finally:
        if isinstance(segments, AsyncGenerator):
            await segments.aclose()
