"""What a session needs is there whatever is in between, or the session is refused."""

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import sql

from tests.models.storage.pgbouncer import PgBouncer
from tests.models.storage.postgres import opened
from tests.storage.backends.backend_contract import everything
from tierledger.events.errors import NoSuchStore, StorageUnavailable, StoreRefused
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.storage.backend import Create, CreateOutcome, MetadataStorageBackend, Put
from tierledger.storage.backends.postgres.backend import PostgresBackend
from tierledger.storage.backends.postgres.session import options_of
from tierledger.storage.locate import parse_store_url

ODD = {
    "synchronous_commit": "off",
    "statement_timeout": "100ms",
    "lock_timeout": "1ms",
    "idle_session_timeout": "1s",
    "default_transaction_isolation": "serializable",
    "client_encoding": "LATIN1",
    "bytea_output": "escape",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "iso_8601",
    "TimeZone": "Asia/Kathmandu",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "extra_float_digits": "-15",
}
"""Settings of a role that would each break something if they held."""

KEPT = {
    "synchronous_commit": "on",
    "statement_timeout": "10s",
    "lock_timeout": "2s",
    "idle_session_timeout": "0",
    "transaction_isolation": "read committed",
    "client_encoding": "UTF8",
}


@pytest.fixture(scope="module")
def odd(postgres_server: PostgresServer) -> str:
    """A role for which all is set as no store can use it."""
    postgres_server.execute(sql.SQL("CREATE ROLE odd SUPERUSER LOGIN"))
    for name, value in ODD.items():
        change = sql.SQL("ALTER ROLE odd SET {} = {}")
        postgres_server.execute(change.format(sql.Identifier(name), value))
    return "odd"


@pytest.fixture(scope="module")
def by_session(postgres_server: PostgresServer, odd: str) -> Iterator[PgBouncer]:
    with PgBouncer(postgres_server, "session", users=[odd]) as pooler:
        yield pooler


async def settings_of(backend: PostgresBackend) -> dict[str, str]:
    """What is set while a statement of the store runs."""
    names = "SELECT name, current_setting(name) FROM unnest(%b::text[]) name WHERE (TABLE here)"
    return dict((await backend._pool.run(names, (list(KEPT),))).rows)


def are_usual(somebody: psycopg.Connection) -> bool:
    """Whether a session has no settings of a store's."""
    names = ["default_transaction_read_only", "enable_seqscan", "lock_timeout"]
    changed = somebody.execute(
        "SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting <> reset_val", (names,)
    )
    return changed.fetchall() == []


async def write_and_read(backend: MetadataStorageBackend) -> None:
    """One of each call, with bytes and letters that a wrong encoding would change."""
    value = bytes(range(256))
    assert await backend.create_each([("grün/1", value)]) == [CreateOutcome.CREATED]
    await backend.execute_atomically([Put("k", value), Create("l", b"")])
    assert await backend.get("grün/1") == value
    assert await backend.last_keys(["grün/"]) == ["grün/1"]
    assert await backend.get_like("k") == [("k", value)]
    assert await backend.remove_like("l") == 1


async def test_whatever_a_role_has_set_the_sessions_have_what_a_store_needs(
    odd: str, postgres_url: str
) -> None:
    async with opened(postgres_url.replace("tierledger@", f"{odd}@")) as backend:
        assert await settings_of(backend) == KEPT
        await write_and_read(backend)


async def test_a_pooler_that_keeps_sessions_works_with_its_defaults(
    odd: str, by_session: PgBouncer, postgres_url: str
) -> None:
    url = by_session.through(postgres_url.replace("tierledger@", f"{odd}@"))
    async with opened(url) as backend, opened(url, read_only=True) as reader:
        assert await settings_of(backend) == KEPT
        await write_and_read(backend)
        assert await settings_of(reader) == KEPT
        assert await everything(reader) == await everything(backend)
    # Without the part that libpq would have sent as `options` this is another place.
    with pytest.raises(NoSuchStore):
        await PostgresBackend.open(parse_store_url(url.partition("?")[0]), read_only=True)


