"""A ledger goes on in another store, and no acknowledged write is lost on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import (
    CLUSTER,
    LocalWorld,
    copy,
    eventually,
    listed,
    partition,
    segment,
    sqlite_in,
)
from tierledger.events.errors import RemoteStorageError, StoreRefused
from tierledger.moving.store_copy import StoreCopy
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.storage.catalog import Catalog
from tierledger.storage.closed_slot import COPIED, why_closed
from tierledger.storage.connector import load_connector
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.verification import verify
from tierledger.storage.transfer.closing import reopen_logs
from tierledger.storage.transfer.target import StoreTarget

TIP, OTHER = partition(), partition(1)
KEYS = DefaultMetadataKeyFactory(CLUSTER)
Storage = dict[str, str]


@asynccontextmanager
async def catalog_of(storage: Storage, *, read_only: bool = True) -> AsyncIterator[Catalog]:
    backend = await load_connector(storage).backend(read_only=read_only)
    try:
        yield Catalog(backend, KEYS, SERDE, CLUSTER)
    finally:
        await backend.close()


@asynccontextmanager
async def copying(old: Storage, new: Storage, name: str = "new") -> AsyncIterator[StoreCopy]:
    async with catalog_of(old) as former, catalog_of(new, read_only=False) as to:
        under_way = await StoreCopy.begun(former, to.backend, name)
        try:
            yield under_way
        finally:
            await under_way.close()


async def followed(under_way: StoreCopy, old: Storage) -> int:
    async with catalog_of(old) as former:
        return await under_way.follow(former)


async def switched(under_way: StoreCopy, old: Storage) -> None:
    async with catalog_of(old, read_only=False) as former:
        await under_way.switch(former)


@pytest.fixture(params=["sqlite to postgresql", "postgresql to sqlite"])
def stores(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> tuple[Storage, Storage]:
    sqlite, postgres = sqlite_in(tmp_path), {"metadata.storage.url": postgres_server.database()}
    return (sqlite, postgres) if request.param.startswith("sqlite") else (postgres, sqlite)


@pytest.fixture
def databases(postgres_server: PostgresServer) -> tuple[Storage, Storage]:
    one, two = postgres_server.database(), postgres_server.database()
    return {"metadata.storage.url": one}, {"metadata.storage.url": two}


async def test_a_ledger_goes_on_in_a_store_of_another_kind(
    stores: tuple[Storage, Storage],
) -> None:
    old, new = stores
    async with LocalWorld(old) as world:
        manager = await world.leader(TIP, OTHER)
        await copy(manager, *map(segment, range(3)))
        async with copying(old, new) as under_way:
            assert await followed(under_way, old) > 0
            assert await followed(under_way, old) == 0
            await copy(manager, segment(3))
            assert await followed(under_way, old) > 0
            answers, events = await listed(manager), await world.events(TIP)
            await copy(manager, segment(4))
            late = await world.events(TIP)
            await world.stop()
            await switched(under_way, old)

    assert under_way.damaged == {}
    async with LocalWorld(new) as world:
        assert (await world.events(TIP))[: len(late)] == late
        assert late[: len(events)] == events
        manager = await world.leader(TIP)
        assert set(answers) < set(await listed(manager))
        await copy(manager, segment(5))
    async with catalog_of(new) as catalog:
        assert (await verify(catalog.reader(TIP))).passed
    await refused(old, f"{COPIED}new")


async def refused(storage: Storage, why: str) -> None:
    """No service starts on that store, for the reason `why`."""
    world = LocalWorld(storage)
    with pytest.raises(StoreRefused, match=why):
        await world.start()
    await world.stop()


async def test_a_host_that_nobody_has_ended_loses_no_write_that_it_acknowledged(
    databases: tuple[Storage, Storage],
) -> None:
    old, new = databases
    acknowledged: list[int] = []

    async with LocalWorld(old) as world:
        manager = await world.leader(TIP)

        async def writes() -> None:
            for number in range(10_000):
                await copy(manager, segment(number))
                acknowledged.append(number)

        writing = asyncio.create_task(writes())
        async with copying(old, new) as under_way:
            await followed(under_way, old)
            await eventually(lambda: len(acknowledged) >= 20)
            await switched(under_way, old)
        with pytest.raises(RemoteStorageError):
            await asyncio.wait_for(writing, 60)

    assert len(acknowledged) >= 20
    async with LocalWorld(new) as world:
        found = set(await listed(await world.leader(TIP)))
    assert set(acknowledged) <= found <= {*acknowledged, len(acknowledged)}


async def test_an_interrupted_switch_is_repeated_or_taken_back(
    stores: tuple[Storage, Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = stores
    async with LocalWorld(old) as world:
        manager = await world.leader(TIP)
        await copy(manager, *map(segment, range(3)))
        answers = await listed(manager)
    with monkeypatch.context() as patch:

        async def lost(*_: object) -> None:
            raise ConnectionError("the new store is gone")

        patch.setattr(StoreTarget, "finish", lost)
        async with copying(old, new) as under_way:
            with pytest.raises(ConnectionError):
                await switched(under_way, old)

    await refused(old, f"{COPIED}new")
    await refused(new, "a ledger is being copied to this store")
    with pytest.raises(StoreRefused, match=f"{COPIED}new"):
        async with copying(old, new, "elsewhere"):
            pass
    async with catalog_of(old, read_only=False) as catalog:
        assert await reopen_logs(catalog) == 2
        assert await reopen_logs(catalog) == 0
    async with LocalWorld(old) as world:
        manager = await world.leader(TIP)
        assert await listed(manager) == answers
        await copy(manager, segment(3))

    async with copying(old, new) as under_way:
        await switched(under_way, old)
    async with LocalWorld(new) as world:
        assert len(await listed(await world.leader(TIP))) == 4


async def test_a_switch_that_was_killed_goes_on_where_the_former_store_is_closed(
    stores: tuple[Storage, Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = stores
    async with LocalWorld(old) as world:
        await copy(await world.leader(TIP), *map(segment, range(3)))
    with monkeypatch.context() as patch:

        async def lost(*_: object) -> None:
            raise ConnectionError("the new store is gone")

        patch.setattr(StoreTarget, "finish", lost)
        async with copying(old, new) as under_way:
            with pytest.raises(ConnectionError):
                await switched(under_way, old)

    async with copying(old, new) as under_way:
        await followed(under_way, old)
        await switched(under_way, old)

    async with LocalWorld(new) as world:
        assert len(await listed(await world.leader(TIP))) == 3


async def test_what_is_placed_and_has_no_log_yet_is_closed_too(
    databases: tuple[Storage, Storage],
) -> None:
    old, new = databases
    async with LocalWorld(old) as world:
        await copy(await world.leader(TIP), segment(0))
        await world.follower(OTHER)
    async with copying(old, new) as under_way:
        await switched(under_way, old)

    first = KEYS.log_batch(OTHER, 0)
    async with catalog_of(old) as catalog:
        value = await catalog.backend.get(first)
        assert value is not None
        assert why_closed(SERDE, value) == f"{COPIED}new"
    async with catalog_of(new) as catalog:
        assert await catalog.backend.get(first) is None
