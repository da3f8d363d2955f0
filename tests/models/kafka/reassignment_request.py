"""Kafka's AlterPartitionReassignments request, which aiokafka lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiokafka.protocol.types import CompactArray, Int16, Int32  # type: ignore[import-untyped] # It has no types.

from tierledger.storage.kafka_requests import STRING, request_of, rows

_ERROR = (("error_code", Int16), ("error_message", STRING))
_ASKED = rows(("partition", Int32), ("replicas", CompactArray(Int32)))

_Reassignment = request_of(
    *(45, 0),
    asks=[("timeout_ms", Int32), ("topics", rows(("name", STRING), ("partitions", _ASKED)))],
    answers=[
        ("throttle_time_ms", Int32),
        *_ERROR,
        ("topics", rows(("name", STRING), ("partitions", rows(("partition", Int32), *_ERROR)))),
    ],
)


def reassignment_request(topic: str, replicas: Sequence[int]) -> Any:  # noqa: ANN401 - aiokafka's.
    """Assigns partition 0 of the topic to the brokers `replicas`."""
    return _Reassignment(10_000, [(topic, [(0, list(replicas), {})], {})])
