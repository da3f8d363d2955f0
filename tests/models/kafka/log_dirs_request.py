"""Kafka's AlterReplicaLogDirs request, which aiokafka lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiokafka.protocol.types import CompactArray, Int16, Int32  # type: ignore[import-untyped] # It has no types.

from tierledger.storage.kafka_requests import STRING, request_of, rows

_TOPICS = rows(("name", STRING), ("partitions", CompactArray(Int32)))
_MOVED = rows(("partition", Int32), ("error_code", Int16))

_LogDirs = request_of(
    *(34, 2),
    asks=[("dirs", rows(("path", STRING), ("topics", _TOPICS)))],
    answers=[
        ("throttle_time_ms", Int32),
        ("results", rows(("name", STRING), ("partitions", _MOVED))),
    ],
)


def log_dirs_request(topic: str, to: Path) -> Any:  # noqa: ANN401 - aiokafka's.
    """Moves the log of the topic's partition 0, on the broker that is asked, to a folder."""
    return _LogDirs([(str(to), [(topic, [0], {})], {})])
