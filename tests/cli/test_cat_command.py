"""`cat`, run as a user runs it, on a tier that a stock broker wrote."""

import asyncio
import gzip
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.models.cli.command_line import invoke, refused, write
from tests.models.storage.flipped_bits import flip
from tests.models.storage.stored_partitions import TIP, StoredPartition, import_trace
from tests.models.tiering import tier_trace
from tests.models.tiering.odd_segments import OddSegment, write_odd_tier
from tests.models.tiering.raw_batches import fields, raw_batch
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import DeletionCause, RemotePartitionDeleteState
from tierledger.events.log_events import (
    PartitionDeleteUpdated,
    SegmentKept,
    SegmentUpdated,
)
from tierledger.events.tables.segment_rows import CUSTOM, id_of_row, unpack_row
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.process_log import LOG
from tierledger.tiering.formats.record_batches import BatchSplitter
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.layouts.tier_url import open_tier

TIER = f"local-tiered:{tier_trace.TREE}"
TRANSACTIONS = "payments-tx"


@pytest.fixture
def arguments(tier_store: Path, tmp_path: Path) -> list[str]:
    return asked_of(tier_store, tmp_path)


def asked_of(store: Path, folder: Path) -> list[str]:
    cache = str(folder / "cache")
    return ["--store", f"sqlite:{store}", "--tier", TIER, "--cache", cache]


def cat(arguments: list[str], topic: str, partition: int, *more: object) -> Result:
    return invoke("cat", topic, partition, *arguments, *more)


def consumed(tip: TopicIdPartition, isolation: str) -> list[str]:
    """The recording's own lines of what is in the tier."""
    end = tier_trace.ends()[tip.topic, tip.partition]["latest_tiered_offset"]
    return [
        line
        for record, line in recorded(isolation)
        if (record["topic"], record["partition"]) == (tip.topic, tip.partition)
        and record["offset"] <= end
    ]


@cache
def recorded(isolation: str) -> list[tuple[dict[str, Any], str]]:
    with gzip.open(tier_trace.TRACE / f"consumed-{isolation}.jsonl.gz", "rt") as lines:
        return [(json.loads(line), line) for line in lines]


