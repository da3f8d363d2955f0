"""Checkers of replicas: what they answered, and when, against the log and the slow model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.actors.messages import Query
from tierledger.actors.queries import QUERIES
from tierledger.simulation.checkers.answer_text import difference
from tierledger.simulation.checkers.model import answered_by, record_of
from tierledger.simulation.checkers.slow.model import SlowPartition
from tierledger.simulation.checkers.violation import Violation, bounded, ms_text
from tierledger.simulation.history.final_log import FinalLog

DELETED = "deleted"
"""The answer of a replica whose partition's deletion is finished."""


class ReplicaSeen(NamedTuple):
    """A replica at one position, and what it answered there."""

    time: int
    node: str
    key: PartitionKey
    position: int
    is_whole: bool
    """Whether the replica answers; it does not while it loads a snapshot."""

    answers: tuple[tuple[Query, Any], ...] = ()
    """Per question: a tuple of the answer, `DELETED`, or none if the replica did not know."""


def fed(seen: Sequence[ReplicaSeen], logs: Mapping[PartitionKey, FinalLog]) -> list[Violation]:
    """Violations of replicas: steps back, early and wrong answers; `seen` in order of time."""
    return bounded([*_back(seen), *_early(seen, logs), *_wrong(seen, logs)])


def _back(seen: Sequence[ReplicaSeen]) -> Iterator[Violation]:
    newest: dict[str, int] = {}
    for one in seen:
        if not one.is_whole:
            continue
        if one.position < newest.get(one.node, -1):
            message = f"{_of(one)}, and was at {newest[one.node]} before"
            yield Violation("fed_back", one.key, message)
        newest[one.node] = max(one.position, newest.get(one.node, -1))


def _early(
    seen: Sequence[ReplicaSeen], logs: Mapping[PartitionKey, FinalLog]
) -> Iterator[Violation]:
    for one in seen:
        log = logs.get(one.key)
        if log is not None and one.position >= log.durable_until(one.time):
            durable = log.durable_until(one.time) - 1
            message = f"{_of(one)}, and no more than {durable} was durable"
            yield Violation("fed_early", one.key, message)


def _wrong(
    seen: Sequence[ReplicaSeen], logs: Mapping[PartitionKey, FinalLog]
) -> Iterator[Violation]:
    for key, log in logs.items():
        asked = [one for one in seen if one.key == key and one.answers]
        asked.sort(key=lambda one: one.position, reverse=True)
        model = SlowPartition()
        reported: set[tuple[str, Query]] = set()
        for position, event in enumerate(log.events):
            if not asked:
                break
            record = record_of(event.body)
            if record is not None:
                model.apply(record, position)
            while asked and asked[-1].position <= position:
                yield from _judged(asked.pop(), model, reported)


def _judged(
    one: ReplicaSeen, model: SlowPartition, reported: set[tuple[str, Query]]
) -> Iterator[Violation]:
    """Answers that differ from the model's; each question of a replica is judged once."""
    for query, answer in one.answers:
        expected: Any = DELETED
        if not model.deleted:
            expected = (answered_by(model, query),)
            if not QUERIES[query.kind].is_ordered:
                expected = (sorted(expected[0]),)
        if answer is not None and answer != expected and (one.node, query) not in reported:
            reported.add((one.node, query))
            what = f"{query.kind} of epoch {query.epoch}, offset {query.offset}"
            message = f"{_of(one)}; {what}: {_difference(answer, expected)}"
            yield Violation("fed_wrong", one.key, message)


def _difference(answer: Any, expected: Any) -> str:  # noqa: ANN401 - Any two answers.
    if DELETED in (answer, expected):
        return f"it is {answer!r:.150}, the log says {expected!r:.150}"
    return difference(answer[0], expected[0])


def _of(one: ReplicaSeen) -> str:
    return f"{one.node} was at position {one.position} at {ms_text(one.time)}"
