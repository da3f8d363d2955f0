"""Files that record what replicas of a trace's partitions were fed, and what they answered.

A gzipped file per trace, of lines. `partition N CLAIM` begins a partition. `fed N HEX` is the
next message of its subscription, a `Fed` of door.proto. `ask N QUERY EPOCH OFFSET = OUTCOME` is
a question at that moment. Replicas in other languages have to give the same answers.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.models.actors.fed_replicas import Connected, FedPartition
from tests.models.events.driven_partition import CLAIM, open_session
from tierledger.actors.calls import PartitionKey
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire.feed import put_frame
from tierledger.actors.door.wire.segments import claim_message
from tierledger.actors.feed import source
from tierledger.actors.feed.frames import Frame
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.conformance.answering import partition_of
from tierledger.conformance.answers import Question, grouped_by_after, read_answers
from tierledger.conformance.loaded_trace import load_trace
from tierledger.conformance.trace import answers_path
from tierledger.events import commands as cmd
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.tables.segment_rows import CUSTOM, id_of_row, unpack_row

RECORDS_PER_BATCH_MAX = 40
ASKED_MEANWHILE = 5
"""Questions after each mishap, of a replica that may be behind or hold half a snapshot."""


class NotingSource:
    """A source that records the frames that it sends."""

    def __init__(self, feed: FeedSource, number: int, lines: list[str]) -> None:
        self._feed, self._number, self._lines = feed, number, lines

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - All else is the source's own.
        return getattr(self._feed, name)

    def take(self, number: int, limit: int) -> list[Frame]:
        frames = self._feed.take(number, limit)
        for frame in frames:
            item = pb.Fed(id=1)
            put_frame(frame, item)
            self._lines.append(f"fed {self._number} {item.SerializeToString().hex()}")
        return frames


def write_vectors(trace: Path, into: Path, random: Random, patch: pytest.MonkeyPatch) -> int:
    """Feed replicas with a trace over connections that break at random, and record it all.

    `patch` makes frames and rings small, so that changes come between slices. Returns the
    number of questions.
    """
    patch.setattr(source, "FRAME_ROWS", random.choice([3, 50]))
    patch.setattr(source, "RING_BYTES", random.choice([2_000, 20_000]))
    lines: list[str] = []
    loaded = load_trace(trace)
    numbers: dict[TopicIdPartition, int] = {}
    partitions: dict[TopicIdPartition, FedPartition] = {}
    replicas: dict[TopicIdPartition, Connected] = {}
    for number, part in enumerate(loaded.partitions):
        tip = part.topic_id_partition
        lines.append(f"partition {number} {claim_message(CLAIM).SerializeToString().hex()}")
        numbers[tip], partitions[tip] = number, FedPartition(tip, None)
        noting = NotingSource(partitions[tip].feed, number, lines)
        key = PartitionKey.of(tip)
        replicas[tip] = Connected(noting, key, CLAIM)  # type: ignore[arg-type] # It does as one.
        replicas[tip].catch_up()  # While the log is still empty.
        partitions[tip].accept(open_session(CLAIM, 1, imports=True))

    def ask(question: Question) -> None:
        tip = partition_of(question)
        outcome = outcome_of(replicas[tip].replica, question)
        asked = f"{question.query} {question.epoch or 0} {question.offset or 0}"
        lines.append(f"ask {numbers[tip]} {asked} = {outcome}")

    questions = [one.question for one in read_answers(answers_path(trace))]
    known = [one for one in questions if partition_of(one) in partitions]
    for after, asked in grouped_by_after(questions):
        for part in loaded.partitions:
            tip, due = part.topic_id_partition, part.due(after)
            part.fed += len(due)
            while due:
                count = random.randrange(1, RECORDS_PER_BATCH_MAX)
                partitions[tip].accept(cmd.ImportRecords(CLAIM, tuple(due[:count])))
                due = due[count:]
                replicas[tip].mishap(random)
                for one in random.choices(known, k=ASKED_MEANWHILE):
                    ask(one)
        for one in asked:
            if partition_of(one) in partitions:
                replicas[partition_of(one)].catch_up()
                ask(one)
    assert all(not one.refusals for one in replicas.values())
    with gzip.GzipFile(into, "wb", mtime=0) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    return sum(line.startswith("ask") for line in lines)


def outcome_of(replica: Replica, question: Question) -> str:
    """A replica's answer as the text in a line of the file."""
    epoch, offset = question.epoch or 0, question.offset or 0
    try:
        match question.query:
            case "lookup":
                return _row(replica.lookup(epoch, offset))
            case "next_txn":
                return _row(replica.next_segment_with_txn_index(epoch, offset))
            case "highest_offset":
                return str(replica.highest_offset_for_epoch(epoch))
            case "size":
                return str(replica.remote_log_size(epoch))
            case "list_epoch":
                return ",".join(id_of_row(row).hex() for row in replica.list_epoch(epoch))
            case _:
                return ";".join(sorted(map(_row, replica.list_all())))
    except RemoteStorageError as error:
        return type(error).__name__


def _row(row: bytes | None) -> str:
    """All fields of a segment that Kafka's object has, as text."""
    if row is None:
        return "None"
    segment_id, state, start, end, epochs, *rest = unpack_row(row)
    custom = rest[CUSTOM - 5]
    rest[CUSTOM - 5] = "None" if custom is None else custom.hex() or "empty"
    begins = "+".join(f"{a}:{b}" for a, b in zip(epochs[::3], epochs[1::3], strict=True))
    *fields, txn_empty, _ = rest
    return "/".join(map(str, (segment_id.hex(), state, start, end, begins, *fields, txn_empty)))
