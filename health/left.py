"""What deleted topics left: segments of partitions that no broker hosts.

A topic that is deleted while its broker may not write leaves them, and no broker deletes them
any more; `tierledger forget` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.requests import RouteCall

if TYPE_CHECKING:
    from tierledger.actors.connection import CoordinatorHandle
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.storage.catalog import Catalog

PARTITIONS_MAX = 10_000
"""Partitions of a store that are looked at: half a second."""

LOGS_MAX = 1000
"""Logs that are read of those that no broker hosts."""

ROUTES_AT_ONCE = 500


class LeftPartition(NamedTuple):
    """A partition with segments that no broker hosts."""

    topic: str
    topic_id: str
    partition: int
    segments: int
    bytes: int


async def left_in(catalog: Catalog, coordinator: CoordinatorHandle) -> list[LeftPartition]:
    """What is left in the store, by topic id and number; of huge stores only the first.

    Raises:
        RemoteStorageError: The coordinator or the store does not answer, or a log is damaged.
    """
    tips: list[TopicIdPartition] = []
    async for tip, _ in catalog.first_batches():
        tips.append(tip)
        if len(tips) == PARTITIONS_MAX:
            break
    unhosted: list[tuple[TopicIdPartition, str]] = []
    for at in range(0, len(tips), ROUTES_AT_ONCE):
        some = tips[at : at + ROUTES_AT_ONCE]
        asked = RouteCall([PartitionKey.of(tip) for tip in some])
        routes = await coordinator.ask(asked)
        for tip, route in zip(some, routes, strict=True):
            if route.leader is None and not route.followers:
                unhosted.append((tip, route.topic))
    left = []
    for tip, topic in unhosted[:LOGS_MAX]:
        state, _ = await catalog.reader(tip).state()
        segments, size = sum(state.count_by_state), sum(state.bytes_by_state)
        if segments:
            left.append(LeftPartition(topic, str(tip.topic_id), tip.partition, segments, size))
    return left
