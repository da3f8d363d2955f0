"""Kafka's AlterPartitionReassignments request, which aiokafka lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response  # type: ignore[import-untyped] # It has no types.
from aiokafka.protocol.types import (  # type: ignore[import-untyped] # It has no types.
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

API_KEY = 45


class ReassignmentResponse(Response):  # type: ignore[misc]
    API_KEY = API_KEY
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString("utf-8")),
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", CompactString("utf-8")),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ReassignmentRequestV0(RequestStruct):  # type: ignore[misc]
    API_KEY = API_KEY
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ReassignmentResponse
    SCHEMA = Schema(
        ("timeout_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class ReassignmentRequest(Request[_ReassignmentRequestV0]):  # type: ignore[misc]
    """Assigns partition 0 of the topic to the brokers `replicas`."""

    API_KEY = API_KEY

    def __init__(self, topic: str, replicas: Sequence[int]) -> None:
        self._topics: list[Any] = [(topic, [(0, list(replicas), {})], {})]

    def build(self, request_struct_class: Any) -> Any:  # noqa: ANN401 - aiokafka's.
        return request_struct_class(10_000, self._topics, {})
