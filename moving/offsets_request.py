"""Kafka's ListOffsets request, version 8: the first that asks where the local log starts.

aiokafka ends at version 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response  # type: ignore[import-untyped] # It has no types.
from aiokafka.protocol.types import (  # type: ignore[import-untyped] # It has no types.
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

API_KEY, VERSION = 2, 8

EARLIEST, EARLIEST_LOCAL = -2, -4
"""Timestamps that ask for a log's start: with its tier, and in the broker's own folder."""

_NO_EPOCH, _CONSUMER = -1, -1


class OffsetsResponse(Response):  # type: ignore[misc]
    """By topic and partition an error code and an offset."""

    API_KEY = API_KEY
    API_VERSION = VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("timestamp", Int64),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _OffsetsRequestV8(RequestStruct):  # type: ignore[misc]
    API_KEY = API_KEY
    API_VERSION = VERSION
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = OffsetsResponse
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("current_leader_epoch", Int32),
                        ("timestamp", Int64),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class OffsetsRequest(Request[_OffsetsRequestV8]):  # type: ignore[misc]
    """Asks for one kind of offset of partitions, which the asked broker leads."""

    API_KEY = API_KEY

    def __init__(self, partitions: Mapping[str, Sequence[int]], timestamp: int) -> None:
        """`partitions`: by topic."""
        self._topics: list[Any] = [
            (topic, [(number, _NO_EPOCH, timestamp, {}) for number in numbers], {})
            for topic, numbers in partitions.items()
        ]

    def build(self, request_struct_class: Any) -> Any:  # noqa: ANN401 - aiokafka's.
        return request_struct_class(_CONSUMER, 0, self._topics, {})
