"""Questions about a trace, and answers to them, one JSON object per line.

Kafka's recorded answers are questions, too: the same lines with `answer` or `error` added. Our
answers are written in the same form, in the order of the questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from tierledger.actors.queries import QUERIES, AnswerForm
from tierledger.conformance.json_lines import INT32_MAX, INT64_MAX, JsonLine, read_json_lines
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.tables.segment_rows import (
    BROKER,
    CUSTOM,
    END,
    EVENT_TIMESTAMP,
    ID,
    MAX_TIMESTAMP,
    SIZE,
    START,
    STATE,
    TXN_EMPTY,
    unpack_row,
)

After: TypeAlias = "Mapping[int, int] | None"
"""Last applied offset by metadata partition; nothing of absent ones is applied. None: all."""

NOT_BEGUN = -1
"""The "last applied offset" of a metadata partition of which nothing is applied."""

ARGUMENTS = {
    name: one.arguments for name, one in QUERIES.items() if one.form is not AnswerForm.SUMMARY
}
"""Every query of Kafka's, and its arguments besides the partition."""


@dataclass(frozen=True, slots=True)
class Question:
    """One query, for the state after the trace was applied up to `after`."""

    after: After
    topic: str
    topic_id: Uuid
    partition: int
    query: str
    epoch: int | None = None
    offset: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The original line's fields, which the answer's line repeats."""

    def same_as(self, other: Question) -> bool:
        """Whether both questions are the same; topics are compared by id, not by name."""
        ours = (self.after, self.topic_id, self.partition, self.query, self.epoch, self.offset)
        theirs = (other.after, other.topic_id, other.partition, other.query, other.epoch)
        return ours == (*theirs, other.offset)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A query's result: JSON's null, number, text or list."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """The name of the error that a query raised."""

    error: str


Outcome: TypeAlias = QueryResult | Failure


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question with its outcome; None if the line has neither answer nor error."""

    question: Question
    outcome: Outcome | None


def read_questions(path: Path) -> Iterator[Question]:
    """The questions of a file in its order; answers in the lines are ignored.

    Raises:
        InvalidArgument: The file cannot be read.
        MetadataParseError: A line is no question.
    """
    return (_question(line) for line in read_json_lines(path))


def read_answers(path: Path) -> Iterator[AnsweredQuestion]:
    """The questions of a file with their outcomes. Raises as `read_questions` does."""
    return (AnsweredQuestion(_question(line), _outcome(line)) for line in read_json_lines(path))


def grouped_by_after(questions: Iterable[Question]) -> Iterator[tuple[After, list[Question]]]:
    """Runs of questions with the same `after`, which never goes back from run to run.

    Raises:
        InvalidArgument: A question's `after` is before that of the question above it; the runs
            before it were yielded.
    """
    before: After = {}
    for number, (after, run) in enumerate(groupby(questions, key=lambda one: one.after)):
        went_back = _first_back(before, after)
        if went_back is not None:
            raise InvalidArgument(
                f"expected 'after' never to go back, but in its run {number + 1} it does, "
                f"in {went_back}: from {_plain(before)} to {_plain(after)}"
            )
        yield after, list(run)
        before = after


def answer_line(question: Question, outcome: Outcome) -> str:
    """The line that answers `question`: its own fields in their order, then the outcome."""
    asked = {name: value for name, value in _fields(question).items() if name not in _OUTCOMES}
    match outcome:
        case QueryResult(value=value):
            asked["answer"] = value
        case Failure(error=error):
            asked["error"] = error
    return json.dumps(asked, separators=(",", ":"), ensure_ascii=False)


def recorded_segment(row: bytes) -> dict[str, Any]:
    """A segment in the form of an answer."""
    fields = unpack_row(row)
    custom = fields[CUSTOM]
    return {
        "id": str(Uuid(fields[ID])),
        "state": RemoteLogSegmentState(fields[STATE]).name,
        "start_offset": fields[START],
        "end_offset": fields[END],
        "size": fields[SIZE],
        "max_timestamp_ms": fields[MAX_TIMESTAMP],
        "broker_id": fields[BROKER],
        "event_timestamp_ms": fields[EVENT_TIMESTAMP],
        "custom_metadata_hex": None if custom is None else custom.hex(),
        "txn_index_empty": fields[TXN_EMPTY],
    }


_OUTCOMES = ("answer", "error")


def _fields(question: Question) -> dict[str, Any]:
    if question.fields:
        return dict(question.fields)
    fields: dict[str, Any] = {
        "after": _plain(question.after),
        "topic": question.topic,
        "topic_id": str(question.topic_id),
        "partition": question.partition,
        "query": question.query,
    }
    for name in ARGUMENTS.get(question.query, ()):
        fields[name] = getattr(question, name)
    return fields


def _plain(after: After) -> dict[str, int] | None:
    return None if after is None else {str(one): after[one] for one in after}


def _first_back(before: After, after: After) -> str | None:
    """The part of `before` that `after` takes back, by name; None if there is none."""
    if after is None:
        return None
    if before is None:
        return "the whole trace"
    for partition, offset in sorted(before.items()):
        if after.get(partition, NOT_BEGUN) < offset:
            return f"metadata partition {partition}"
    return None


def _question(line: JsonLine) -> Question:
    query = line.text("query")
    if query not in ARGUMENTS:
        raise line.wrong("query", f"one of {', '.join(ARGUMENTS)}", query)
    arguments = ARGUMENTS[query]
    return Question(
        after=_after(line),
        topic=line.text("topic"),
        topic_id=_topic_id(line),
        partition=line.integer("partition", low=0, high=INT32_MAX),
        query=query,
        epoch=_argument(line, "epoch", arguments, INT32_MAX),
        offset=_argument(line, "offset", arguments, INT64_MAX),
        fields=line.fields,
    )


def _argument(line: JsonLine, name: str, taken: tuple[str, ...], high: int) -> int | None:
    # Negative is allowed: Kafka answers "none" to an epoch or offset of -1.
    return line.integer(name, low=-high - 1, high=high) if name in taken else None


def _topic_id(line: JsonLine) -> Uuid:
    text = line.text("topic_id")
    try:
        return Uuid.parse(text)
    except InvalidArgument as error:
        raise line.wrong("topic_id", "22 characters of URL-safe base64", text) from error


def _after(line: JsonLine) -> After:
    found = line.field("after")
    if found is None:
        return None
    if not isinstance(found, dict):
        raise line.wrong("after", "null or an object", found)
    return {_metadata_partition(line, key): _applied(line, found[key]) for key in found}


def _metadata_partition(line: JsonLine, key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= len(str(INT32_MAX))):
        raise line.wrong("after", "keyed by metadata partition", key)
    return int(key)


def _applied(line: JsonLine, offset: object) -> int:
    if type(offset) is not int or not NOT_BEGUN <= offset <= INT64_MAX:
        raise line.wrong("after", "last applied offsets from -1 up", offset)
    return offset


def _outcome(line: JsonLine) -> Outcome | None:
    if "error" in line.fields:
        return Failure(line.text("error"))
    if "answer" in line.fields:
        return QueryResult(line.fields["answer"])
    return None