def printed_offsets(result: Result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [json.loads(line)["offset"] for line in result.stdout.splitlines()]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(
    "tip", tier_trace.topics(), ids=lambda one: f"{one.topic}-{one.partition}"
)
def test_it_prints_the_recordings_lines(
    tip: TopicIdPartition, isolation: str, arguments: list[str]
) -> None:
    result = cat(arguments, tip.topic, tip.partition, "--isolation", isolation)

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines(keepends=True) == consumed(tip, isolation)
    assert result.stderr == ""


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("topic", [TRANSACTIONS, "codec-zstd"])
def test_a_deleted_topic_that_is_kept_reads_as_it_did(
    topic: str, isolation: str, tier_store: Path, tmp_path: Path
) -> None:
    store = Path(shutil.copy(tier_store, tmp_path / "ledger.sqlite"))
    tip = next(one for one in tier_trace.topics() if one.topic == topic)
    asyncio.run(delete_and_keep(store, tip))
    arguments = asked_of(store, tmp_path)

    gone = cat(arguments, topic, tip.partition)
    kept = cat(arguments, topic, tip.partition, "--deleted", "--isolation", isolation)
    found = invoke("lookup", topic, tip.partition, 0, 0, "--deleted", *arguments[:2])

    assert "its deletion is finished" in gone.stderr
    assert "are in the trash: --deleted reads them" in gone.stderr
    assert kept.stdout.splitlines(keepends=True) == consumed(tip, isolation), kept.output
    assert "start offset" in found.stdout, found.output


async def delete_and_keep(store: Path, tip: TopicIdPartition) -> None:
    """Delete the partition as brokers with a guard do under a term."""
    backend = await SqliteBackend.open(store)
    partition = await StoredPartition.resumed(backend, tip)
    for row in sorted(partition.state.rows):
        deleting = SegmentUpdated(id_of_row(row), 2, 1, 9, unpack_row(row)[CUSTOM])
        kept = SegmentKept(id_of_row(row), 10, DeletionCause.TOPIC, 1, 9, "undo")
        await partition.append([deleting, kept])
    for state in RemotePartitionDeleteState:
        await partition.append([PartitionDeleteUpdated(int(state), 1, 9)])
    await backend.close()


def test_raw_is_the_log_byte_for_byte(arguments: list[str]) -> None:
    result = cat(arguments, TRANSACTIONS, 0, "--format", "raw")

    logs = [one.log for one in tier_trace.segments_of(TRANSACTIONS, 0)]
    assert result.stdout_bytes == b"".join(logs)


def test_raw_and_committed_needs_no_knowledge_of_transactions(arguments: list[str]) -> None:
    tip = next(one for one in tier_trace.topics() if one.topic == TRANSACTIONS)
    result = cat(arguments, TRANSACTIONS, 0, "--format", "raw", "--isolation", "read_committed")

    batches = list(BatchSplitter("raw", 0, 0).feed(result.stdout_bytes))
    offsets = [json.loads(line)["offset"] for line in consumed(tip, "read_committed")]
    assert [one.base_offset for one in batches if one.base_offset not in offsets] == []
    assert sum(one.record_count for one in batches) == len(offsets)
    assert not any(one.is_control for one in batches)


def test_a_part_is_from_an_offset_to_before_another(arguments: list[str]) -> None:
    part = cat(arguments, "codec-zstd", 1, "--from-offset", 90, "--to-offset", 101)
    few = cat(arguments, "codec-zstd", 1, "--from-offset", 90, "--max-records", 3)
    none = cat(arguments, "codec-zstd", 1, "--max-records", 0)

    assert printed_offsets(part) == list(range(90, 101))
    assert printed_offsets(few) == [90, 91, 92]
    assert printed_offsets(none) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from-offset", 5, "--to-offset", 3], "expected --from-offset, which is 5, or more"),
        (["--from-timestamp", "soon"], "(N or ms:N) or a time like 2026-01-31T12:00:00Z"),
        (["--from-timestamp", "20261121"], "expected ms:20261121 or 2026-11-21"),
        (["--from-timestamp", "-1"], "expected a number"),
        (["--from-offset", 2**63], "expected at most 9223372036854775807"),
        (["--to-offset", "x"], "expected a whole number, got 'x'"),
        (["--to-offset", "9" * 5000], "(5000 characters)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    options: list[object], message: str, arguments: list[str]
) -> None:
    result = cat(arguments, "codec-lz4", 0, *options)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert "Input should" not in result.stderr


def test_an_offset_before_which_nothing_lies_is_told(arguments: list[str]) -> None:
    result = cat(
        arguments, "codec-lz4", 0, "--from-timestamp", "2199-01-01", "--to-offset", "1"
    )

    assert result.exit_code == 0
    assert result.stdout == ""
    assert "behind --to-offset" in result.stderr


def test_it_begins_at_a_time(arguments: list[str]) -> None:
    tip = next(one for one in tier_trace.topics() if one.topic == "codec-lz4")
    times = [json.loads(line)["timestamp_ms"] for line in consumed(tip, "read_uncommitted")]
    latest = max(times)

    found = cat(arguments, "codec-lz4", 0, "--from-timestamp", latest)
    behind = cat(arguments, "codec-lz4", 0, "--from-timestamp", latest + 1)

    assert printed_offsets(found) == list(range(times.index(latest), len(times)))
    assert printed_offsets(behind) == []


def test_it_says_why_it_stopped_before_the_end(tmp_path: Path) -> None:
    """A tier that ends within a transaction: the metadata of its later segments is missing."""
    path = tmp_path / "early.sqlite"
    first = tier_trace.segments_of(TRANSACTIONS, 0)[0].metadata

    async def early(backend: SqliteBackend) -> None:
        whole = MemoryBackend()
        for partition in await import_trace(whole, tier_trace.TRACE, checkpoint_at=2):
            if partition.tip == first.topic_id_partition:
                log = await whole.get_like(partition.keys.log(partition.tip))
                # The session, and the one batch with both records of the first segment.
                for key, value in log[:2]:
                    await backend.create(key, value)

    write(path, early)
    arguments = asked_of(path, tmp_path)

    committed = cat(arguments, TRANSACTIONS, 0, "--isolation", "read_committed")
    everything = cat(arguments, TRANSACTIONS, 0)

    assert "the transaction that begins there has not ended in the tier" in committed.stderr
    assert set(printed_offsets(committed)) < set(printed_offsets(everything))
    assert everything.stderr == ""


def test_a_damaged_batch_is_named_and_the_rest_is_printed(
    arguments: list[str], tmp_path: Path
) -> None:
    tree = tmp_path / "tier"
    shutil.copytree(tier_trace.TREE, tree)
    second = tier_trace.segments_of("codec-none", 0)[1].metadata
    (log,) = tree.glob(f"codec-none-0-*/*-{second.remote_log_segment_id.id}.log")
    flip(log, 100)

    damaged = [*arguments, "--tier", f"local-tiered:{tree}"]
    result = cat(damaged, "codec-none", 0)
    raw = cat(damaged, "codec-none", 0, "--format", "raw")

    assert result.exit_code == 3
    offsets = [json.loads(line)["offset"] for line in result.stdout.splitlines()]
    first = second.start_offset
    end = next(one for one in offsets if one >= first)
    assert first < end < second.end_offset
    assert offsets == [*range(first), *range(end, 233)]
    assert result.stderr.startswith("note: left out: log of ")
    assert str(second.remote_log_segment_id) in result.stderr
    assert raw.exit_code == 4
    assert raw.stdout_bytes == tier_trace.segments_of("codec-none", 0)[0].log


def test_what_cannot_be_decoded_is_named_and_the_rest_is_printed(tmp_path: Path) -> None:
    odd = fields(0, headers=[(b"caf\xe9", b"x")])
    bad = raw_batch(3, [fields(0), fields(1)], codec=1, compress=lambda _: b"no gzip")
    log = raw_batch(0, [odd, fields(1)[:-1], fields(2)]) + bad + raw_batch(5, [fields(0)])
    store, tier = asyncio.run(write_odd_tier(tmp_path, [OddSegment(0, 5, log)]))
    arguments = ["--store", store, "--tier", tier, "--cache", str(tmp_path / "cache")]

    result = cat(arguments, TIP.topic, TIP.partition)
    good = cat(arguments, TIP.topic, TIP.partition, "--to-offset", 1)

    assert result.exit_code == 3
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["offset"] for one in lines] == [0, 2, 5]
    assert lines[0]["headers"] == [["caf\ufffd", "78"]]
    assert lines[0]["header_names_hex"] == ["636166e9"]
    assert "header_names_hex" not in lines[1]
    assert "the records from offset 1 to 1 cannot be decoded" in result.stderr
    assert "the records from offset 3 to 4 cannot be decoded" in result.stderr
    assert (good.exit_code, good.stderr) == (0, "")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--from-offset", "234"], "offset 234 is not in the tier, which holds 0 to 232"),
        (["--from-offset", "1", "--from-timestamp", "1"], "got both"),
        (["--isolation", "serializable"], "read_uncommitted or read_committed"),
        (["--format", "csv"], "json or raw"),
        (["--format", "raw", "--max-records", "1"], "--max-records"),
        (["--tier", "nowhere"], "expected a tier as"),
        (["--cluster", "other"], "no cluster 'other'"),
    ],
)
def test_a_wrong_question_is_one_line(
    more: list[str], message: str, arguments: list[str]
) -> None:
    refused(cat(arguments, "codec-none", 0, *more), message)


