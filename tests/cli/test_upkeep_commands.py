"""`verify`, `export` and `forget`, run as a user runs them."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.models.command_line import EMPTY, ORDERS, orders, others, run, write
from tests.models.stored_partitions import TRACES, StoredPartition, import_trace
from tierledger.cli.main import app
from tierledger.cli.trace import read_records
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.sqlite import SqliteBackend


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.sqlite"
    write(path, orders, others)
    return path


async def damage(backend: SqliteBackend) -> None:
    tip = TopicIdPartition(ORDERS, 1, "orders")
    key = StoredPartition(backend, tip).keys.log_batch(tip, 4)
    stored = bytearray(await backend.get(key) or b"")
    stored[-1] ^= 1
    await backend.update(key, bytes(stored))


def test_verify_of_a_whole_store_passes(store: Path) -> None:
    result = run(store, "verify")

    assert result.exit_code == 0
    assert result.stdout.count("ok ") == 4
    assert "checkpoint at 40 agrees" in result.stdout


def test_verify_names_the_damage_and_goes_on(store: Path) -> None:
    write(store, damage)

    result = run(store, "verify", "--json")

    reports = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert [report["passed"] for report in reports].count(False) == 1
    assert len(reports) == 4
    (bad,) = (report for report in reports if not report["passed"])
    assert (bad["topic"], bad["partition"], bad["batches"]) == ("orders", 1, 4)
    assert bad["findings"][0]["kind"] == "log"
    assert "DAMAGED" in run(store, "verify", "orders", 1).stdout
    assert run(store, "verify", "gone").exit_code == 0


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_export_gives_back_the_trace_that_was_imported(name: str, tmp_path: Path) -> None:
    store, out = tmp_path / "store.sqlite", tmp_path / name

    async def imported(backend: SqliteBackend) -> None:
        await import_trace(backend, TRACES / "one-broker")

    write(store, imported)

    result = run(store, "export", out, "--metadata-partitions", 3)

    assert result.exit_code == 0
    assert result.stdout.startswith("192 records")
    ours, recorded = list(read_records(out)), list(read_records(TRACES / "one-broker"))
    assert [one.value for one in ours] == [one.value for one in recorded]
    assert sorted(path.name for path in tmp_path.iterdir() if name in path.name) == [name]


def test_an_export_is_the_same_file_every_time(store: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.gz", tmp_path / "second.gz"

    assert run(store, "export", first).exit_code == 0
    assert run(store, "export", second).exit_code == 0

    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes())


def test_an_export_that_fails_leaves_the_file_as_it_was(store: Path, tmp_path: Path) -> None:
    write(store, damage)
    out = tmp_path / "out.jsonl"
    out.write_text("before")

    result = run(store, "export", out)

    assert result.exit_code == 2
    assert result.stderr.startswith("error: CorruptLog: ")
    assert out.read_text() == "before"
    assert list(tmp_path.glob("*.unfinished")) == []


def test_an_export_to_nowhere_is_one_line(store: Path, tmp_path: Path) -> None:
    result = run(store, "export", tmp_path / "no" / "such" / "folder")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: InvalidArgument: cannot write ")


def forget(store: Path, *arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(
        app, ["forget", *arguments, "--store", f"sqlite:{store}"], input=answer
    )


def test_forget_asks_and_takes_no_for_an_answer(store: Path) -> None:
    empty = str(EMPTY)

    assert forget(store, empty, "0", answer="n\n").exit_code == 1
    assert run(store, "describe", empty, 0).exit_code == 0

    assert forget(store, empty, "0", answer="y\n").exit_code == 0
    assert run(store, "describe", empty, 0).exit_code == 2


def test_forget_refuses_what_is_led_or_holds_segments(store: Path) -> None:
    result = forget(store, "orders", "1", "--yes")

    assert result.exit_code == 2
    assert "RejectedError" in result.stderr
    assert "led by broker 1" in result.stderr
    assert run(store, "describe", "orders", 1).exit_code == 0


def test_what_is_forgotten_is_unknown(store: Path) -> None:
    async def close(backend: SqliteBackend) -> None:
        tip = TopicIdPartition(ORDERS, 0, "unused")
        partition = StoredPartition(backend, tip)
        await partition.open()
        await partition.close()

    write(store, close)

    assert forget(store, "unused", "0", "--yes").exit_code == 0

    assert run(store, "describe", "unused", 0).exit_code == 2
    assert "unused" not in run(store, "ls", "--all").stdout
    assert run(store, "verify").exit_code == 0
    assert forget(store, "unused", "0", "--yes").exit_code == 2


def test_forget_needs_the_store_to_itself(store: Path) -> None:
    async def while_written() -> Result:
        backend = await SqliteBackend.open(store)
        try:
            return await asyncio.to_thread(forget, store, "gone", "0", "--yes")
        finally:
            await backend.close()

    result = asyncio.run(while_written())

    assert result.exit_code == 2
    assert "StoreRefused" in result.stderr
