"""Replicas answer every question of every recorded trace as their leaders do."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.models.actors.fed_replicas import Connected, FedPartition
from tests.models.events.driven_partition import CLAIM
from tierledger.actors.calls import PartitionKey
from tierledger.actors.feed import source
from tierledger.actors.feed.replica import Replica
from tierledger.conformance.answering import outcome_from_state, partition_of
from tierledger.conformance.answers import (
    AnsweredQuestion,
    Failure,
    Outcome,
    QueryResult,
    Question,
    grouped_by_after,
    read_answers,
    recorded_segment,
)
from tierledger.conformance.loaded_trace import load_trace
from tierledger.conformance.trace import answers_path
from tierledger.conformance.verdicts import check
from tierledger.events import commands as cmd
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.tables.segment_rows import id_of_row

TRACES = Path(__file__).parents[2] / "traces"
HISTORIES = sorted((TRACES / "histories").iterdir())
REPLICAS = 3
RECORDS_PER_BATCH_MAX = 40


def outcome_of(replica: Replica, question: Question) -> Outcome:
    """A replica's answer in the form of an answers file."""
    epoch, offset = question.epoch or 0, question.offset or 0
    try:
        match question.query:
            case "lookup":
                return QueryResult(_text(replica.lookup(epoch, offset)))
            case "next_txn":
                return QueryResult(_text(replica.next_segment_with_txn_index(epoch, offset)))
            case "highest_offset":
                return QueryResult(replica.highest_offset_for_epoch(epoch))
            case "size":
                return QueryResult(replica.remote_log_size(epoch))
            case "list_epoch":
                return QueryResult([_text(row) for row in replica.list_epoch(epoch)])
            case _:
                segments = [recorded_segment(row) for row in replica.list_all()]
                segments.sort(key=lambda one: (one["start_offset"], one["id"]))
                return QueryResult(segments)
    except RemoteStorageError as error:
        return Failure(type(error).__name__)


def _text(row: bytes | None) -> str | None:
    return None if row is None else str(Uuid(id_of_row(row)))


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(path, marks=[pytest.mark.long] if path in HISTORIES[1::2] else [])
        for path in (one.parent for one in sorted(TRACES.rglob("records.jsonl.gz")))
    ],
    ids=lambda path: str(path.relative_to(TRACES)),
)
def test_replicas_answer_a_trace_as_leaders_do(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(str(trace.relative_to(TRACES)))
    monkeypatch.setattr(source, "FRAME_ROWS", random.choice([3, 50, 1000]))
    monkeypatch.setattr(source, "RING_BYTES", random.choice([2_000, 20_000, 1_000_000]))
    loaded = load_trace(trace)
    asked = list(read_answers(answers_path(trace)))
    partitions: dict[TopicIdPartition, FedPartition] = {}
    replicas: dict[TopicIdPartition, list[Connected]] = {}
    for part in loaded.partitions:
        tip = part.topic_id_partition
        partitions[tip] = fed = FedPartition(tip, CLAIM)
        key = PartitionKey.of(tip)
        replicas[tip] = [Connected(fed.feed, key, CLAIM) for _ in range(REPLICAS)]

    ours: list[AnsweredQuestion] = []
    for after, questions in grouped_by_after([one.question for one in asked]):
        for part in loaded.partitions:
            tip, due = part.topic_id_partition, part.due(after)
            part.fed += len(due)
            while due:
                run, due = _cut(due, random)
                partitions[tip].accept(cmd.ImportRecords(CLAIM, tuple(run)))
                random.choice(replicas[tip]).mishap(random)
        prompt = {tip: random.choice(connected) for tip, connected in replicas.items()}
        for question in questions:
            tip = partition_of(question)
            if tip in partitions:
                theirs = outcome_from_state(partitions[tip].state, question)
                replica = prompt[tip].catch_up()
                assert replica.position == partitions[tip].state.next_position - 1
                assert outcome_of(replica, question) == theirs, question
                ours.append(AnsweredQuestion(question, theirs))

    for connected in replicas.values():
        for one in connected:
            one.catch_up()
            assert one.refusals == []
    if len(ours) == len(asked):
        assert check(loaded.raw, asked, ours).passed


def _cut(
    records: list[cmd.ImportedRecord], random: Random
) -> tuple[list[cmd.ImportedRecord], list[cmd.ImportedRecord]]:
    count = random.randrange(1, RECORDS_PER_BATCH_MAX)
    return records[:count], records[count:]
