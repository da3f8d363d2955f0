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
from aiokafka.protocol.types import Boolean, CompactArray, Int16, Int32, Int64  # type: ignore[import-untyped]

from tierledger.storage.kafka_requests import STRING, request_of, rows

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


_OffsetFetch = request_of(
    *(9, 7),
    asks=[
        ("group_id", STRING),
        ("topics", rows(("name", STRING), ("partition_indexes", CompactArray(Int32)))),
        ("require_stable", Boolean),
    ],
    answers=[
        ("throttle_time_ms", Int32),
        (
            "topics",
            rows(
                ("name", STRING),
                (
                    "partitions",
                    rows(
                        ("partition_index", Int32),
                        ("committed_offset", Int64),
                        ("committed_leader_epoch", Int32),
                        ("metadata", STRING),
                        ("error_code", Int16),
                    ),
                ),
            ),
        ),
        ("error_code", Int16),
    ],
)


class Committed(NamedTuple):
    """An offset with the text that was committed with it."""

    offset: int
    metadata: str


async def committed_offset(
    admin: Admin, group: str, where: TopicPartition, *, is_stable: bool
) -> Committed | None:
    """What the group has committed for the partition; None if nothing.

    `is_stable`: while a transaction that commits another offset is open, wait for its end. That
    of a producer that was killed ends when its successor starts, or after a minute.
    """
    while True:
        code, found = await _asked(admin, group, where, is_stable=is_stable)
        if code in PASSING:
            await asyncio.sleep(AGAIN_S)
        elif code:
            raise for_code(code)(f"the offset of {group} for {where}")
        else:
            return found


async def _asked(
    admin: Admin, group: str, where: TopicPartition, *, is_stable: bool
) -> tuple[int, Committed | None]:
    try:
        coordinator = await admin.find_coordinator(group)
    except CoordinatorNotAvailableError as error:
        return error.errno, None
    asked = _OffsetFetch(group, [(where.topic, [where.partition], {})], is_stable)
    answer = await admin._send_request(asked, coordinator)
    if answer.error_code or not answer.topics:
        return answer.error_code, None
    ((_, ((_, offset, _, metadata, code, _),), _),) = answer.topics
    return code, None if offset < 0 else Committed(offset, metadata or "")
