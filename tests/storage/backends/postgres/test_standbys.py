"""What is confirmed is where the server says it is, also when a standby takes over."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
from psycopg import sql

from tests.models.storage.postgres import opened
from tests.models.storage.standby import StandbyServer
from tests.storage.backends.backend_contract import everything
from tierledger.events.errors import OutcomeUnknown, StorageUnavailable, StoreRefused
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.storage.backend import Put

WAITING = sql.SQL("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def wait_for_standby(server: PostgresServer, name: str) -> None:
    """Let each commit wait for the standby `name`; for none if it is empty."""
    names = sql.SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(name)
    server.execute(names)
    server.execute(sql.SQL("SELECT pg_reload_conf()"))


async def waiting(server: PostgresServer) -> int:
    """The server's process that waits for a standby, once there is one."""
    while True:
        for (pid,) in await asyncio.to_thread(server.execute, WAITING):
            assert isinstance(pid, int)
            return pid


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_a_commit_that_no_standby_has_is_not_confirmed_and_not_believed(
    primary: PostgresServer, end: str
) -> None:
    async with opened(primary.place()) as backend:
        await backend.create("before", b"")
        wait_for_standby(primary, "absent")
        commit = asyncio.create_task(backend.create("k", b"v"))
        stop = sql.SQL("SELECT {}({})").format(sql.Identifier(end), await waiting(primary))
        primary.execute(stop)
        with pytest.raises(OutcomeUnknown):
            await commit

        read = asyncio.create_task(backend.get("k"))
        await waiting(primary)
        assert not read.done(), "a failover now would lose what it has read"
        wait_for_standby(primary, "")
        assert await read == b"v"


async def test_a_writer_that_comes_to_a_standby_hears_how_it_finds_the_primary(
    primary: PostgresServer,
) -> None:
    place = primary.place()
    async with opened(place) as backend:
        await backend.create("k", b"v")
    with StandbyServer(primary) as standby:
        url = place.replace(f":{primary.port}", f":{standby.port},127.0.0.1:{primary.port}")
        async with opened(url, read_only=True) as reader:
            assert await reader.get("k") == b"v"
        told = "led to a standby, which takes no writes.*target_session_attrs=read-write"
        with pytest.raises(StorageUnavailable, match=told):
            async with opened(url):
                pass


async def test_a_standby_that_takes_over_has_all_that_was_confirmed(
    primary: PostgresServer,
) -> None:
    place = primary.place()
    with StandbyServer(primary) as standby:
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = place.replace(f"127.0.0.1:{primary.port}", hosts)
        url += "&target_session_attrs=read-write"
        async with opened(url) as backend, opened(url, read_only=True) as reader:
            wait_for_standby(primary, "standby")
            confirmed = [f"{one}" for one in range(20)]
            for key in confirmed:
                await backend.create(key, b"")
            primary.kill()
            with pytest.raises((OutcomeUnknown, StorageUnavailable)):
                await backend.create("nowhere", b"")
            standby.promote()

            assert await everything(reader) == dict.fromkeys(confirmed, b"")
            with suppress(OutcomeUnknown):
                await backend.create("after", b"")
            assert "after" in await everything(backend)


async def test_a_standby_that_takes_over_without_all_that_was_confirmed_is_refused(
    primary: PostgresServer,
) -> None:
    place = primary.place()
    with StandbyServer(primary) as standby:
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = place.replace(f"127.0.0.1:{primary.port}", hosts)
        url += "&target_session_attrs=read-write"
        async with opened(url) as backend:
            wait_for_standby(primary, standby.name)
            await backend.create("kept", b"")
            wait_for_standby(primary, "")
            standby.stop()
            await backend.create("lost", b"")
            primary.kill()
            standby.start()
            standby.promote()

            for call in (backend.get("lost"), backend.create("next", b"")):
                with pytest.raises(StoreRefused, match="lacks changes that were confirmed"):
                    await call
        async with opened(url) as anew:
            await anew.create("next", b"")
            assert await everything(anew) == {"kept": b"", "next": b""}


async def test_a_server_that_restarts_goes_on_with_all_that_was_confirmed(
    primary: PostgresServer,
) -> None:
    async with opened(primary.place()) as backend:
        for turn in range(3):
            await backend.create(f"{turn}", b"")
            await backend.execute_atomically([Put(f"{turn}", b"v")])
            if turn < 2:
                primary.kill()
            else:
                primary.stop()
            primary.start()
            assert await everything(backend) == {f"{one}": b"v" for one in range(turn + 1)}
            calls = [backend.get(f"{turn}") for _ in range(5)]  # Further sessions.
            assert await asyncio.gather(*calls) == [b"v"] * 5
