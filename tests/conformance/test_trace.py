"""Reading traces: every kind of damage is named, with the line that has it."""

import gzip
import json
from pathlib import Path

import pytest

from tierledger.conformance.answers import (
    Failure,
    Outcome,
    QueryResult,
    Question,
    answer_line,
    grouped_by_after,
    read_answers,
    read_questions,
)
from tierledger.conformance.trace import OffsetGap, TraceRecord, read_records, records_path
from tierledger.events.errors import InvalidArgument, MetadataParseError
from tierledger.events.identifiers import Uuid

TOPIC_ID = "E8n2IW1iRbCWr8c73AJrOg"


def record(partition: int = 0, offset: float = 0, **other: object) -> dict[str, object]:
    fields = {"partition": partition, "offset": offset, "timestamp_ms": 5, "value_hex": "0aff"}
    return {**fields, **other}


def question(after: object = None, **other: object) -> dict[str, object]:
    fields = {"after": after, "topic": "t", "topic_id": TOPIC_ID, "partition": 0}
    return {**fields, "query": "lookup", "epoch": 0, "offset": 7, **other}


def written(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    text = "".join(f"{line}\n" for line in texts).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.gz"])
def test_a_directory_and_its_file_read_the_same(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, record(0, 4), record(0, 5, value_hex=None), record(2, 0))

    records = list(read_records(tmp_path))

    assert records == [
        TraceRecord(0, 4, 5, b"\x0a\xff"),
        TraceRecord(0, 5, 5, None),
        TraceRecord(2, 0, 5, b"\x0a\xff"),
    ]
    assert list(read_records(path)) == records
    assert records_path(tmp_path) == path


def test_what_a_file_is_shows_in_its_bytes_and_not_in_its_name(tmp_path: Path) -> None:
    zipped = written(tmp_path / "a.gz", record())
    zipped.rename(tmp_path / "zipped.jsonl")

    assert len(list(read_records(tmp_path / "zipped.jsonl"))) == 1


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_missing_trace_is_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match=str(tmp_path / name)):
        read_records(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "a JSON object"),
        ("[1]", "a JSON object"),
        ("", "a JSON object"),
        ("[" * 100_000, "a JSON object"),
        ({"partition": 0, "offset": 1, "timestamp_ms": 5}, "'value_hex'"),
        (record(0, 1, value_hex="0a0"), "pairs of hex digits"),
        (record(0, 1, value_hex="0a 0b"), "pairs of hex digits"),
        (record(0, 1, value_hex="é0"), "pairs of hex digits"),
        (record(0, 1, value_hex=7), "pairs of hex digits"),
        (record(0, True), "'offset' to be a whole number"),
        (record(0, 1.0), "'offset' to be a whole number"),
        (record(0, 2**63), "'offset' to be a whole number"),
        (record(-1, 1), "'partition' to be a whole number"),
        (record(0, 1, timestamp_ms=None), "'timestamp_ms' to be a whole number"),
        (record(0, 0), "every offset once, found 0 of metadata partition 0"),
        (record(0, 3), "expected offset 1 of metadata partition 0, found 3: 2 missing"),
    ],
)
def test_a_damaged_line_is_named_with_what_was_expected(
    tmp_path: Path, line: object, expected: str
) -> None:
    path = written(tmp_path / "records.jsonl", record(), line)

    with pytest.raises(MetadataParseError) as caught:
        list(read_records(path))

    assert f"{path}, line 2: expected " in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            [record(0, 5), record(0, 3)],
            "offsets of metadata partition 0 to rise, found 3 after 5",
        ),
        ([record(1), record(0)], "sorted by metadata partition, found partition 0 after 1"),
    ],
)
def test_records_out_of_order_are_refused(
    tmp_path: Path, lines: list[object], expected: str
) -> None:
    path = written(tmp_path / "records.jsonl", *lines)

    with pytest.raises(MetadataParseError, match=expected):
        list(read_records(path, allow_gaps=True))


@pytest.mark.parametrize("kept", [5, 30, -4])
def test_a_torn_gzip_file_is_refused_after_its_whole_lines(tmp_path: Path, kept: int) -> None:
    path = written(tmp_path / "records.jsonl.gz", *(record(0, one) for one in range(50)))
    path.write_bytes(path.read_bytes()[:kept])

    with pytest.raises(MetadataParseError, match=r"gzip stream|JSON object"):
        list(read_records(path))


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "records.jsonl.gz", record())
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))

    with pytest.raises(MetadataParseError, match="torn or damaged"):
        list(read_records(path))


