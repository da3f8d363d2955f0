"""The service in this process on a SQLite file, and a broker's manager connected to it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.local_service import LocalService
from tierledger.actors.wall_clock import RandomIds, WallClock
from tierledger.benchmarks.ledger import store_settings
from tierledger.benchmarks.workload import BROKER, CLUSTER
from tierledger.events.identifiers import TopicIdPartition, Uuid


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[AsyncRemoteLogMetadataManager]:
    """A manager of a service on the store at `path`, all in one process without sockets."""
    async with serving(path) as (_, manager):
        yield manager


@asynccontextmanager
async def serving(
    path: Path, door: DoorSettings | None = None
) -> AsyncIterator[tuple[LocalService, AsyncRemoteLogMetadataManager]]:
    """The same, with its service; `door` makes it listen for other processes."""
    settings = store_settings(path)
    service = LocalService(ServiceSettings(CLUSTER, settings), WallClock(), door=door)
    await service.start()
    manager = AsyncRemoteLogMetadataManager(service.connect, RandomIds())
    try:
        await manager.configure({"cluster.id": CLUSTER, "broker.id": BROKER, **settings})
        yield service, manager
    finally:
        await manager.close()
        await service.close()


async def led(
    manager: AsyncRemoteLogMetadataManager, partitions: Sequence[TopicIdPartition]
) -> None:
    """Lead `partitions`; they are ready on return."""
    await manager.on_partition_leadership_changes(partitions, [])
    await manager.when_ready(partitions)


def new_partition(topic: str, partition: int = 0) -> TopicIdPartition:
    return TopicIdPartition(Uuid(topic.encode().ljust(16, b".")), partition, topic)
