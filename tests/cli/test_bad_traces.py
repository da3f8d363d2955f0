"""Damage in a trace: of the file, which stops everything; of a record, which stops nothing."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tests.models.actors.local_world import moved, segment
from tests.models.cli.command_line import invoke, refused
from tests.models.storage.flipped_bits import flipped
from tests.models.storage.written_traces import bent, trace_line, write_trace
from tierledger.conformance.loaded_trace import RECORD_BYTES_MAX, load_trace, runs_by_broker
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import encode
from tierledger.events.kafka.writer import KafkaValue
from tierledger.events.metadata import RemoteLogSegmentMetadataSnapshot

ORDERS = TopicIdPartition(Uuid(b"o" * 16), 0, "orders")
OTHERS = TopicIdPartition(Uuid(b"p" * 16), 0, "others")


def copied(*numbers: int, tip: TopicIdPartition = ORDERS) -> list[KafkaValue]:
    added = [segment(number, tip) for number in numbers]
    return [value for one in added for value in (one, moved(one))]


def replay(trace: Path, *options: str, store: str = "memory:") -> Result:
    return invoke("replay", trace, "--store", store, *options)


def damaged(folder: Path, damage: Callable[[bytes], bytes]) -> Path:
    write_trace(folder, copied(0, 1, 2), "records.jsonl.gz")
    path = folder / "records.jsonl.gz"
    path.write_bytes(damage(path.read_bytes()))
    return folder


def without_line(number: int) -> Callable[[bytes], bytes]:
    return lambda data: relined(data, lambda lines: lines[:number] + lines[number + 1 :])


def with_line_again(number: int) -> Callable[[bytes], bytes]:
    return lambda data: relined(data, lambda lines: lines[: number + 1] + lines[number:])


def relined(data: bytes, change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    return gzip.compress(b"".join(change(gzip.decompress(data).splitlines(keepends=True))))


FILE_DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a record is missing": (without_line(3), "expected offset 3 of metadata partition 0"),
    "a record is there twice": (with_line_again(3), "every offset once, found 3"),
    "the file is cut": (lambda data: data[:-20], "torn or damaged"),
    "a bit is flipped": (lambda data: flipped(data, 40, 8), "line"),
    "nothing is in it": (lambda _: gzip.compress(b""), "expected records, found none"),
}


@pytest.mark.parametrize("what", FILE_DAMAGE)
def test_a_damaged_file_is_refused_before_a_store_is_touched(what: str, tmp_path: Path) -> None:
    damage, message = FILE_DAMAGE[what]
    trace = damaged(tmp_path / "trace", damage)

    refused(replay(trace, store=f"sqlite:{tmp_path / 'store.sqlite'}"), message)

    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_a_gap_can_be_allowed_and_is_counted(tmp_path: Path) -> None:
    trace = damaged(tmp_path / "trace", without_line(3))

    result = replay(trace, "--allow-gaps", "--json")

    summary = json.loads(result.stdout)
    assert (summary["records"], summary["offsets_missing"]) == (5, 1)
    assert result.exit_code == 0


def snapshot() -> RemoteLogSegmentMetadataSnapshot:
    one = segment(1, ORDERS)
    return RemoteLogSegmentMetadataSnapshot(
        segment_id=one.remote_log_segment_id.id,
        start_offset=one.start_offset,
        end_offset=one.end_offset,
        max_timestamp_ms=one.max_timestamp_ms,
        broker_id=one.broker_id,
        event_timestamp_ms=one.event_timestamp_ms,
        segment_size_in_bytes=one.segment_size_in_bytes,
        state=one.state,
        segment_leader_epochs=one.segment_leader_epochs,
    )


BAD_RECORDS: dict[str, tuple[Callable[[], KafkaValue | bytes | None], str]] = {
    "null": (lambda: None, "null"),
    "empty": (lambda: b"", ""),
    "a bit flipped in the frame": (lambda: flipped(encode(segment(1, ORDERS)), 0, 0x80), ""),
    "a bit flipped in the type": (lambda: flipped(encode(segment(1, ORDERS)), 1, 0x80), ""),
    "an unknown version": (lambda: b"\x00\x00\x63" + encode(segment(1, ORDERS))[3:], "version"),
    "cut short": (lambda: encode(segment(1, ORDERS))[:-3], ""),
    "an unknown state": (lambda: bent(moved(segment(1, ORDERS)), state=9), "state"),
    "the end before the start": (lambda: bent(segment(1, ORDERS), end_offset=3), "end"),
    "no leader epochs": (lambda: bent(segment(1, ORDERS), segment_leader_epochs={}), "epoch"),
    "no partition": (snapshot, "names no partition"),
    "too long": (lambda: moved(segment(1, ORDERS), custom=bytes(RECORD_BYTES_MAX)), "bytes"),
}


@pytest.mark.parametrize("what", BAD_RECORDS)
@pytest.mark.parametrize("mode", [[], ["--strict"]], ids=["imported", "strict"])
def test_a_bad_record_is_refused_by_place_and_the_others_go_on(
    what: str, mode: list[str], tmp_path: Path
) -> None:
    make, message = BAD_RECORDS[what]
    records = [*copied(0), make(), *copied(0, tip=OTHERS), *copied(2)]
    trace = write_trace(tmp_path / "trace", records)
    questions, answers = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    asked = [(ORDERS, 5), (ORDERS, 25), (OTHERS, 5)]
    questions.write_text("".join(question(*one) for one in asked))

    result = replay(trace, *mode, "--json", "--answer", str(questions), "--out", str(answers))

    summary = json.loads(result.stdout)
    assert (summary["records"], summary["records_refused"]) == (6, 1)
    (note,) = [line for line in result.stderr.splitlines() if "refused" in line]
    assert "metadata partition 0, offset 2: " in note
    assert message in note
    assert result.exit_code == (1 if mode else 3)
    found = [json.loads(line)["answer"] for line in answers.read_text().splitlines()]
    ids = [segment(number).remote_log_segment_id.id for number in (0, 2, 0)]
    assert found == [str(one) for one in ids]


def question(tip: TopicIdPartition, offset: int) -> str:
    where = {"topic": tip.topic, "topic_id": str(tip.topic_id), "partition": tip.partition}
    return (
        json.dumps({"after": None, **where, "query": "lookup", "epoch": 0, "offset": offset})
        + "\n"
    )


def test_records_with_much_custom_metadata_are_sent_in_small_commands(tmp_path: Path) -> None:
    large = [moved(segment(number, ORDERS), custom=bytes(2**20)) for number in range(9)]
    trace = load_trace(write_trace(tmp_path / "trace", large))

    runs = [len(run) for _, run in runs_by_broker(trace.partitions[0].records)]

    assert runs == [5, 4]


def test_a_trace_of_which_nothing_can_be_read_is_told_so(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace", [None, b"\xff"])

    result = replay(trace, "--churn", "3", "--json")

    assert result.exit_code == 3
    assert json.loads(result.stdout)["records_refused"] == 2


def test_a_question_that_is_none_stops_before_anything_is_replayed(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace", copied(0))
    questions, out = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    questions.write_text(question(ORDERS, 5) + trace_line(0, None))

    result = replay(trace, "--answer", str(questions), "--out", str(out))

    refused(result, "line 2: expected a field 'query'")
    assert not out.exists()
