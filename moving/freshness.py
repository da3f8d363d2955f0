"""Whether an empty ledger may be a cluster's, as brokers, topic and plugins tell.

`handover --fresh` lets it own a cluster that has tiered nothing. If the cluster has tiered,
brokers would take its segments for gone, and delete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from aiokafka.errors import for_code  # type: ignore[import-untyped] # It has no types.

from tierledger.actors.coordinator.attendance import owned_elsewhere
from tierledger.actors.oracle.offsets_request import EARLIEST, EARLIEST_LOCAL, offsets_request
from tierledger.events.errors import RejectedError, RemoteResourceNotFound, StorageUnavailable
from tierledger.moving.sealing import sealed_partitions
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import Admin, admin_of, answering, offsets_of
from tierledger.storage.kafka_brokers import KafkaBrokers

NAMED = 3
"""Partitions that a refusal names."""

TO_DO = (
    "if tierledger has owned this cluster, start the service on that store. If that store is "
    f"lost, so is what only the tier has: delete the tiered topics and {METADATA_TOPIC}, and "
    "remove tierledger.positions from the log folder of each broker while it is stopped"
)

SEALED = f"{METADATA_TOPIC} has tierledger's seal, so another ledger owns the metadata"


ELECTION_S = 15.0
"""So long brokers that were just started may take until each partition has a leader."""

ELECTION_LOOK_S = 0.5

Asked = TypeVar("Asked")


class Starts(NamedTuple):
    """Where a partition starts."""

    partition: str
    earliest: int
    local: int
    """Where it starts in its leader's own folder."""


async def refuse_tiered(brokers: KafkaBrokers, attending: Iterable[Mapping[str, Any]]) -> None:
    """Accept only a cluster that has tiered nothing, by any manager.

    `attending`: the plugins' reports, as the coordinator's status has them.

    Raises:
        RejectedError: It has tiered; with what tells so, and what to do.
        StorageUnavailable: The brokers do not answer, or a partition has no leader.
    """
    found = await _of_topic(brokers), _of_plugins(attending)
    facts = [fact for fact in found if fact is not None]
    starts = await once_led(partial(starts_of, brokers))
    tiered = [one for one in starts if one.earliest < one.local]
    if tiered:
        some = ", ".join(
            f"{one.partition} starts at {one.earliest}, in its leader's folder at {one.local}"
            for one in tiered[:NAMED]
        )
        facts.append(f"{len(tiered)} partitions have records in the tier alone: {some}")
    if facts:
        raise RejectedError(
            f"the cluster at {brokers} is not fresh: {'; '.join(facts)}; {TO_DO}"
        )


async def refuse_owned(brokers: KafkaBrokers, attending: Iterable[Mapping[str, Any]]) -> None:
    """Accept only a cluster of which no other ledger owns the metadata.

    Else Kafka's own manager, which has not been told of the segments, would take over.

    Raises as `refuse_tiered`.
    """
    facts = [fact for fact in (owned_elsewhere(attending), await seal_of(brokers)) if fact]
    if facts:
        raise RejectedError(
            f"nobody owns the metadata on this store, but {'; '.join(facts)}; {TO_DO}"
        )


async def seal_of(brokers: KafkaBrokers) -> str | None:
    """What the seal in the metadata topic tells of another ledger; None: there is none.

    Raises:
        StorageUnavailable: The brokers do not answer.
    """
    try:
        return SEALED if await sealed_partitions(brokers) else None
    except RemoteResourceNotFound:
        return None


async def _of_topic(brokers: KafkaBrokers) -> str | None:
    """What the metadata topic tells of an earlier manager; None: nothing."""
    try:
        found = await offsets_of(brokers, METADATA_TOPIC)
    except RemoteResourceNotFound:
        return None
    written = {number: end for number, (_, end) in found.items() if end}
    if not written:
        return None
    if written.keys() <= await sealed_partitions(brokers):
        return SEALED
    number, end = min(written.items())
    return f"{METADATA_TOPIC}-{number} has had {end} records, so Kafka's own manager has tiered"


def _of_plugins(attending: Iterable[Mapping[str, Any]]) -> str | None:
    """What brokers remember of an earlier ledger; None: nothing."""
    fed = {one["broker_id"]: one["positions"] for one in attending if one["positions"]}
    if not fed:
        return None
    which = ", ".join(f"{broker} ({count} partitions)" for broker, count in sorted(fed.items()))
    return f"another ledger has fed the plugins of brokers {which}"


async def once_led(ask: Callable[[], Awaitable[Asked]]) -> Asked:
    """What `ask` finds, once brokers that were just started have elected all leaders.

    Raises:
        StorageUnavailable: The last attempt's, `ELECTION_S` after the first.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + ELECTION_S
    while True:
        try:
            return await ask()
        except StorageUnavailable:
            if loop.time() >= until:
                raise
        await asyncio.sleep(ELECTION_LOOK_S)


async def starts_of(brokers: KafkaBrokers) -> list[Starts]:
    """Where each partition of the cluster starts.

    Raises:
        StorageUnavailable: The brokers do not answer, or a partition has no leader.
    """
    async with answering(brokers), admin_of(brokers) as admin:
        led: dict[int, dict[str, list[int]]] = {}
        for topic in await admin.describe_topics():
            for one in topic["partitions"]:
                if one["leader"] < 0:
                    raise StorageUnavailable(
                        f"{topic['topic']}-{one['partition']} has no leader, so nobody can say "
                        "whether it has tiered"
                    )
                by_topic = led.setdefault(one["leader"], {})
                by_topic.setdefault(topic["topic"], []).append(one["partition"])
        found = []
        for leader, partitions in led.items():
            earliest = await _offsets(admin, leader, offsets_request(partitions, EARLIEST))
            local = await _offsets(admin, leader, offsets_request(partitions, EARLIEST_LOCAL))
            found += [Starts(one, offset, local[one]) for one, offset in earliest.items()]
    return sorted(found)


async def _offsets(admin: Admin, leader: int, request: Any) -> dict[str, int]:  # noqa: ANN401
    answer = (await admin._client.send(leader, request)).to_object()
    found = {}
    for topic in answer["topics"]:
        for one in topic["partitions"]:
            where = f"{topic['name']}-{one['partition']}"
            if one["error_code"]:
                why = for_code(one["error_code"]).__name__
                raise StorageUnavailable(f"where {where} starts, broker {leader}: {why}")
            found[where] = one["offset"]
    return found
