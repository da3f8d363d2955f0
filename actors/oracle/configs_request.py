"""Kafka's DescribeConfigs request, version 4, for settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka.protocol.types import Boolean, CompactArray, Int8, Int16, Int32  # type: ignore[import-untyped] # It has no types.

from tierledger.storage.kafka_requests import STRING, request_of, rows

_TOPIC, _BROKER = 2, 4

_Configs = request_of(
    *(32, 4),
    asks=[
        (
            "resources",
            rows(
                ("resource_type", Int8),
                ("resource_name", STRING),
                ("configuration_keys", CompactArray(STRING)),
            ),
        ),
        ("include_synonyms", Boolean),
        ("include_documentation", Boolean),
    ],
    answers=[
        ("throttle_time_ms", Int32),
        (
            "results",
            rows(
                ("error_code", Int16),
                ("error_message", STRING),
                ("resource_type", Int8),
                ("resource_name", STRING),
                (
                    "configs",
                    rows(
                        ("name", STRING),
                        ("value", STRING),
                        ("read_only", Boolean),
                        ("config_source", Int8),
                        ("is_sensitive", Boolean),
                        (
                            "synonyms",
                            rows(("name", STRING), ("value", STRING), ("source", Int8)),
                        ),
                        ("config_type", Int8),
                        ("documentation", STRING),
                    ),
                ),
            ),
        ),
    ],
)


def configs_request(topics: Iterable[str], names: Sequence[str]) -> Any:  # noqa: ANN401 - aiokafka's.
    """Asks for these settings of topics, in force or by default."""
    return _Configs([(_TOPIC, topic, list(names), {}) for topic in topics], False, False)


def broker_configs_request(broker_id: int) -> Any:  # noqa: ANN401 - aiokafka's.
    """Asks a broker for all of its own settings; only the broker itself knows them."""
    return _Configs([(_BROKER, str(broker_id), None, {})], False, False)