def test_what_prints_nothing_says_why(arguments: list[str], tmp_path: Path) -> None:
    late = cat(arguments, "codec-none", 0, "--from-timestamp", "2038-01-01")
    other = cat([*arguments, "--tier", f"dir:{tmp_path}"], "codec-none", 0)

    assert (late.exit_code, late.stdout) == (0, "")
    assert "the tier has no such record: its last offset is" in late.stderr
    assert other.exit_code == 2
    assert "expected --tier to be the URL below which the segments were copied" in other.stderr


def test_an_unknown_partition_and_a_missing_tier_are_errors(arguments: list[str]) -> None:
    assert "no partition 9" in cat(arguments, "codec-none", 9).stderr
    assert invoke("cat", "codec-none", 0).exit_code == 2


@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_with_a_wrong_transaction_index_nothing_aborted_is_printed(
    damage: str, arguments: list[str], tmp_path: Path
) -> None:
    tree = tmp_path / "tier"
    shutil.copytree(tier_trace.TREE, tree)
    tip = next(one for one in tier_trace.topics() if one.topic == TRANSACTIONS)
    index = sorted(tree.glob(f"{TRANSACTIONS}-0-*/*.txnindex"))[1]
    whole = index.read_bytes()
    if damage == "missing":
        index.unlink()
    else:
        index.write_bytes(whole[: len(whole) - 34 if damage == "cut" else 0])
    damaged = [*arguments, "--tier", f"local-tiered:{tree}", "--isolation", "read_committed"]

    result = cat(damaged, TRANSACTIONS, 0)

    assert result.exit_code == 4
    right = consumed(tip, "read_committed")
    lines = result.stdout.splitlines(keepends=True)
    assert lines == right[: len(lines)]
    assert "error: transaction index of" in result.stderr
    index.write_bytes(whole)
    again = cat(damaged, TRANSACTIONS, 0)
    assert again.stdout.splitlines(keepends=True) == right, "no wrong index is kept"


