"""Compares our answers about a trace with Kafka's own, and with the trace's records.

Every answer gets a verdict:

- equal: ours is Kafka's answer;
- recovered: Kafka answers none, or has lost segments from a list, and by the records ours is
  right;
- missed: we answer none, though a finished segment holds the offset; or our list leaves out a
  segment of the epoch;
- wrong: anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from tierledger.conformance.answers import AnsweredQuestion, Failure, Outcome, Question
from tierledger.conformance.recorded_segments import RecordedPartition, RecordedTopic
from tierledger.conformance.trace import TraceRecord

FINDINGS_MAX = 20
"""Most wrong and missed answers that a report shows; one cause often leads to thousands."""

SEGMENT_FIELDS = (
    "state",
    "start_offset",
    "end_offset",
    "size",
    "max_timestamp_ms",
    "broker_id",
    "event_timestamp_ms",
    "custom_metadata_hex",
    "txn_index_empty",
)
NULLABLE_FIELDS = ("custom_metadata_hex",)
"""Fields in which null means that a segment has none; in others, that it was not recorded."""


class Verdict(StrEnum):
    """The verdict on an answer; see the module."""

    EQUAL = "equal"
    RECOVERED = "recovered"
    WRONG = "wrong"
    MISSED = "missed"


class WrongAnswer(NamedTuple):
    """A wrong or missed answer."""

    verdict: Verdict
    question: Question
    kafka: Outcome | None
    ours: Outcome | None
    why: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The number of answers with each verdict, and the first wrong or missed ones."""

    counts: Mapping[Verdict, int]
    questions: int
    answers: int
    findings: tuple[WrongAnswer, ...]

    @property
    def passed(self) -> bool:
        """Whether every question was answered, and no answer is wrong or missed."""
        right = not self.counts[Verdict.WRONG] and not self.counts[Verdict.MISSED]
        return right and self.questions == self.answers and self.questions > 0

    def plain(self) -> dict[str, int]:
        """The number of each verdict, of the questions and of the answers."""
        counts = {verdict.value: self.counts[verdict] for verdict in Verdict}
        return {**counts, "questions": self.questions, "answers": self.answers}

    def summary(self) -> str:
        """One line: the number of each verdict, and of all questions."""
        counts = " ".join(f"{verdict}={self.counts[verdict]}" for verdict in Verdict)
        unanswered = "" if self.questions == self.answers else f", {self.answers} answered"
        return f"{counts} of {self.questions}{unanswered}"


def check(
    records: Iterable[TraceRecord],
    kafka_lines: Iterable[AnsweredQuestion],
    our_lines: Iterable[AnsweredQuestion],
) -> CheckReport:
    """Compare our answers with Kafka's, question by question.

    Args:
        records: The trace. It is searched by brute force, not by the code that answers.
        kafka_lines: Questions with Kafka's answers; their `after` never goes back.
        our_lines: The same questions in the same order, with our answers.

    Raises:
        MetadataParseError: A record is damaged.
    """
    kafka, ours = list(kafka_lines), list(our_lines)
    counts: Counter[Verdict] = Counter(dict.fromkeys(Verdict, 0))
    findings: list[WrongAnswer] = []
    for finding in _verdicts(RecordedTopic(records), kafka, ours):
        counts[finding.verdict] += 1
        if finding.why and len(findings) < FINDINGS_MAX:
            findings.append(finding)
    return CheckReport(counts, len(kafka), len(ours), tuple(findings))


Judged: TypeAlias = tuple[Verdict, str]
EQUAL: Judged = (Verdict.EQUAL, "")
RECOVERED: Judged = (Verdict.RECOVERED, "")


class _Case(NamedTuple):
    """One answer to judge, with Kafka's answer and the records."""

    question: Question
    kafka: Any
    ours: Any
    recorded: RecordedPartition
    kafka_list: list[str] | None
    """Kafka's list of the same epoch at the same time; None if it was not asked for."""


def _verdicts(
    topic: RecordedTopic, kafka: list[AnsweredQuestion], ours: list[AnsweredQuestion]
) -> Iterator[WrongAnswer]:
    pairs = zip(kafka, ours, strict=False)
    for after, run in groupby(pairs, key=lambda pair: pair[0].question.after):
        topic.advance(after)
        at_once = list(run)
        lists = {
            _epoch_of(line.question): _ids(getattr(line.outcome, "value", None))
            for line, _ in at_once
            if line.question.query == "list_epoch"
        }
        for line, our_line in at_once:
            verdict, why = _judge(topic, lists, line, our_line)
            yield WrongAnswer(verdict, line.question, line.outcome, our_line.outcome, why)


def _epoch_of(question: Question) -> tuple[bytes, int, int | None]:
    return question.topic_id, question.partition, question.epoch


