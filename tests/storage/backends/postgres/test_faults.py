"""Errors of clients whose PostgreSQL is frozen, killed, full or read-only."""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.models.storage.postgres import opened
from tests.storage.backends.backend_contract import everything
from tierledger.events.errors import OutcomeUnknown, StorageUnavailable
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.storage.backend import Create, CreateOutcome, MetadataStorageBackend
from tierledger.storage.backends.postgres.backend import PostgresBackend
from tierledger.storage.backends.postgres.pool import SETTLE_PAUSE_S, SETTLE_TRIES
from tierledger.storage.backends.postgres.session import ANSWER_MARGIN_S
from tierledger.storage.locate import parse_store_url

pytestmark = pytest.mark.chaos

CREATED, EXISTS = CreateOutcome.CREATED, CreateOutcome.EXISTS


QUICK = "%20-c%20statement_timeout%3D2000&connect_timeout=2"
"""For tests in which nothing answers: so they wait for seconds only."""


async def place_of_a_store(server: PostgresServer) -> str:
    """Its tables are there: to make them may take a busy machine longer than `QUICK` allows."""
    url = server.place()
    async with opened(url):
        return url + QUICK


FILE_BYTES_MAX = 17 * 2**20
"""For a server without room. The files of PostgreSQL's own log are a little smaller."""


@pytest.fixture(scope="module")
def victim() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def own_server(victim: PostgresServer) -> Iterator[PostgresServer]:
    """A server that the test may freeze or kill."""
    yield victim
    if victim.is_running:
        victim.thaw()
    else:
        victim.start()


async def test_a_frozen_server_is_told_in_time_and_thawed_goes_on(
    own_server: PostgresServer,
) -> None:
    async with opened(await place_of_a_store(own_server)) as backend:
        await backend.create("before", b"1")
        own_server.freeze()
        started = time.monotonic()

        with pytest.raises(OutcomeUnknown, match="no answer within"):
            await backend.create("k", b"1")
        with pytest.raises(StorageUnavailable):
            await backend.get("before")
        with pytest.raises(StorageUnavailable):
            await backend.create("later", b"1")

        # Twice as long as it may take by itself; without limits it would be minutes.
        assert time.monotonic() - started < 2 * (2 + ANSWER_MARGIN_S + 2 * 2 + 2)
        own_server.thaw()
        assert await backend.get("before") == b"1"
        told = await backend.get("k")
        assert await backend.create_each([("k", b"2")]) == [EXISTS if told else CREATED]
        assert await backend.get("later") is None


async def test_a_write_that_was_frozen_in_the_server_cannot_come_after_the_next_read(
    own_server: PostgresServer,
) -> None:
    async with opened(await place_of_a_store(own_server)) as backend:
        pid = await process_of(backend)
        os.kill(pid, signal.SIGSTOP)

        with pytest.raises(OutcomeUnknown):
            await backend.create("k", b"1")
        started = time.monotonic()
        answers = await asyncio.gather(
            *(backend.get("k") for _ in range(6)), return_exceptions=True
        )
        # They wait together, not one after the other.
        assert time.monotonic() - started < 4 * SETTLE_TRIES * SETTLE_PAUSE_S
        for answer in answers:
            assert isinstance(answer, StorageUnavailable)
            assert f"process {pid} still holds a write" in str(answer)

        os.kill(pid, signal.SIGCONT)
        told = await backend.get("k")
        assert await process_of(backend) != pid
        assert await backend.get("k") == told


async def process_of(backend: PostgresBackend) -> int:
    """The server's process that works for the connection which was used last."""
    ((pid,),) = (await backend._pool.run("SELECT pg_backend_pid() WHERE (TABLE here)")).rows
    assert isinstance(pid, int)
    return pid


async def test_a_server_killed_in_the_middle_keeps_what_it_confirmed_and_whole_steps_only(
    own_server: PostgresServer,
) -> None:
    kill, doubts = 0, 0
    async with opened(own_server.place()) as backend:
        while kill < 3 or not doubts:  # Nobody knows which kill comes in the middle of a step.
            kill += 1
            log = Acknowledged()
            writers = [
                asyncio.create_task(keep_creating(backend, f"{kill}-{one}", log))
                for one in range(4)
            ]
            await log.enough.wait()

            await asyncio.to_thread(own_server.kill)
            unknown = [step for step in await asyncio.gather(*writers) if step is not None]
            own_server.start()

            found = await everything(backend)
            assert [name for name in log.names if rows_of(name) - found.keys()] == []
            for name in unknown:
                assert rows_of(name) & found.keys() in (set(), rows_of(name))
            doubts += len(unknown)
            await backend.remove_like("")


class Acknowledged:
    """The steps that the store confirmed."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.enough = asyncio.Event()

    def add(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) > 40:
            self.enough.set()


def rows_of(step: str) -> set[str]:
    return {f"{step}/{row}" for row in "abc"}


async def keep_creating(
    backend: MetadataStorageBackend, writer: str, log: Acknowledged
) -> str | None:
    """Create steps of three rows until it fails; the step whose outcome is unknown, if any."""
    step = 0
    while True:
        step += 1
        name = f"{writer}-{step:05d}"
        rows = [(key, b"v") for key in rows_of(name)]
        try:
            if step % 2:
                assert await backend.create_each(rows) == [CREATED] * 3
            else:
                await backend.execute_atomically([Create(*row) for row in rows])
        except OutcomeUnknown:
            return name
        except StorageUnavailable:
            return None
        log.add(name)


async def test_a_server_that_only_reads_keeps_nothing_and_says_why(postgres_url: str) -> None:
    reading = f"{postgres_url}%20-c%20default_transaction_read_only%3Don"
    with pytest.raises(StorageUnavailable, match="read-only"):
        await PostgresBackend.open(parse_store_url(reading))
    async with opened(postgres_url) as writer:
        await writer.create("k", b"1")

    async with opened(reading) as backend:
        for call in (backend.create("a", b""), backend.remove_like("k")):
            with pytest.raises(StorageUnavailable, match="read-only"):
                await call
        assert await everything(backend) == {"k": b"1"}


async def test_without_room_nothing_is_kept_and_it_passes() -> None:
    with PostgresServer() as server:
        server.stop()
        with small_files():
            server.start()
        async with opened(server.url()) as backend:
            await backend.create_each([("big", os.urandom(FILE_BYTES_MAX - 2**20))])

            with pytest.raises(StorageUnavailable, match="extend file"):
                await backend.create_each([("b", b"1"), ("more", os.urandom(2**22))])

            assert list(await everything(backend)) == ["big"]
            assert await backend.create_each([("c", b"2")]) == [CREATED]
            server.stop()
            server.start()
            assert await backend.create_each([("more", os.urandom(2**22))]) == [CREATED]


@contextmanager
def small_files() -> Iterator[None]:
    """Let no process that is started now write a large file, as on a disk without room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_line_that_was_cut_while_it_rested_is_replaced_unnoticed(
    own_server: PostgresServer,
) -> None:
    async with opened(own_server.place()) as backend:
        await asyncio.gather(*(backend.create(f"k{one}", b"") for one in range(10)))
        own_server.kill()
        own_server.start()

        await asyncio.gather(*(backend.create(f"l{one}", b"") for one in range(10)))
        assert len(await everything(backend)) == 20
