"""Stores that cannot be used: every command says why in one line, and leaves them alone."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.models.cli.command_line import invoke, orders, refused, run, write
from tests.models.storage.stored_partitions import TRACES
from tierledger.cli.exit_status import ExitStatus
from tierledger.storage.backends.sqlite.file import FORMAT_VERSION


def of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB)")


def newer(path: Path) -> None:
    write(path, orders)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "another program's": of_another_program,
    "a newer version's": newer,
    "no database": lambda path: path.write_bytes(b"dear diary\n" * 1000),
    "a folder": Path.mkdir,
}
COMMANDS: dict[str, list[object]] = {
    "ls": [],
    "lookup": ["orders", 1, 0, 5],
    "lookup from a leader": ["orders", 1, 0, 5, "--from", "leader"],
    "verify": [],
    "status": [],
    "serve": [],
    "replay": [TRACES / "tier", "--check"],
    "forget": ["orders", 1, "--yes"],
}


@pytest.mark.parametrize("what", UNUSABLE)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_unusable_store_is_named_and_left_alone(
    command: str, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.sqlite"
    UNUSABLE[what](path)
    before = path.read_bytes() if path.is_file() else None

    result = run(path, command.split(maxsplit=1)[0], *COMMANDS[command])

    refused(result, "store.sqlite")
    assert (path.read_bytes() if path.is_file() else None) == before
    if before is not None:
        assert not (tmp_path / "store.sqlite.new").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_was_cut_is_damaged_and_not_wrongly_named(
    command: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.sqlite"
    write(path, orders)
    path.write_bytes(path.read_bytes()[:9000])

    result = run(path, command.split(maxsplit=1)[0], *COMMANDS[command])

    if command == "verify":
        assert result.exit_code == ExitStatus.FOUND
        assert f"DAMAGED  {path} is damaged: " in result.stdout
    else:
        refused(result, f"{path} is damaged: ", status=ExitStatus.FAILED)


@pytest.mark.parametrize("command", ["status", "replay"])
def test_what_names_neither_a_store_nor_doors_is_told_both_forms(command: str) -> None:
    for url in ("http://user:secret@here/", "store.sqlite"):
        result = invoke(command, "--store", url, *COMMANDS[command])

        refused(result, "--store: expected the URL of a store, sqlite:FILE", "tierledger://")
        assert "secret" not in result.stderr


def test_where_backups_are_is_of_use_for_metrics_alone(tmp_path: Path) -> None:
    at, place = ("--store", f"sqlite:{tmp_path / 'store'}"), ("--backups", tmp_path)

    refused(invoke("serve", *at, *place), "--backups: expected --metrics-port, too")
    refused(
        invoke("serve", *at, "--metrics-port", 0, "--backups", "s3://"),
        "expected where the backups are",
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "option", ["--address", "--listen", "--advertise", "--kafka", "--metrics-port"]
)
def test_a_port_that_cannot_be_is_refused_before_anything_starts(
    option: str, tmp_path: Path
) -> None:
    port = "99999" if option == "--metrics-port" else "localhost:99999"

    result = invoke("serve", "--store", f"sqlite:{tmp_path / 'store'}", option, port)

    assert result.exit_code == ExitStatus.USAGE, result.output
    assert "99999" in result.stderr
    assert not list(tmp_path.iterdir())
