"""Kafka's Metadata request, version 12: the first that asks by topic id.

aiokafka ends at version 5, which has no leader epochs.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import Any

from aiokafka.protocol.abstract import AbstractType  # type: ignore[import-untyped]
from aiokafka.protocol.types import Boolean, CompactArray, Int16, Int32  # type: ignore[import-untyped]

from tierledger.storage.kafka_requests import STRING, request_of, rows

ID_BYTES = 16


class _Uuid(AbstractType):  # type: ignore[misc]  # aiokafka has no types.
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(ID_BYTES)


_BROKERS = rows(("node_id", Int32), ("host", STRING), ("port", Int32), ("rack", STRING))
_PARTITIONS = rows(
    ("error_code", Int16),
    ("partition", Int32),
    ("leader_id", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline_replicas", CompactArray(Int32)),
)
_TOPICS = rows(
    ("error_code", Int16),
    ("name", STRING),
    ("topic_id", _Uuid),
    ("is_internal", Boolean),
    ("partitions", _PARTITIONS),
    ("topic_authorized_operations", Int32),
)

_Metadata = request_of(
    *(3, 12),
    asks=[
        ("topics", rows(("topic_id", _Uuid), ("name", STRING))),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
    ],
    answers=[
        ("throttle_time_ms", Int32),
        ("brokers", _BROKERS),
        ("cluster_id", STRING),
        ("controller_id", Int32),
        ("topics", _TOPICS),
    ],
)


def metadata_request(topic_ids: Iterable[bytes]) -> Any:  # noqa: ANN401 - aiokafka's.
    """Asks for the partitions of topics, by the topics' ids."""
    return _Metadata([(topic_id, None, {}) for topic_id in topic_ids], False, False)