def test_an_allowed_gap_is_reported_and_does_not_stop_the_reading(tmp_path: Path) -> None:
    path = written(tmp_path / "records.jsonl", record(0, 1), record(0, 4), record(1, 9))
    gaps: list[OffsetGap] = []

    records = list(read_records(path, allow_gaps=True, on_gap=gaps.append))

    assert [one.offset for one in records] == [1, 4, 9]
    assert gaps == [OffsetGap(partition=0, first_offset=2, last_offset=3)]


def test_a_question_keeps_what_it_asks_and_when(tmp_path: Path) -> None:
    path = written(tmp_path / "questions", question({"0": 3, "1": -1}, answer="x"))

    [asked] = read_questions(path)

    assert asked == Question({0: 3, 1: -1}, "t", Uuid.parse(TOPIC_ID), 0, "lookup", 0, 7)


@pytest.mark.parametrize(
    ("outcome", "last"),
    [
        (QueryResult(None), '"answer":null'),
        (QueryResult(["a", "é"]), '"answer":["a","é"]'),
        (
            Failure("RemoteResourceNotFoundException"),
            '"error":"RemoteResourceNotFoundException"',
        ),
    ],
)
def test_an_answer_repeats_its_question_in_the_order_of_its_fields(
    tmp_path: Path, outcome: Outcome, last: str
) -> None:
    asked = {"extra": 1, **question({"1": 2, "0": 4}), "answer": "Kafka's"}
    [read] = read_questions(written(tmp_path / "questions", asked))

    line = answer_line(read, outcome)

    assert line.endswith(f",{last}}}")
    assert list(json.loads(line))[:-1] == list(asked)[:-1]
    [again] = read_answers(written(tmp_path / "answers", line))
    assert (again.question, again.outcome) == (read, outcome)


def test_a_question_made_by_a_program_is_written_like_one_that_was_read(tmp_path: Path) -> None:
    asked = Question({0: 3}, "t", Uuid.parse(TOPIC_ID), 0, "size", epoch=2)

    [read] = read_questions(written(tmp_path / "answers", answer_line(asked, QueryResult(0))))

    assert read == asked


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (question(query="drop"), "'query' to be one of list, "),
        (question(topic_id="short"), "'topic_id' to be 22 characters"),
        (question(epoch=None), "'epoch' to be a whole number"),
        (question(offset="7"), "'offset' to be a whole number"),
        (question(after=[1]), "'after' to be null or an object"),
        (question({"x": 1}), "'after' to be keyed by metadata partition"),
        (question({"0": -2}), "'after' to be last applied offsets"),
        ({"after": None}, "a field 'query'"),
    ],
)
def test_a_line_that_is_no_question_is_named(
    tmp_path: Path, line: object, expected: str
) -> None:
    path = written(tmp_path / "questions", question(), line)

    with pytest.raises(MetadataParseError) as caught:
        list(read_questions(path))

    assert f"{path}, line 2: expected {expected}" in str(caught.value)


def test_questions_are_grouped_by_the_state_they_are_about(tmp_path: Path) -> None:
    steps = [{"0": -1}, {"0": -1}, {"0": 3}, {"0": 3, "1": 0}, None]
    path = written(tmp_path / "questions", *(question(after) for after in steps))

    runs = [(after, len(run)) for after, run in grouped_by_after(read_questions(path))]

    assert runs == [({0: -1}, 2), ({0: 3}, 1), ({0: 3, 1: 0}, 1), (None, 1)]


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ({"0": 3}, {"0": 2}, "metadata partition 0"),
        ({"0": 3, "1": 0}, {"0": 4}, "metadata partition 1"),
        (None, {"0": 9}, "the whole trace"),
    ],
)
def test_questions_that_go_back_are_refused(
    tmp_path: Path, before: dict[str, int], after: dict[str, int], where: str
) -> None:
    path = written(tmp_path / "questions", question(before), question(after))

    with pytest.raises(InvalidArgument, match=where):
        list(grouped_by_after(read_questions(path)))
