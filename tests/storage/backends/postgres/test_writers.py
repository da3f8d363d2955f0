"""Writers of one PostgreSQL store, and people in it, do not harm each other."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from tests.models.storage.postgres import opened
from tests.storage.backends.backend_contract import everything
from tierledger.events.errors import StorageUnavailable
from tierledger.storage.backend import (
    AtomicConflict,
    Create,
    CreateOutcome,
    Put,
    Remove,
    Update,
)
from tierledger.storage.backends.postgres.pool import COMMIT
from tierledger.storage.backends.postgres.session import (
    LOCK_TIMEOUT_S,
    PostgresSession,
    ServerProcess,
    StatementResult,
)

CREATED, EXISTS = CreateOutcome.CREATED, CreateOutcome.EXISTS


KEEP_WRITING = """
import asyncio, sys
from tierledger.storage.backend import Put
from tierledger.storage.locate import parse_store_url
from tierledger.storage.backends.postgres.backend import PostgresBackend

async def main():
    backend = await PostgresBackend.open(parse_store_url(sys.argv[1]))
    step = 0
    while True:
        step += 1
        await backend.execute_atomically([Put(f"k{one}", b"child") for one in range(20)])
        print(step, flush=True)

asyncio.run(main())
"""


CREATE_ALL = """
import asyncio, sys
from tierledger.storage.locate import parse_store_url
from tierledger.storage.backends.postgres.backend import PostgresBackend

async def main():
    backend = await PostgresBackend.open(parse_store_url(sys.argv[1]))
    print("open", flush=True)
    sys.stdin.readline()
    for one in range(200):
        (outcome,) = await backend.create_each([(f"k{one:03d}", sys.argv[2].encode())])
        print(outcome)
    await backend.close()

asyncio.run(main())
"""


@contextmanager
def somebody_at_psql(url: str, statement: LiteralString) -> Iterator[psycopg.Connection]:
    """A person's transaction that has done `statement` and stays open."""
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL(statement))
        yield connection
        connection.rollback()


async def seconds(call: Awaitable[object]) -> float:
    started = time.monotonic()
    await call
    return time.monotonic() - started


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process of ours, with a line to it and one from it."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_a_frozen_client_holds_up_nobody(postgres_url: str) -> None:
    writer = started(KEEP_WRITING, postgres_url)
    assert writer.stdout is not None
    async with opened(postgres_url) as backend:
        with writer:
            try:
                for pause in range(12):
                    await asyncio.to_thread(writer.stdout.readline)
                    # At another point of its work each time.
                    await asyncio.sleep(pause / 3000)
                    writer.send_signal(signal.SIGSTOP)

                    keys = [Put(f"k{one}", b"parent") for one in range(20)]
                    assert await seconds(backend.execute_atomically(keys)) < LOCK_TIMEOUT_S

                    # What the server has of the frozen one it may carry out after ours.
                    found = await backend.get_each([put.key for put in keys])
                    assert set(found) in ({b"parent"}, {b"child"})
                    writer.send_signal(signal.SIGCONT)
            finally:
                writer.kill()


async def test_of_two_processes_exactly_one_creates_each_key(postgres_url: str) -> None:
    racers = [started(CREATE_ALL, postgres_url, name) for name in ("a", "b")]
    # The store does not exist yet: they race for making it, too.
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "open\n"
    outputs = await asyncio.gather(
        *(asyncio.to_thread(racer.communicate, "go\n") for racer in racers)
    )

    outcomes = [out.split() for out, _ in outputs]
    async with opened(postgres_url, read_only=True) as reader:
        found = await everything(reader)
    assert len(found) == 200
    for place, winner in enumerate(found[key] for key in sorted(found)):
        assert {outcomes[0][place], outcomes[1][place]} == {CREATED, EXISTS}
        assert outcomes["ab".index(winner.decode())][place] == CREATED


async def test_steps_on_the_same_keys_in_opposite_orders_never_wait_in_a_circle(
    postgres_url: str,
) -> None:
    keys = [f"k{one:02d}" for one in range(40)]

    async def write(order: list[str], name: bytes) -> None:
        async with opened(postgres_url) as backend:
            for _ in range(40):
                await backend.execute_atomically([Put(key, name) for key in order])
                assert len({*(await everything(backend)).values()}) == 1

    async def create_and_remove(order: list[str]) -> None:
        async with opened(postgres_url) as backend:
            for _ in range(40):
                await backend.create_each([(f"{key}+", b"") for key in order])
                await backend.execute_atomically([Remove(f"{key}+") for key in reversed(order)])

    await asyncio.gather(write(keys, b"up"), write(keys[::-1], b"down"))
    await asyncio.gather(create_and_remove(keys), create_and_remove(keys[::-1]))


async def test_a_row_that_somebody_holds_is_given_up_and_nothing_is_kept(
    postgres_url: str,
) -> None:
    async with opened(postgres_url) as backend:
        await backend.create("held", b"1")

        with somebody_at_psql(postgres_url, "UPDATE tierledger_kv SET value = 'x'"):
            with pytest.raises(StorageUnavailable, match="lock timeout"):
                await backend.execute_atomically([Put("a", b"1"), Put("held", b"2")])
            assert await everything(backend) == {"held": b"1"}

        await backend.execute_atomically([Put("a", b"1"), Put("held", b"2")])


async def test_bulk_work_that_waits_delays_no_commit(postgres_url: str) -> None:
    async with opened(postgres_url) as backend:
        await backend.create("held", b"1")
        with somebody_at_psql(postgres_url, "UPDATE tierledger_kv SET value = 'x'"):
            bulk = [asyncio.create_task(backend.update("held", b"2")) for _ in range(10)]
            await asyncio.sleep(0)

            await backend.create_each([("k", b"1")])

            assert not any(one.done() for one in bulk), "they wait for a lock, up to its limit"
        await asyncio.gather(*bulk)


async def test_what_is_created_meanwhile_is_met_when_it_is_known(postgres_url: str) -> None:
    async with opened(postgres_url) as backend:
        await backend.create("there", b"1")
        insert = "INSERT INTO tierledger_kv VALUES ('next', 'theirs')"
        with somebody_at_psql(postgres_url, insert) as person:
            # A writer that gives the key back at once must wait for them, too.
            guarded = asyncio.create_task(
                backend.execute_atomically(
                    [Update("there", b"2"), Create("next", b""), Remove("next")]
                )
            )
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(guarded), 0.3)
            person.commit()

            with pytest.raises(AtomicConflict, match="'next'"):
                await guarded

        assert await everything(backend) == {"next": b"theirs", "there": b"1"}


async def test_what_comes_in_doubt_while_others_are_settled_is_settled_too(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ServerProcess(1, "gone"), ServerProcess(2, "gone")
    ended: list[object] = []
    ask = PostgresSession.run
    async with opened(postgres_url) as backend:
        pool = backend._pool

        async def run(
            session: PostgresSession,
            statement: LiteralString,
            parameters: Sequence[object] | None,
        ) -> StatementResult:
            if statement == COMMIT and second not in [*ended, *pool._unsettled]:
                pool._unsettled.append(second)
            if isinstance(parameters, ServerProcess):
                ended.append(parameters)
            return await ask(session, statement, parameters)

        pool._unsettled.append(first)
        monkeypatch.setattr(PostgresSession, "run", run)
        assert await backend.get("k") is None

    assert ended == [first, second]
