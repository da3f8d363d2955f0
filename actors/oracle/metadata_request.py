"""Kafka's Metadata request, version 12: the first that asks by topic id.

aiokafka ends at version 5, which has no leader epochs.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import Any

from aiokafka.protocol.abstract import AbstractType  # type: ignore[import-untyped]
from aiokafka.protocol.api import Request, RequestStruct, Response  # type: ignore[import-untyped]
from aiokafka.protocol.types import (  # type: ignore[import-untyped]
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

VERSION = 12
ID_BYTES = 16


class _Uuid(AbstractType):  # type: ignore[misc]  # aiokafka has no types.
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(ID_BYTES)


class MetadataResponse(Response):  # type: ignore[misc]
    """Brokers, and of each topic its partitions with leader and leader epoch."""

    API_KEY = 3
    API_VERSION = VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _MetadataRequestV12(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = VERSION
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = MetadataResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic_id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)
            ),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class MetadataRequest(Request[_MetadataRequestV12]):  # type: ignore[misc]
    """Asks for the partitions of topics, by the topics' ids."""

    API_KEY = 3

    def __init__(self, topic_ids: Iterable[bytes]) -> None:
        self._topics: list[Any] = [(topic_id, None, {}) for topic_id in topic_ids]

    def build(self, request_struct_class: Any) -> Any:  # noqa: ANN401 - aiokafka's.
        return request_struct_class(self._topics, False, False, {})
