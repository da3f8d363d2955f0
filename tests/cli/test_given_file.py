"""`-` is standard input, wherever a command reads a file that its user names."""

import gzip
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.models.cli.command_line import invoke, orders, refused, run, write
from tests.models.simulation.records import small_record
from tests.models.storage.stored_partitions import TRACES
from tierledger.cli.given_file import command_input, readable
from tierledger.simulation.record.file import record_as_lines

TRACE = TRACES / "custom-metadata"
FILES = ("records", "answers")
LISTING = "path,size,last_modified\nsome/object,7,2026-01-01T00:00:00Z\n"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path / "s", orders)
    return tmp_path / "s"


def parquet() -> bytes:
    table = pa.table({"path": ["some/object"], "size": [7], "last_modified": [0]})
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def test_a_history_is_checked(tmp_path: Path) -> None:
    history = b"".join(record_as_lines(small_record()))
    file = tmp_path / "history.jsonl"
    file.write_bytes(history)

    piped = invoke("check", "-", input=history)

    assert piped.exit_code == 0
    assert piped.stdout == invoke("check", file).stdout


@pytest.mark.parametrize(
    "listing",
    [LISTING.encode(), gzip.compress(LISTING.encode()), parquet()],
    ids=["csv", "gzip", "parquet"],
)
def test_a_listing_is_read_in_each_of_its_formats(
    store: Path, tmp_path: Path, listing: bytes
) -> None:
    asked = ("jobs", "audit", "--tier", f"dir:{tmp_path}", "--listing", "-", "--json")

    result = run(store, *asked, input=listing)

    told = json.loads(result.stdout)
    assert (told["objects"], told["bytes"], told["foreign"]) == (1, 7, 1)


def test_facts_of_brokers_are_read(store: Path) -> None:
    asked = ("jobs", "retention", "--what-if", "retention.bytes=1", "--local", "-", "--json")

    without = json.loads(run(store, *asked, input=b"topic,partition,local_bytes\n").stdout)
    told = json.loads(
        run(store, *asked, input=b"topic,partition,log_start_offset\norders,1,50\n").stdout
    )

    assert told["deleted_for_log_start_offset"] > 0
    assert "deleted_for_log_start_offset" not in without


def test_a_recording_is_replayed_and_questions_are_answered(tmp_path: Path) -> None:
    records, questions = ((TRACE / f"{one}.jsonl.gz").read_bytes() for one in FILES)
    answers = tmp_path / "answers.jsonl"
    memory = ("--store", "memory:", "--json")

    replayed = invoke("replay", "-", "--origin", "there", *memory, input=records)
    answered = invoke(
        "replay", TRACE, "--answer", "-", "--out", answers, *memory, input=questions
    )

    assert (replayed.exit_code, answered.exit_code) == (0, 0), replayed.output + answered.output
    assert json.loads(replayed.stdout)["records"] == len(gzip.decompress(records).splitlines())
    lines = gzip.decompress(questions).splitlines()
    assert len(answers.read_bytes().splitlines()) == len(lines)


@pytest.mark.parametrize(
    ("command", "option"),
    [(("replay", "-"), "--origin"), (("jobs", "import", "-"), "--recorded-cluster")],
)
def test_what_has_no_name_is_given_one(
    store: Path, command: tuple[str, ...], option: str
) -> None:
    refused(run(store, *command, input=b""), f"expected {option} with standard input")


def test_standard_input_is_read_once() -> None:
    asked = ("replay", "-", "-", "--origin", "there", "--store", "memory:")

    refused(invoke(*asked, input=b"{}\n"), "named once, got it twice")


def test_an_error_in_it_names_it() -> None:
    refused(invoke("check", "-", input=b"no record\n"), "error: standard input, line 1")


def test_its_copy_goes_with_the_command_and_other_names_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n")))

    with command_input():
        copy = readable(Path("-"), "csv")
        assert (copy.name, copy.read_bytes()) == ("standard-input.csv", b"a,b\n")
        assert readable(Path("./-x"), "csv") == Path("./-x")

    assert not copy.parent.exists()
