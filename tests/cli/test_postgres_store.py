"""Commands print the same on a store in PostgreSQL as on one in a file."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import Result

from tests.models.cli.command_line import EMPTY, invoke, lines, orders, others, run
from tierledger.simulation.live.server import free_ports
from tierledger.storage.backends.postgres.backend import PostgresBackend
from tierledger.storage.locate import parse_store_url


def run_on(url: str, *arguments: object) -> Result:
    return invoke(*arguments, "--store", url)


@pytest.fixture
def filled(postgres_url: str) -> str:
    async def fill() -> None:
        backend = await PostgresBackend.open(parse_store_url(postgres_url))
        await orders(backend)
        await others(backend)
        await backend.close()

    asyncio.run(fill())
    return postgres_url


@pytest.mark.parametrize(
    "command",
    [
        ["ls", "--all", "--json"],
        ["log", "orders", 1, "--json"],
        ["lookup", "orders", 1, 1, 150, "--json"],
        ["segments", "orders", 1, "--json"],
        ["verify", "--json"],
    ],
    ids=lambda command: str(command[0]),
)
def test_what_is_read_is_what_a_file_would_hold(
    filled: str, store: Path, command: list[object]
) -> None:
    result = run_on(filled, *command)

    assert lines(result) == lines(run(store, *command))
    assert result.stdout


def test_a_partition_is_forgotten_there_too(filled: str) -> None:
    result = run_on(filled, "forget", EMPTY, 0, "--yes")

    assert result.exit_code == 0
    assert "and its 2 events" in result.stdout
    assert run_on(filled, "verify").exit_code == 0


def test_a_store_that_is_not_there_is_named_without_its_password(postgres_url: str) -> None:
    secret = postgres_url.replace("tierledger@", "tierledger:se%26cret@")
    nobody = f"postgresql://me:se%26cret@127.0.0.1:{free_ports()}/db"
    for url, why in ((secret, "no such store"), (nobody, "refused")):
        result = run_on(url, "ls")

        assert result.exit_code != 0
        assert why in result.output
        assert "cret" not in result.output
