"""What brokers would delete from the tier once they may, and what they are deleting already."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tierledger.actors.calls import STORAGE, PartitionsCall
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.coordinator.requests import HostsCall
from tierledger.actors.holds import Hold
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.messages import Query
from tierledger.actors.no_brokers import OBSERVER
from tierledger.conformance.answers import recorded_segment
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.tables.segment_rows import END, START, STATE, unpack_row
from tierledger.moving.freshness import starts_of
from tierledger.storage.kafka_brokers import KafkaBrokers

DEADLINE_S = 30.0
"""Deadline of a question to the service, in seconds."""

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED.name
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


class Doomed(NamedTuple):
    """The finished segments of one partition that are below its log start."""

    partition: str
    log_start: int
    """Of its leader, as Kafka tells it; what is below cannot be read already."""
    segments: int
    bytes: int
    first_offset: int
    last_offset: int


async def doomed(
    settings: ServiceSettings, connection: ServiceConnection, brokers: KafkaBrokers
) -> list[Doomed]:
    """The segments of all partitions that the service serves and that brokers would delete.

    Raises:
        RemoteStorageError: The service or the brokers do not answer.
    """
    starts = {one.partition: one.earliest for one in await starts_of(brokers)}
    found = []
    async with _observer(settings) as manager:
        for tip in sorted(await served(connection), key=str):
            name = f"{tip.topic}-{tip.partition}"
            if name in starts:  # Otherwise its topic is deleted.
                below = await _below(manager, tip, starts[name])
                found += [_doomed(name, starts[name], below)] if below else []
    return found


async def being_deleted(
    settings: ServiceSettings, tips: Iterable[TopicIdPartition], hold: Hold
) -> list[str]:
    """A line for each of `tips` with segments that `hold` came too late for.

    Raises:
        RemoteStorageError: The service does not answer.
    """
    lines = []
    async with _observer(settings) as manager:
        for tip in tips:
            going = [
                one
                for row in await _rows(manager, tip)
                if (one := unpack_row(row))[STATE] == DELETING
                and hold.covers_segment(one, None)
            ]
            if going:
                low, high = min(one[START] for one in going), max(one[END] for one in going)
                lines.append(
                    f"{tip.topic}-{tip.partition}: {len(going)} segments are being deleted "
                    f"already and are not kept, offsets {low} to {high}"
                )
    return lines


@asynccontextmanager
async def _observer(settings: ServiceSettings) -> AsyncIterator[AsyncRemoteLogMetadataManager]:
    async with AsyncRemoteLogMetadataManager(deadline_s=DEADLINE_S) as manager:
        await manager.configure(
            {**settings.storage, "cluster.id": settings.cluster_id, "broker.id": OBSERVER}
        )
        yield manager


async def _rows(
    manager: AsyncRemoteLogMetadataManager, tip: TopicIdPartition
) -> Sequence[bytes]:
    try:
        return await manager.rows(tip, Query("list"), STORAGE)
    except RemoteResourceNotFound:
        return ()


async def served(connection: ServiceConnection) -> dict[TopicIdPartition, int]:
    """The partitions that the service serves, each with its segments that are being deleted.

    Those whose deletion is finished are left out.
    """
    hosts = (await connection.coordinator.ask(HostsCall())).values()
    found: dict[TopicIdPartition, int] = {}
    for host in hosts:
        for one in await connection.host(host).ask(PartitionsCall()):
            if not one["is_deleted"]:
                tip = TopicIdPartition(
                    Uuid.parse(one["topic_id"]), one["partition"], one["topic"]
                )
                found[tip] = max(found.get(tip, 0), one.get("deleting", 0))
    return found


async def _below(
    manager: AsyncRemoteLogMetadataManager, tip: TopicIdPartition, log_start: int
) -> list[dict[str, Any]]:
    listed = map(recorded_segment, await _rows(manager, tip))
    return [one for one in listed if one["state"] == FINISHED and one["end_offset"] < log_start]


def _doomed(name: str, log_start: int, below: list[dict[str, Any]]) -> Doomed:
    return Doomed(
        name,
        log_start,
        len(below),
        sum(one["size"] for one in below),
        min(one["start_offset"] for one in below),
        max(one["end_offset"] for one in below),
    )
