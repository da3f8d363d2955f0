"""Kafka's AlterReplicaLogDirs request, which aiokafka lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response  # type: ignore[import-untyped] # It has no types.
from aiokafka.protocol.types import (  # type: ignore[import-untyped] # It has no types.
    Array,
    Int16,
    Int32,
    Schema,
    String,
)

API_KEY = 34


class LogDirsResponse(Response):  # type: ignore[misc]
    API_KEY = API_KEY
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            Array(
                ("name", String("utf-8")),
                ("partitions", Array(("partition", Int32), ("error_code", Int16))),
            ),
        ),
    )


class _LogDirsRequestV1(RequestStruct):  # type: ignore[misc]
    API_KEY = API_KEY
    API_VERSION = 1
    RESPONSE_TYPE = LogDirsResponse
    SCHEMA = Schema(
        (
            "dirs",
            Array(
                ("path", String("utf-8")),
                ("topics", Array(("name", String("utf-8")), ("partitions", Array(Int32)))),
            ),
        ),
    )


class LogDirsRequest(Request[_LogDirsRequestV1]):  # type: ignore[misc]
    """Moves the log of the topic's partition 0, on the broker that is asked, to a folder."""

    API_KEY = API_KEY

    def __init__(self, topic: str, to: Path) -> None:
        self._dirs: list[Any] = [(str(to), [(topic, [0])])]

    def build(self, request_struct_class: Any) -> Any:  # noqa: ANN401 - aiokafka's.
        return request_struct_class(self._dirs)
