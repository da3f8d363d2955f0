"""`tierledger jobs retention`, and the file of what only brokers know."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.models.cli.command_line import ORDERS, refused, rows_in, run
from tests.models.pipeline.folded_tables import written
from tests.models.storage.stored_partitions import StoredPartition, finished
from tierledger.cli.commands.jobs.retention import parse_what_if
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.jobs.retention.deletions import LocalFacts
from tierledger.pipeline.jobs.retention.job import LocalKey, read_local
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.tiering.broker_version import NEWEST


def filled(path: Path) -> JobStore:
    """Two partitions of `orders` with four segments of ten records, 1000 bytes each."""

    async def step(backend: SqliteBackend) -> None:
        for number in range(2):
            partition = await StoredPartition.led(
                backend, TopicIdPartition(ORDERS, number, "orders")
            )
            await partition.append([body for at in range(4) for body in finished(at)])

    return written(path, step)


@pytest.mark.usefixtures("spark")
def test_the_command_tells_what_goes_by_topic_and_writes_each_segment(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    local, out, page = tmp_path / "local.csv", tmp_path / "rows", tmp_path / "page.html"
    local.write_text(
        "topic,partition,log_start_offset,local_bytes\norders,1,20,1000\nelse,0,,\n"
    )
    asked = ["--what-if", "retention.bytes=3000", "--local", local, "--now", "2026-01-01"]

    result = run(
        tmp_path / "store",
        *("jobs", "retention", "--json", *asked),
        *("--out", out, "--format", "json", "--page", page),
    )

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["segments_deleted"], told["bytes_deleted"]) == (3, 3000)
    assert (told["deleted_for_size"], told["deleted_for_log_start_offset"]) == (1, 2)
    gone = [(row["partition"], row["start_offset"], row["reason"]) for row in rows_in(out)]
    assert sorted(one for one in gone if one[2]) == [
        (0, 0, "size"),
        (1, 0, "log_start_offset"),
        (1, 10, "log_start_offset"),
    ]
    assert "orders" in page.read_text()


@pytest.mark.parametrize(
    ("asked", "version", "told_by"),
    [
        ([], str(NEWEST), "newest known"),
        (["--kafka-version", "4.2.1"], "4.2", "--kafka-version"),
    ],
)
def test_it_is_told_whose_rules_were_used(
    tmp_path: Path, asked: list[str], version: str, told_by: str
) -> None:
    filled(tmp_path / "store")

    result = run(
        tmp_path / "store",
        *("jobs", "retention", "--json", "--what-if", "retention.ms=1", *asked),
    )

    told = json.loads(result.stdout)
    assert (told["kafka_version"], told["kafka_version_told_by"]) == (version, told_by)


HARM: dict[str, Callable[[StoredPartition], Awaitable[None]]] = {
    "flip": lambda partition: partition.flip(4),
    "lose one": lambda partition: partition.lose(1),
    "lose the end": lambda partition: partition.lose(4),  # Its checkpoint stands for more.
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("harm", HARM)
def test_nothing_is_said_to_go_of_a_partition_whose_log_is_damaged(
    tmp_path: Path, harm: str
) -> None:
    async def step(backend: SqliteBackend) -> None:
        for number in range(2):
            tip = TopicIdPartition(ORDERS, number, "orders")
            partition = await StoredPartition.led(backend, tip)
            await partition.fill(range(4))
            await partition.checkpoint()
            if number == 1:
                await HARM[harm](partition)

    written(tmp_path / "store", step)
    out = tmp_path / "rows"

    result = run(
        tmp_path / "store",
        *("jobs", "retention", "--json", "--what-if", "retention.bytes=1000"),
        *("--out", out, "--format", "json"),
    )

    assert result.exit_code == 3, result.output
    told = json.loads(result.stdout)
    assert [(one["topic"], one["partition"]) for one in told["damaged"]] == [("orders", 1)]
    assert "is left out" in result.stderr
    assert (told["segments_before"], told["segments_deleted"]) == (4, 3)
    assert {row["partition"] for row in rows_in(out)} == {0}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--what-if", "retention.ms"], "expected a whole number from -1 to"),
        (["--what-if", "retention.ms=-2"], "retention.ms: expected a whole number from -1"),
        (
            ["--what-if", "retention.bytes=9223372036854775808"],
            "expected a whole number from -1 to",
        ),
        (["--what-if", "retention.ms=10GiB"], "expected a whole number from -1 to"),
        (["--what-if", "retention.ms=1,retention.ms=2"], "once"),
        (["--what-if", "retention.ms=1", "--now", "soon"], "expected"),
        (
            ["--what-if", "retention.ms=1", "--now", "2026-01-02", "--until", "2026-01-01"],
            "--until",
        ),
        (["--what-if", "retention.ms=1", "--local", "/does/not/exist"], "cannot read"),
        (["--what-if", "retention.ms=1", "--kafka-version", "4"], "--kafka-version: expected"),
        (["--what-if", "retention.ms=1", "--kafka", "broker"], "HOST:PORT"),
        (["--what-if", "retention.ms=1", "--kafka-config", "/dev/null"], "expected --kafka"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    filled(tmp_path / "store")

    refused(run(tmp_path / "store", "jobs", "retention", *arguments), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("topic\nx\n", "expected columns"),
        ("topic,partition,what\nx,1,2\n", "expected columns"),
        ("topic,partition\nx,one\n", ", line 2: partition: expected a number"),
        ("topic,partition\nx,\n", ", line 2: expected a partition"),
        ("topic,partition\nx,1,3\n", ", line 2: expected a partition"),
        ("topic,partition,leader_epochs\nx,1,0-0\n", "EPOCH:OFFSET"),
        ("topic,partition\nx,1\nx,1\n", "x-1 is there twice"),
        ("topic,partition,local_bytes\nx,1,9223372036854775808\n", "expected a number"),
    ],
)
def test_a_file_of_what_brokers_know_is_refused_by_line(
    tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "local.csv").write_text(text)

    with pytest.raises(InvalidArgument, match=expected):
        read_local(tmp_path / "local.csv")


def test_a_file_of_what_brokers_know_is_read(tmp_path: Path) -> None:
    text = "topic,partition,log_start_offset,local_bytes,log_end_offset,leader_epochs\n"
    (tmp_path / "local.csv").write_text(f"\ufeff{text}a,0,5,6,70,0:0 3:20\nb,1,,,,\n")

    assert read_local(tmp_path / "local.csv") == {
        LocalKey("a", 0): LocalFacts(5, 6, 70, ((0, 0), (3, 20))),
        LocalKey("b", 1): LocalFacts(),
    }


def test_a_retention_may_have_a_unit() -> None:
    assert parse_what_if(["retention.ms=7d,retention.bytes=10GiB"]) == {
        "retention.ms": 7 * 86_400_000,
        "retention.bytes": 10 << 30,
    }
