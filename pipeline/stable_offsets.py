"""What a consumer group has committed, as no open transaction can change it any more.

aiokafka's own question (version 3 of OffsetFetch) cannot ask for that: right behind a
transaction its answer may be the offset that was committed before. `require_stable` is in
version 7, which brokers know since 2.5 (KIP-447).
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, TypeAlias

from aiokafka import TopicPartition  # type: ignore[import-untyped]
from aiokafka.errors import (  # type: ignore[import-untyped]
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    for_code,
)
from aiokafka.protocol.api import (  # type: ignore[import-untyped]
    Request,
    RequestStruct,
    Response,
)
from aiokafka.protocol.types import (  # type: ignore[import-untyped]
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

# aiokafka's admin client is not annotated.
Admin: TypeAlias = Any

UNSTABLE_OFFSET_COMMIT = 88

PASSING = (
    CoordinatorLoadInProgressError.errno,
    CoordinatorNotAvailableError.errno,
    NotCoordinatorError.errno,
    UNSTABLE_OFFSET_COMMIT,
)
"""Errors that pass by themselves; the first group of a cluster makes Kafka's topic for them."""

AGAIN_S = 0.2
"""Pause before brokers are asked again."""


class Committed(NamedTuple):
    """An offset with the text that was committed with it."""

    offset: int
    metadata: str


async def stable_offset(admin: Admin, group: str, where: TopicPartition) -> Committed | None:
    """What the group has committed for the partition; None if nothing.

    While a transaction that commits another offset is open, it waits for the transaction's end.
    """
    while True:
        code, found = await _asked(admin, group, where)
        if code in PASSING:
            await asyncio.sleep(AGAIN_S)
        elif code:
            raise for_code(code)(f"the offset of {group} for {where}")
        else:
            return found


async def _asked(
    admin: Admin, group: str, where: TopicPartition
) -> tuple[int, Committed | None]:
    try:
        coordinator = await admin.find_coordinator(group)
    except CoordinatorNotAvailableError as error:
        return error.errno, None
    answer = await admin._send_request(_StableOffsetFetch(group, where), coordinator)
    if answer.error_code or not answer.topics:
        return answer.error_code, None
    ((_, ((_, offset, _, metadata, code, _),), _),) = answer.topics
    return code, None if offset < 0 else Committed(offset, metadata or "")


class _Response(Response):  # type: ignore[misc]
    API_KEY = 9
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition_index", Int32),
                        ("committed_offset", Int64),
                        ("committed_leader_epoch", Int32),
                        ("metadata", CompactString("utf-8")),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class _Request(RequestStruct):  # type: ignore[misc]
    API_KEY = 9
    API_VERSION = 7
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _Response
    SCHEMA = Schema(
        ("group_id", CompactString("utf-8")),
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                ("partition_indexes", CompactArray(Int32)),
                ("tags", TaggedFields),
            ),
        ),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class _StableOffsetFetch(Request[_Request]):  # type: ignore[misc]
    API_KEY = 9

    def __init__(self, group: str, where: TopicPartition) -> None:
        self._group, self._where = group, where

    def build(self, request_struct_class: type[_Request]) -> _Request:
        topics: list[Any] = [(self._where.topic, [self._where.partition], {})]
        return request_struct_class(self._group, topics, True, {})
