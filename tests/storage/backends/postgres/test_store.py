"""Databases that count as a store, access to them, and secrets that no error shows."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import pytest
from psycopg import sql

from tierledger.events.errors import (
    FormatTooNew,
    InvalidArgument,
    NoSuchStore,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.server import free_ports
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.postgres.backend import PostgresBackend
from tierledger.storage.connector import MetadataStorageConnector, load_connector
from tierledger.storage.locate import parse_store_url

PASSWORD = "corr&ct h0rse"
IN_URL = "corr%26ct%20h0rse"


def connector(url: str) -> MetadataStorageConnector:
    return load_connector({"metadata.storage.url": url})


async def opened(url: str, *, read_only: bool = False) -> MetadataStorageBackend:
    return await connector(url).backend(read_only=read_only)


@pytest.fixture(scope="module")
def guarded(postgres_server: PostgresServer) -> Iterator[str]:
    """`HOST:PORT/DATABASE` of a store that the role `guard` may write with its password."""
    guard = sql.SQL("CREATE ROLE guard LOGIN PASSWORD {}").format(sql.Literal(PASSWORD))
    postgres_server.execute(guard)
    rules = postgres_server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all guard 127.0.0.1/32 scram-sha-256\n{before}")
    reload = sql.SQL("SELECT pg_reload_conf()")
    postgres_server.execute(reload)
    url = postgres_server.database()
    name = url.rpartition("/")[2]
    own = sql.SQL("ALTER DATABASE {} OWNER TO guard").format(sql.Identifier(name))
    postgres_server.execute(own)
    yield url.partition("@")[2]
    rules.write_text(before)
    postgres_server.execute(reload)


async def test_whoever_has_the_password_is_let_in(
    guarded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await opened(f"postgresql://guard:{IN_URL}@{guarded}")).close()
    await (await opened(f"postgres://guard@{guarded}?password={IN_URL}")).close()
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:guard:{PASSWORD}\n")
    passwords.chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSFILE", str(passwords))
        await (await opened(f"postgresql://guard@{guarded}")).close()
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    await (await opened(f"postgresql://guard@{guarded}")).close()


async def test_whoever_is_not_let_in_hears_why_and_sees_no_password(guarded: str) -> None:
    wrong = [
        (f"postgresql://guard:se%26cret@{guarded}", "password authentication failed"),
        (f"postgresql://guard@{guarded}?password=se%26cret", "password authentication failed"),
        (f"postgresql://guard@{guarded}", "no password supplied"),
        (f"postgresql://nobody:se%26cret@{guarded}", 'role "nobody" does not exist'),
        (f"postgresql://guard:{IN_URL}@{guarded}x", 'database ".*x" does not exist'),
    ]
    for url, why in wrong:
        with pytest.raises(StoreRefused, match=why) as caught:
            await opened(url)

        assert "se&cret" not in str(caught.value)
        assert "cret" not in str(caught.value)
        assert not isinstance(caught.value, NoSuchStore)


async def test_a_server_that_is_away_or_full_may_come_back(
    postgres_server: PostgresServer,
) -> None:
    with pytest.raises(StorageUnavailable, match="refused") as caught:
        await opened(f"postgresql://me:secret@127.0.0.1:{free_ports()}/db")
    assert "secret" not in str(caught.value)
    postgres_server.execute(sql.SQL("CREATE ROLE crowd LOGIN CONNECTION LIMIT 0"))
    url = postgres_server.url().replace("tierledger@", "crowd@")
    with pytest.raises(StorageUnavailable, match="too many connections"):
        await opened(url)


@pytest.mark.parametrize(
    "url", ["postgresql://me:pa%zzss@h/db", "postgresql://me:pazzss@h/d?a=b"]
)
def test_a_url_that_makes_no_sense_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidArgument, match="postgresql://USER") as caught:
        asyncio.run(opened(url))

    assert "zzss" not in str(caught.value)


async def test_a_reader_needs_a_store_and_makes_none(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with pytest.raises(NoSuchStore, match="no such store"):
        await opened(postgres_url, read_only=True)
    with pytest.raises(NoSuchStore, match="no such store"):
        await opened(postgres_url, read_only=True)

    await (await opened(postgres_url)).close()
    await (await opened(postgres_url, read_only=True)).close()


async def test_many_who_make_the_store_at_once_make_one(postgres_url: str) -> None:
    patient = f"{postgres_url}%20-c%20lock_timeout%3D120s"  # They wait for each other.
    backends = await asyncio.gather(*(opened(patient) for _ in range(8)))

    await backends[0].create("k", b"v")
    assert [await one.get("k") for one in backends] == [b"v"] * 8
    for one in backends:
        await one.close()


@pytest.mark.parametrize(
    "table",
    [
        "tierledger_kv (key text, value text)",
        "tierledger_kv (key text, value bytea)",
        'tierledger_kv (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL)',
        "tierledger_format (version integer)",
    ],
)
async def test_tables_of_somebody_else_are_left_alone(
    postgres_server: PostgresServer, table: LiteralString
) -> None:
    url = postgres_server.database()
    database = url.rpartition("/")[2]
    postgres_server.execute(sql.SQL("CREATE TABLE " + table), database)

    for read_only in (False, True):
        with pytest.raises(StoreRefused, match="is not a store of tierledger"):
            await opened(url, read_only=read_only)

    tables = sql.SQL("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    assert postgres_server.execute(tables, database) == [(1,)]


async def test_a_newer_format_is_left_alone(postgres_server: PostgresServer) -> None:
    url = postgres_server.database()
    await (await opened(url)).close()
    newer = sql.SQL("UPDATE tierledger_format SET version = 2")
    postgres_server.execute(newer, url.rpartition("/")[2])

    for read_only in (False, True):
        with pytest.raises(FormatTooNew, match="has format 2, and this program knows 1"):
            await opened(url, read_only=read_only)


async def test_a_function_that_got_lost_is_made_again(postgres_server: PostgresServer) -> None:
    url = postgres_server.database()
    await (await opened(url)).close()
    postgres_server.execute(sql.SQL("DROP FUNCTION tierledger_execute"), url.rpartition("/")[2])

    backend = await opened(url)

    await backend.create("k", b"v")
    await backend.close()


async def test_whoever_may_not_write_is_told_so(guarded: str, postgres_url: str) -> None:
    writer = await opened(f"postgresql://guard:{IN_URL}@{guarded}")
    await writer.create("k", b"v")
    await writer.close()
    # Another role that may look into the schema of `postgres_url`, and into no table.
    place = postgres_url.partition("@")[2]
    await (await opened(postgres_url)).close()

    with pytest.raises(StoreRefused):
        await opened(f"postgresql://guard:{IN_URL}@{place}")


async def test_a_database_that_sorts_other_bytes_is_refused(
    postgres_server: PostgresServer,
) -> None:
    make = "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0"
    postgres_server.execute(sql.SQL(make))

    with pytest.raises(StoreRefused, match="SQL_ASCII: expected a database in UTF8"):
        await opened(postgres_server.url("ascii"))


async def test_a_server_that_confirms_what_it_may_lose_is_refused() -> None:
    with PostgresServer(fsync="off") as server, pytest.raises(StoreRefused, match="fsync"):
        await opened(server.url())


@pytest.mark.parametrize(
    ("asked", "kept"), [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")]
)
async def test_a_commit_is_on_disk_whatever_the_user_asked_for(
    postgres_url: str, asked: str, kept: str
) -> None:
    url = parse_store_url(f"{postgres_url}%20-c%20synchronous_commit%3D{asked}")

    backend = await PostgresBackend.open(url)

    shown = "SELECT current_setting('synchronous_commit') WHERE (TABLE here)"
    assert (await backend._pool.run(shown)).rows == [(kept,)]
    await backend.close()


async def test_a_users_timeouts_go_before_ours(postgres_url: str) -> None:
    url = parse_store_url(f"{postgres_url}%20-c%20lock_timeout%3D123")

    backend = await PostgresBackend.open(url)

    shown = (
        "SELECT current_setting('lock_timeout'), current_setting('statement_timeout') "
        "WHERE (TABLE here)"
    )
    assert (await backend._pool.run(shown)).rows == [("123ms", "10s")]
    await backend.close()


def test_a_database_takes_many_writers_and_a_file_one() -> None:
    assert not connector("postgresql://me@host/db").has_one_writer
    assert connector("sqlite:a").has_one_writer
    assert connector("memory:").has_one_writer
