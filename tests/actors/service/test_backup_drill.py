"""A store is backed up under writes, lost and restored, and a service goes on with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.actors.door.test_feed import first_fed, subscription_at
from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import (
    CLUSTER,
    LocalWorld,
    copy,
    listed,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors.calls import LEADER
from tierledger.actors.coordinator.log import folded
from tierledger.events.errors import StoreRefused
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import SessionOpened
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.storage.backend import Create
from tierledger.storage.backup.backup import NOT_RESTORED, make, restore
from tierledger.storage.backup.files import BackupFiles
from tierledger.storage.backup.place import Folder
from tierledger.storage.catalog import Catalog
from tierledger.storage.closed_slot import closed_slot
from tierledger.storage.connector import load_connector
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.transfer.logs import ClusterLogs

TIP = partition()
KEYS = DefaultMetadataKeyFactory(CLUSTER)


@asynccontextmanager
async def catalog_of(storage: dict[str, str]) -> AsyncIterator[Catalog]:
    backend = await load_connector(storage).backend(read_only=True)
    try:
        yield Catalog(backend, KEYS, SERDE, CLUSTER)
    finally:
        await backend.close()


async def backed_up(storage: dict[str, str], folder: Path, made_ms: int = 5) -> int:
    """How many events are new in a further backup."""
    files = BackupFiles(Folder(folder))
    async with catalog_of(storage) as catalog:
        return (await make(files, catalog, made_ms, lambda _: None)).events


async def restored(folder: Path, storage: dict[str, str]) -> None:
    files = BackupFiles(Folder(folder))
    backup = await files.backup(await files.chosen())
    backend = await load_connector(storage).backend(read_only=False)
    try:
        await restore(files, backup, backend, ClusterLogs(KEYS, SERDE, CLUSTER), lambda _: None)
    finally:
        await backend.close()


@pytest.mark.parametrize("way", ["sqlite to postgresql", "postgresql to sqlite"])
async def test_a_store_is_lost_and_restored_and_the_service_goes_on(
    way: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    sqlite = sqlite_in(tmp_path)
    postgres = {"metadata.storage.url": postgres_server.database()}
    old, new = (sqlite, postgres) if way.startswith("sqlite") else (postgres, sqlite)
    folder = tmp_path / "backups"

    async with LocalWorld(old, door=True) as world:
        manager = await world.leader(TIP, partition(1))
        writes = asyncio.create_task(copy(manager, *map(segment, range(100, 160))))
        assert await backed_up(old, folder) > 0
        await writes
        await copy(manager, *map(segment, range(2)))
        assert await backed_up(old, folder) > 0
        at_the_backup = await world.events(TIP)
        answers = await listed(manager)
        lost = await copy(manager, segment(2))
        held = await subscription_at(world, lost)

    await restored(folder, new)

    async with LocalWorld(new, door=True) as world:
        assert (await world.events(TIP))[: len(at_the_backup)] == at_the_backup
        manager = await world.leader(TIP, partition(1))
        assert await listed(manager) == answers
        # However far it grows, whoever has seen more is not fed from it.
        grown = await copy(manager, *map(segment, range(10, 20)))
        assert grown > lost
        (item,) = await first_fed(world, held._replace(role=LEADER))
        assert item.WhichOneof("what") == "other_history"
        assert item.other_history.position == lost
        # A broker without its remembered positions accepts it.
        accepted = held._replace(role=LEADER, position=-1, chain_hash=None, floor=-1)
        (item, *_) = await first_fed(world, accepted)
        assert item.WhichOneof("what") == "snapshot"
        assert item.snapshot.position >= grown
        await copy(manager, segment(2))
        assert await backed_up(new, folder) > 0


async def test_a_coordinator_in_a_backup_knows_all_numbers_that_its_partitions_have(
    tmp_path: Path,
) -> None:
    storage = sqlite_in(tmp_path)
    async with LocalWorld(storage) as world:

        async def brokers() -> None:
            for number in range(12):
                await world.leader(
                    *(partition(one) for one in range(number + 1)), broker_id=number % 3
                )

        changing = asyncio.create_task(brokers())
        made = 0
        while not changing.done():
            made += 1
            await backed_up(storage, tmp_path / "backups", made_ms=made * 1000)
        await changing
    assert made > 3
    files = BackupFiles(Folder(tmp_path / "backups"))
    for name in await files.backups():
        backup = await files.backup(name)
        memory = load_connector({"metadata.storage.url": "memory:"})
        backend = await memory.backend(read_only=False)
        await restore(files, backup, backend, ClusterLogs(KEYS, SERDE, CLUSTER), lambda _: None)
        catalog = Catalog(backend, KEYS, SERDE, CLUSTER)
        known = (await folded(catalog)).state
        async for tip, _ in catalog.first_batches():
            named = TopicIdPartition(tip.topic_id, tip.partition, "orders")
            async for event in catalog.reader(named).events():
                if isinstance(event.body, SessionOpened):
                    body = event.body
                    assert body.incarnation <= known.incarnations[body.broker_id]
                    assert body.assignment <= known.assignment


async def test_no_service_starts_on_the_half_of_a_store(tmp_path: Path) -> None:
    storage = sqlite_in(tmp_path)
    backend = await load_connector(storage).backend(read_only=False)
    mark = closed_slot(SERDE, NOT_RESTORED, b"me")
    await backend.execute_atomically([Create(KEYS.coordinator_batch(0), mark)])
    await backend.close()
    world = LocalWorld(storage)

    with pytest.raises(StoreRefused, match="is being restored from a backup"):
        await world.start()

    await world.stop()
