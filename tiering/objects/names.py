"""Names of topics and segments in objects' names, for all layouts."""

from __future__ import annotations

import re

from tierledger.events.errors import InvalidArgument
from tierledger.events.metadata import RemoteLogSegmentMetadata

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def topic_name(metadata: RemoteLogSegmentMetadata) -> str:
    """The topic's name, which is safe in a path.

    Raises:
        InvalidArgument: Kafka does not allow this name.
    """
    topic = metadata.topic_id_partition.topic
    if _TOPIC.fullmatch(topic) is None or topic in {".", ".."}:
        raise InvalidArgument(
            "expected 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-' for a topic's name, and neither "
            f"'.' nor '..', got {topic[:300]!r}"
        )
    return topic


def segment_name(metadata: RemoteLogSegmentMetadata) -> str:
    """`<start offset in 20 digits>-<segment id>`, as Kafka and its plugins name segments."""
    return f"{metadata.start_offset:020}-{metadata.remote_log_segment_id.id}"
