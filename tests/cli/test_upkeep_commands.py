"""`verify`, `export` and `forget`, run as a user runs them."""

import asyncio
import gzip
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.models.cli.command_line import EMPTY, ORDERS, refused, run, write
from tests.models.cli.terminal import on_terminal
from tests.models.storage.stored_partitions import TRACES, StoredPartition, import_trace
from tierledger.cli.exit_status import ExitStatus
from tierledger.conformance.trace import read_records
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.backend import Put
from tierledger.storage.backends.sqlite.backend import SqliteBackend

TIP = TopicIdPartition(ORDERS, 1, "orders")


async def damage(backend: SqliteBackend) -> None:
    await StoredPartition(backend, TIP).flip(4)


async def lose_the_checkpoint(backend: SqliteBackend) -> None:
    await backend.remove_like(StoredPartition(backend, TIP).keys.state(TIP))


async def lose_the_tail(backend: SqliteBackend) -> None:
    partition = await StoredPartition.resumed(backend, TIP)
    # Behind the checkpoint, and with it.
    await partition.lose(*range((partition.next_batch - 1) // 2, partition.next_batch))


async def stray(backend: SqliteBackend) -> None:
    keys = StoredPartition(backend, TIP).keys
    strays = ["junk", "junk/more", keys.logs() + "!", keys.states() + "x/y/z"]
    await backend.execute_atomically([Put(key, b"?") for key in strays])


def test_verify_names_every_stray_key_and_all_commands_go_on(store: Path) -> None:
    write(store, stray)

    verified = run(store, "verify")
    listed = run(store, "ls")

    assert verified.exit_code == 1
    assert verified.stdout.count("ok ") == 4
    assert verified.stdout.count("STRAY ") == 4
    assert "'junk/more' is no key" in verified.stdout
    assert listed.exit_code == 0
    assert listed.stdout.count("orders") == 2
    assert "/log/!' is no key of a partition; it is left aside" in listed.stderr
    assert run(store, "segments", "orders", 1).exit_code == 0
    assert run(store, "export", store.parent / "out").exit_code == 0


@pytest.mark.parametrize(
    "harms", [[damage, lose_the_checkpoint], [lose_the_tail]], ids=["damage", "lose_the_tail"]
)
def test_ls_shows_a_damaged_log_and_that_it_is(
    store: Path, harms: list[Callable[[SqliteBackend], Coroutine[Any, Any, None]]]
) -> None:
    whole = run(store, "ls").stdout.splitlines()
    write(store, *harms)

    result = run(store, "ls")
    plain = [json.loads(line) for line in run(store, "ls", "--json").stdout.splitlines()]

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == len(whole)
    (bad,) = [line for line in result.stdout.splitlines() if "DAMAGED" in line]
    assert "orders" in bad
    (bad_plain,) = [one for one in plain if "damaged" in one]
    assert (bad_plain["partition"], "batch" in bad_plain["damaged"]) == (1, True)


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


def test_an_export_leaves_damaged_partitions_out_and_says_so(
    store: Path, tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    assert run(store, "export", before).exit_code == 0
    write(store, damage)

    result = run(store, "export", after)

    assert result.exit_code == 3
    assert "orders-1 is left out: batch 4: " in result.stderr
    left = after.read_text().splitlines()
    assert 0 < len(left) < len(before.read_text().splitlines())
    assert {json.loads(line)["value_hex"] for line in left} < {
        json.loads(line)["value_hex"] for line in before.read_text().splitlines()
    }


def test_an_export_to_nowhere_is_one_line(store: Path, tmp_path: Path) -> None:
    result = run(store, "export", tmp_path / "no" / "such" / "folder")

    refused(result, "error: cannot write ")


def test_forget_asks_and_takes_no_for_an_answer(store: Path) -> None:
    assert run(store, "forget", EMPTY, 0, input="n\n").exit_code == 1
    assert run(store, "describe", EMPTY, 0).exit_code == 0

    assert run(store, "forget", EMPTY, 0, input="y\n").exit_code == 0
    assert run(store, "describe", EMPTY, 0).exit_code == 2


def test_forget_refuses_what_is_led_or_holds_segments(store: Path) -> None:
    refused(run(store, "forget", "orders", 1, "--yes"), "led by broker 1")
    assert run(store, "describe", "orders", 1).exit_code == 0


def test_what_is_forgotten_is_unknown(store: Path) -> None:
    async def close(backend: SqliteBackend) -> None:
        tip = TopicIdPartition(ORDERS, 0, "unused")
        await (await StoredPartition.led(backend, tip)).close()

    write(store, close)

    assert run(store, "forget", "unused", 0, "--yes").exit_code == 0

    assert run(store, "describe", "unused", 0).exit_code == 2
    assert "unused" not in run(store, "ls", "--all").stdout
    assert run(store, "verify").exit_code == 0
    assert run(store, "forget", "unused", 0, "--yes").exit_code == 2


def test_forget_needs_the_store_to_itself(store: Path) -> None:
    async def while_written() -> Result:
        backend = await SqliteBackend.open(store)
        try:
            return await asyncio.to_thread(run, store, "forget", "gone", 0, "--yes")
        finally:
            await backend.close()

    refused(asyncio.run(while_written()))


def test_a_store_that_is_not_there_is_not_made_to_forget_something_in_it(
    tmp_path: Path,
) -> None:
    missing = tmp_path / "none.sqlite"

    refused(run(missing, "forget", "orders", "1", "--yes"), f"no such store: {missing}")

    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_at_a_question_ends_the_command(store: Path) -> None:
    shown = on_terminal("forget", EMPTY, 0, columns=80, store=store, typed="\x03")

    assert shown.status == ExitStatus.INTERRUPTED, shown.raw
    assert run(store, "describe", EMPTY).exit_code == 0, "nothing was forgotten"