def test_indexes_are_kept_for_the_next_time(arguments: list[str], tmp_path: Path) -> None:
    cat(arguments, "codec-none", 0, "--from-offset", 30)

    assert list((tmp_path / "cache").iterdir())


@pytest.fixture
def used_cache(tmp_path: Path) -> Iterator[Path]:
    """A cache directory that somebody else holds."""
    directory = tmp_path / "cache"
    with asyncio.Runner() as runner:
        storage = open_tier(TIER)
        held = RemoteIndexCache(directory, storage)
        runner.run(held.open())
        yield directory
        runner.run(held.close())
        runner.run(storage.close())


def test_while_somebody_else_uses_the_cache_it_does_without(
    arguments: list[str], used_cache: Path
) -> None:
    result = cat(arguments, "codec-none", 0, "--from-offset", 30)

    assert printed_offsets(result) == list(range(30, 233))
    assert "not from the cache" in result.stderr
    assert str(used_cache) in result.stderr


def test_what_is_logged_on_the_way_is_no_record(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, late = LOG._write, threading.Event()
    monkeypatch.setattr(LOG, "_write", lambda line: (late.wait(0.1), write(line)))
    right = cat(arguments, "codec-none", 0, "--from-offset", 30).stdout
    for file in (tmp_path / "cache").glob("*.indexes"):
        file.write_bytes(b"damaged")

    result = cat(arguments, "codec-none", 0, "--from-offset", 30)

    assert result.stdout == right
    assert "cache file dropped" in result.stderr


def command(arguments: list[str]) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-m", "tierledger.cli.main", "cat", "codec-none", "0", *arguments]


def test_an_output_that_takes_nothing_is_an_error_in_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            command(arguments), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command(arguments)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert result.returncode == closed.returncode == 4
    assert result.stderr == "error: standard output: No space left on device\n"
    assert closed.stderr == "error: standard output is closed\n"


def test_who_reads_no_further_ends_it_quietly(arguments: list[str]) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(command(arguments), stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10) == b'{"topic":"'
        process.stdout.close()
        process.stdout = None
        told = process.stderr.read()

    assert told == b""