def _judge(
    topic: RecordedTopic,
    lists: Mapping[tuple[bytes, int, int | None], list[str] | None],
    kafka: AnsweredQuestion,
    ours: AnsweredQuestion,
) -> Judged:
    question = kafka.question
    if not question.same_as(ours.question):
        return Verdict.WRONG, f"another question was answered: {ours.question}"
    if kafka.outcome is None or ours.outcome is None:
        return Verdict.WRONG, "the line carries no answer"
    if isinstance(kafka.outcome, Failure):
        failed = isinstance(ours.outcome, Failure)
        return EQUAL if failed else (Verdict.WRONG, "Kafka raises an error")
    if isinstance(ours.outcome, Failure):
        return Verdict.WRONG, "we raise an error, Kafka answers"
    case = _Case(
        question=question,
        kafka=kafka.outcome.value,
        ours=ours.outcome.value,
        recorded=topic.partition(question.topic_id, question.partition),
        kafka_list=lists.get(_epoch_of(question)),
    )
    match question.query:
        case "lookup":
            return _judge_lookup(case)
        case "next_txn":
            return _judge_next_txn(case)
        case "list_epoch":
            return _judge_list_epoch(case)
        case "size":
            return _judge_size(case)
        case "list":
            return _judge_list(case)
        case _:
            return _judge_same(case)


def _judge_same(case: _Case) -> Judged:
    # Types are compared, too: `1 == True == 1.0` holds in Python, but not in JSON.
    if type(case.kafka) is type(case.ours) and case.kafka == case.ours:
        return EQUAL
    return Verdict.WRONG, "differs from Kafka's"


def _judge_lookup(case: _Case) -> Judged:
    if case.ours is not None and case.ours == case.kafka:
        return EQUAL
    epoch, offset = _place(case.question)
    holders = case.recorded.finished_at(epoch, offset)
    if case.ours is None and holders:
        return Verdict.MISSED, f"the offset is held by {', '.join(holders)}"
    if case.kafka is None and case.ours in holders:
        return RECOVERED
    if case.kafka is None and case.ours is not None:
        return Verdict.WRONG, "not a finished segment that holds the offset in that epoch"
    return _judge_same(case)


def _judge_next_txn(case: _Case) -> Judged:
    if case.kafka is not None or case.ours is None:
        return _judge_same(case)
    ends = case.recorded.txn_candidates(*_place(case.question))
    if case.ours in sorted(ends):
        return RECOVERED
    return Verdict.WRONG, f"the walk ends at {', '.join(sorted(ends)) or 'none'}"


def _judge_list_epoch(case: _Case) -> Judged:
    kafka, ours = _ids(case.kafka), _ids(case.ours)
    if kafka is None or ours is None:
        return Verdict.WRONG, "not a list of ids"
    of_epoch = case.recorded.of_epoch(_place(case.question)[0])
    absent = of_epoch.difference(ours)
    if absent:
        return Verdict.MISSED, f"{', '.join(sorted(absent))} left out"
    if kafka == ours:
        return EQUAL
    gained = set(ours).difference(kafka)
    if not gained <= of_epoch:
        return Verdict.WRONG, f"{', '.join(sorted(gained - of_epoch))} not in that epoch"
    if not _same_order(kafka, [one for one in ours if one not in gained], case.recorded):
        return Verdict.WRONG, "Kafka's ids are not in Kafka's order, or not once each"
    if len(gained) + len(kafka) != len(ours):
        return Verdict.WRONG, "an id is there twice"
    return RECOVERED if gained else EQUAL


def _same_order(kafka: list[str], ours: list[str], recorded: RecordedPartition) -> bool:
    """Whether both have the same segments, in orders that differ only among equal starts.

    Kafka lists unreferenced segments with equal start offsets in the order of their hashes.
    """
    if sorted(kafka) != sorted(ours):
        return False
    starts = {one: segment.added.start_offset for one, segment in recorded.segments.items()}
    return all(
        theirs == one or (theirs in starts and starts[theirs] == starts.get(one))
        for theirs, one in zip(kafka, ours, strict=True)
    )


def _judge_size(case: _Case) -> Judged:
    numbers = type(case.ours) is int and type(case.kafka) is int
    if not numbers or case.kafka_list is None or case.ours == case.kafka:
        return _judge_same(case)
    lost = case.recorded.of_epoch(_place(case.question)[0]).difference(case.kafka_list)
    expected = case.kafka + case.recorded.sizes(lost)
    if lost and case.ours == expected:
        return RECOVERED
    return Verdict.WRONG, f"expected {expected}, which is Kafka's and {len(lost)} lost segments"


def _judge_list(case: _Case) -> Judged:
    kafka, ours = _by_id(case.kafka), _by_id(case.ours)
    if kafka is None or ours is None:
        return Verdict.WRONG, "not a list of segments, each once"
    if kafka.keys() != ours.keys():
        return Verdict.WRONG, f"ids differ: {', '.join(sorted(kafka.keys() ^ ours.keys()))}"
    for one, theirs in kafka.items():
        for name in SEGMENT_FIELDS:
            recorded = theirs.get(name) is not None or name in NULLABLE_FIELDS
            if recorded and theirs.get(name) != ours[one].get(name):
                return Verdict.WRONG, f"{name} of {one} differs from Kafka's"
    return EQUAL


def _place(question: Question) -> tuple[int, int]:
    """The question's epoch and offset; 0 for one that the query does not take."""
    return question.epoch or 0, question.offset or 0


def _ids(value: object) -> list[str] | None:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return None
    return value


def _by_id(value: object) -> dict[str, dict[str, Any]] | None:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return None
    segments = {str(one.get("id")): one for one in value}
    return segments if len(segments) == len(value) else None
