"""What is confirmed is where the server says it is, also when a standby takes over."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
from psycopg import sql

from tests.models.storage.postgres import opened
from tests.models.storage.standby import StandbyServer
from tests.storage.backends.backend_contract import everything
from tierledger.events.errors import OutcomeUnknown, StorageUnavailable
from tierledger.simulation.live.postgres_server import PostgresServer

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
