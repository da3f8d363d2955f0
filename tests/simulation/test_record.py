"""A record keeps all that is needed to judge a run again; with a part missing it is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given

from tests.models.simulation.planted_anomalies import altered
from tests.models.simulation.records import records, small_record
from tierledger.events.errors import InvalidArgument
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import history_as_lines
from tierledger.simulation.record.file import read_record, record_as_lines
from tierledger.simulation.record.record import RecordedLog, RunRecord, judged


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file, written again and again."""
    return tmp_path_factory.mktemp("records") / "record.jsonl"


def topics(record: RunRecord) -> list[str]:
    return [log.topic_id_partition.topic for log in record.logs]


@given(record=records())
def test_whatever_is_written_is_read_back(record: RunRecord, path: Path) -> None:
    path.write_bytes(b"".join(record_as_lines(record)))

    again = read_record(path)

    assert again == record
    assert topics(again) == topics(record)  # Which are no part of a partition's identity.


def test_a_record_is_judged_from_its_file_as_before(path: Path) -> None:
    record = small_record()
    history = record.history._replace(
        operations=altered(record.history.operations, 6, position=1, value=b"another answer")
    )
    for one in (record, record._replace(history=history)):
        path.write_bytes(b"".join(record_as_lines(one)))

        assert judged(read_record(path)).violations == judged(one).violations

    assert judged(record).violations == []
    assert "wrong_answer" in {one.checker for one in judged(read_record(path)).violations}


def test_what_a_record_asks_for_is_checked() -> None:
    record = small_record()
    (log,) = record.logs
    settings = record.settings
    torn = RecordedLog(log.topic_id_partition, log.batches[:-1])
    quiet = settings._replace(minimums=Minimums(faults=5))
    damaged = record.checkpoints[0]._replace(digest=bytes(16))
    found = Violation("liveness", None, "not well again")
    for wrong, checker in (
        (record._replace(logs=[torn]), "wrong_answer"),
        (record._replace(checkpoints=[damaged]), "checkpoint_is_fold"),
        (record._replace(settings=quiet), "vacuous"),
        (record._replace(settings=settings._replace(custom_metadata_bytes_max=3)), "lifecycle"),
        (record._replace(settings=settings._replace(cluster_id="another")), "CorruptLog"),
        (record._replace(logs=[]), "assumptions"),
        (record._replace(findings=[found]), "liveness"),
    ):
        assert checker in {one.checker for one in judged(wrong).violations}


def test_of_a_log_that_does_not_verify_nothing_else_is_said() -> None:
    record = small_record()
    (log,) = record.logs
    batch = log.batches[3]
    log.batches[3] = batch._replace(value=batch.value[:-1] + b"?")

    (only,) = judged(
        record._replace(settings=record.settings._replace(minimums=None))
    ).violations

    assert only.checker == "CorruptLog"
    assert only.message.startswith("batch 3: ")


# Files that are wrong.


def refused(path: Path) -> str:
    with pytest.raises(InvalidArgument) as caught:
        read_record(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_record_that_is_cut_off_anywhere_is_refused(path: Path) -> None:
    path.write_bytes(b"".join(record_as_lines(small_record())))
    whole = path.read_bytes()
    ends = [at for at, one in enumerate(whole) if one == ord("\n")]
    # Within lines, before and behind the ends of lines; but for the last, which ends the file.
    lengths = {*range(ends[0] + 2, ends[-1], 997), *ends[:-1], *(at + 1 for at in ends[:-1])}
    for length in sorted(lengths):
        path.write_bytes(whole[:length])

        assert "the record is cut off" in refused(path)


def test_a_line_that_was_lost_or_stands_behind_the_end_is_noticed(path: Path) -> None:
    path.write_bytes(b"".join(record_as_lines(small_record())))
    lines = path.read_text().splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if '"type":"note"' in line)

    path.write_text("".join([*lines[:at], *lines[at + 1 :]]))
    assert f"expected {len(lines) - 1} lines before the end" in refused(path)

    path.write_text("".join([*lines, lines[at]]))
    assert f"line {len(lines) + 1}: " in refused(path)
    assert "expected nothing behind the end" in refused(path)


def test_calls_alone_are_no_record(path: Path) -> None:
    path.write_bytes(b"".join(history_as_lines(small_record().history)))

    assert "line 1: " in refused(path)
    assert "expected settings in the first line" in refused(path)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "the record is cut off"),
        (b"\x80\x02]q\x00.\n", "line 1"),
        (b'["settings"]\n', "expected an object"),
        (b'{"type":"settings","version":3}\n', "version 2 of the format, found 3"),
        (
            b'{"type":"settings","version":1}\n',
            "version 2 of the format, found 1; the seed that it names is another run now",
        ),
        (b'{"type":"settings"}\n', "no field 'version'"),
    ],
)
def test_what_is_no_record_at_all_is_refused(content: bytes, named: str, path: Path) -> None:
    path.write_bytes(content)

    assert named in refused(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "gone.jsonl")
    assert "Is a directory" in refused(tmp_path)


def changed(kind: str, **fields: object) -> Callable[[list[dict[str, object]]], int]:
    """Change the first line of a type; its number."""

    def change(lines: list[dict[str, object]]) -> int:
        at = next(at for at, line in enumerate(lines) if line["type"] == kind)
        lines[at] |= fields
        return at + 1

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (changed("settings", check_every="often"), "'often'"),
        (changed("settings", custom_metadata_bytes_max=1.5), "1.5"),
        (changed("settings", minimums={"ok_writes": 1}), "['ok_writes']"),
        (changed("partition", part="nowhere:1"), "nowhere:1"),
        (changed("partition", topic=None), "None"),
        (changed("log", part="AAAAAAAAAAAAAAAAAAAAAA:0"), "before its log"),
        (changed("log", value="%%"), "%%"),
        (changed("log", durable_at="soon"), "'soon'"),
        (changed("log", batch=True), "True"),
        (changed("checkpoint", digest="xx"), "xx"),
        (changed("finding", ops=[1, None]), "[1, None]"),
        (changed("finding", message=7), "7"),
        (changed("invoke", f="append"), "'append'"),
        (changed("note", type="rumour"), "'rumour'"),
        (changed("end", lines=None), "None"),
    ],
)
def test_a_wrong_line_is_refused_by_number_and_value(
    change: Callable[[list[dict[str, object]]], int], named: str, path: Path
) -> None:
    found = Violation("liveness", None, "x")
    path.write_bytes(b"".join(record_as_lines(small_record()._replace(findings=[found]))))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    number = change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    message = refused(path)

    assert f"line {number}: " in message
    assert named in message
