"""Kafka's ListOffsets request, version 8: the first that asks where the local log starts.

aiokafka ends at version 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.protocol.types import Int8, Int16, Int32, Int64  # type: ignore[import-untyped] # It has no types.

from tierledger.storage.kafka_requests import STRING, request_of, rows

EARLIEST, EARLIEST_LOCAL, LATEST = -2, -4, -1
"""Timestamps that ask for a log's start, with its tier and in the broker's own folder, and for
its high watermark."""

_NO_EPOCH, _CONSUMER = -1, -1

_ASKED = rows(("partition", Int32), ("current_leader_epoch", Int32), ("timestamp", Int64))
_FOUND = rows(
    ("partition", Int32),
    ("error_code", Int16),
    ("timestamp", Int64),
    ("offset", Int64),
    ("leader_epoch", Int32),
)

_Offsets = request_of(
    *(2, 8),
    asks=[
        ("replica_id", Int32),
        ("isolation_level", Int8),
        ("topics", rows(("name", STRING), ("partitions", _ASKED))),
    ],
    answers=[
        ("throttle_time_ms", Int32),
        ("topics", rows(("name", STRING), ("partitions", _FOUND))),
    ],
)


def offsets_request(partitions: Mapping[str, Sequence[int]], timestamp: int) -> Any:  # noqa: ANN401 - aiokafka's.
    """Asks for one kind of offset of partitions, by topic, which the asked broker leads."""
    topics: list[Any] = [
        (topic, [(number, _NO_EPOCH, timestamp, {}) for number in numbers], {})
        for topic, numbers in partitions.items()
    ]
    return _Offsets(_CONSUMER, 0, topics)
