"""`jobs import` refuses what cannot be imported before Spark starts."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import Result

from tests.models.cli.command_line import invoke, refused
from tests.models.storage.stored_partitions import TRACES
from tierledger.simulation.live.server import free_ports
from tierledger.storage.backends.sqlite.backend import SqliteBackend

TRACE = TRACES / "one-broker"


pytestmark = pytest.mark.usefixtures("no_java")


def run(source: object, store: Path, *more: str) -> Result:
    return invoke("jobs", "import", source, "--store", f"sqlite:{store}", *more)


def test_a_store_that_a_service_writes_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    backend = asyncio.run(SqliteBackend.open(store))
    try:
        refused(run(TRACE, store, "--cluster", "c"), "is being written by process")
    finally:
        asyncio.run(backend.close())


def test_a_cluster_has_to_be_named(tmp_path: Path) -> None:
    refused(run(TRACE, tmp_path / "store"), "expected --cluster or TIERLEDGER_CLUSTER")

    assert not (tmp_path / "store").exists()


def test_a_source_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    refused(run(tmp_path / "no", tmp_path / "store", "--cluster", "c"), "does not exist")
    refused(
        run(tmp_path / "empty", tmp_path / "store", "--cluster", "c"),
        "records.jsonl",
        "__remote_log_metadata-N",
    )
    refused(run("kafka:nowhere", tmp_path / "store", "--cluster", "c"), "HOST:PORT")
    assert not (tmp_path / "store").exists()


def test_brokers_that_are_away_are_named(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports()}"

    asked = run(f"kafka:{address}", tmp_path / "store", "--cluster", "c")

    refused(asked, address, status=4)


def test_a_machine_without_java_is_told_so_and_the_store_is_let_go(tmp_path: Path) -> None:
    store = tmp_path / "store"

    refused(run(TRACE, store, "--cluster", "c"), "Java")

    asyncio.run(asyncio.run(SqliteBackend.open(store)).close())
