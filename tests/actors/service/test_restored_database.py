"""A store in PostgreSQL that is dumped and restored with PostgreSQL's own programs."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.actors.door.test_feed import first_fed, subscription_at
from tests.models.actors.local_world import LocalWorld, copy, listed, partition, segment
from tierledger.actors.calls import LEADER, CountsCall
from tierledger.events.errors import StoreRefused
from tierledger.simulation.live.postgres_server import PostgresServer, program

TIP = partition()


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.database()


@pytest.fixture
async def world(url: str) -> AsyncIterator[LocalWorld]:
    async with LocalWorld({"metadata.storage.url": url}, door=True) as world:
        yield world


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "store.dump"


def dump(url: str, backup: Path) -> None:
    run("pg_dump", "--format=custom", f"--file={backup}", url)


def restore(url: str, backup: Path) -> None:
    run("pg_restore", "--clean", "--if-exists", f"--dbname={url}", backup)


def run(name: str, *arguments: object) -> None:
    ran = subprocess.run(
        [program(name), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


async def test_a_dump_of_a_running_service_is_a_whole_store(
    world: LocalWorld, url: str, backup: Path, postgres_server: PostgresServer
) -> None:
    await copy(await world.leader(TIP), segment(0), segment(1))
    dump(url, backup)
    elsewhere = postgres_server.database()
    restore(elsewhere, backup)

    async with LocalWorld({"metadata.storage.url": elsewhere}) as restored:
        manager = await restored.leader(TIP)
        assert await listed(manager) == [0, 1]
        await copy(manager, segment(2))
        assert len(await restored.events(TIP)) > len(await world.events(TIP))


async def test_an_older_dump_that_is_restored_under_a_service_takes_no_write(
    world: LocalWorld, url: str, backup: Path
) -> None:
    manager = await world.leader(TIP)
    await copy(manager, segment(0))
    dump(url, backup)
    await copy(manager, segment(1))
    older = len(await world.events(TIP)) - 2
    restore(url, backup)

    with pytest.raises(StoreRefused, match="older than what this service has seen"):
        await manager.add_remote_log_segment_metadata(segment(2))

    assert len(await world.events(TIP)) == older
    counts = await world.service.host("host-0").ask(CountsCall())
    assert "store-refused" in [one["code"] for one in counts["conditions"]]


async def test_a_plugin_that_has_seen_more_than_a_dump_is_not_fed_from_it(
    world: LocalWorld, url: str, backup: Path
) -> None:
    manager = await world.leader(TIP)
    await copy(manager, segment(0))
    dump(url, backup)
    position = await copy(manager, segment(1))
    held = await subscription_at(world, position)
    await world.stop()
    restore(url, backup)
    await world.start()
    assert await copy(await world.leader(TIP), *map(segment, range(10, 20))) > position

    (item,) = await first_fed(world, held._replace(role=LEADER))

    assert item.WhichOneof("what") == "other_history"
    assert item.other_history.position == position