async def test_a_session_that_somebody_else_has_left_as_it_was_is_cleared(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with PgBouncer(
        postgres_server, "session", server_reset_query="", default_pool_size="2"
    ) as pooler:
        with ExitStack() as at_once:
            for _ in range(2):
                somebody = at_once.enter_context(psycopg.connect(pooler.url(), autocommit=True))
                somebody.execute("SET default_transaction_read_only = on")
                somebody.execute("SET synchronous_commit = off; SET search_path = ''")
                somebody.execute("PREPARE _pg3_0 AS SELECT 1")
                somebody.execute("PREPARE _pg3_1 AS SELECT 1")
        async with opened(pooler.through(postgres_url)) as backend:
            assert await settings_of(backend) == KEPT
            await write_and_read(backend)
            for _ in range(10):
                assert await backend.get("absent") is None
        async with opened(pooler.through(postgres_url), read_only=True):
            pass
        with ExitStack() as at_once:
            for _ in range(2):
                somebody = at_once.enter_context(psycopg.connect(pooler.url()))
                assert are_usual(somebody), "a session is left as it was found"


async def test_a_pooler_without_room_is_told(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with PgBouncer(postgres_server, "session", default_pool_size="1") as pooler:
        url = parse_store_url(f"{pooler.through(postgres_url)}&connect_timeout=2")
        with pytest.raises(StorageUnavailable, match="expected room for 6 of each process"):
            await PostgresBackend.open(url)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("size", ["1", "20"])
async def test_a_pooler_that_gives_sessions_away_is_refused_and_left_as_it_was(
    postgres_server: PostgresServer, postgres_url: str, mode: str, size: str
) -> None:
    async with opened(postgres_url):
        pass
    with PgBouncer(postgres_server, mode, default_pool_size=size) as pooler:
        for read_only in (False, True):
            with pytest.raises(StoreRefused, match="pgbouncer: pool_mode = session"):
                await PostgresBackend.open(
                    parse_store_url(pooler.through(postgres_url)), read_only=read_only
                )

        # Other programs go on with the same sessions.
        with psycopg.connect(pooler.url(), autocommit=True) as somebody:
            assert are_usual(somebody)


async def test_a_session_that_is_given_away_later_stores_nothing(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with opened(postgres_url) as direct:
        with PgBouncer(postgres_server, "session", default_pool_size="2") as pooler:
            async with opened(pooler.through(postgres_url)) as backend:
                await backend.create("before", b"")
                with psycopg.connect(pooler.url("pgbouncer"), autocommit=True) as console:
                    console.execute("SET pool_mode = 'transaction'")
                # At the end of this its process is free for others.
                asked = await backend._pool.run("SELECT pg_backend_pid() WHERE (TABLE here)")
                with (
                    psycopg.connect(pooler.url()) as one,
                    psycopg.connect(pooler.url()) as another,
                ):
                    for somebody in (one, another):
                        if somebody.execute("SELECT pg_backend_pid()").fetchall() != asked.rows:
                            somebody.rollback()

                    with pytest.raises(StoreRefused, match="pool_mode = session"):
                        await backend.create("after", b"")
            assert await everything(direct) == {"before": b""}


async def test_one_url_serves_writers_and_readers_whatever_session_it_asks_for(
    postgres_url: str,
) -> None:
    for wanted in ("any", "read-write", "primary", "prefer-standby"):
        url = f"{postgres_url}&target_session_attrs={wanted}"
        async with opened(url) as backend, opened(url, read_only=True) as reader:
            await backend.create(wanted, b"v")
            assert await reader.get(wanted) == b"v"
            assert (await reader._pool.run("SELECT 1 WHERE (TABLE here)")).rows == [(1,)]
            with pytest.raises(StorageUnavailable, match="read-only"):
                await reader._pool.run("DELETE FROM tierledger_kv WHERE (TABLE here)")


@pytest.mark.parametrize(
    ("text", "others", "settings"),
    [
        ("", "", {}),
        ("-c a=1 -cb=2 --c-d=3", "", {"a": "1", "b": "2", "c_d": "3"}),
        ("-c A.b=1  -c a.B=2", "", {"a.b": "2"}),
        (r"-c search_path=my\ own,x\\y", "", {"search_path": "my own,x\\y"}),
        (r"endpoint=a\ b -c a=1 -e", r"endpoint=a\ b -e", {"a": "1"}),
        ("-c", "-c", {}),
        ("-c a", "-c a", {}),
    ],
)
def test_options_are_read_as_the_server_reads_them(
    text: str, others: str, settings: dict[str, str]
) -> None:
    assert options_of(text) == (others, settings)


async def test_a_setting_that_cannot_be_made_is_refused_by_name(postgres_url: str) -> None:
    for wrong in ("no_such_thing%3D1", "work_mem%3Dmuch", "ignore_system_indexes%3Don"):
        with pytest.raises(StoreRefused, match=wrong.partition("%")[0]):
            await PostgresBackend.open(
                parse_store_url(f"{postgres_url}%20-c%20{wrong.replace('=', '%3D')}")
            )
