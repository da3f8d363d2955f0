"""The queries that a partition answers: one table, by `Query.kind`.

Another one needs a line here, its function in `events.partition.answers`, its number in the
door's protocol (`wire/calls.py`), its answer in the simulator's slow model, and a method for
callers. Everything between goes by this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from tierledger.actors.messages import Query
from tierledger.events.errors import InvalidArgument
from tierledger.events.partition import answers
from tierledger.events.partition.answers import Snapshot, WalkPaused
from tierledger.events.partition.state import PartitionState


class AnswerForm(Enum):
    """The form of an answer."""

    NUMBER = "number"
    ROW = "row"
    """A segment's row, or none; it may take a long walk to find it."""
    ROWS = "rows"
    """Rows of segments, in pages."""
    SUMMARY = "summary"


class QueryKind(NamedTuple):
    """One kind of query."""

    method: str
    """The function of `events.partition.answers`, and the method of `Replica`."""
    arguments: tuple[str, ...]
    """What it takes of (epoch, offset), beside the partition."""
    form: AnswerForm
    is_ordered: bool = True
    """Whether its rows have an order; if not, answers are compared without one."""


QUERIES: Mapping[str, QueryKind] = {
    "list": QueryKind("list_all", (), AnswerForm.ROWS, is_ordered=False),
    "list_epoch": QueryKind("list_epoch", ("epoch",), AnswerForm.ROWS),
    "lookup": QueryKind("lookup", ("epoch", "offset"), AnswerForm.ROW),
    "highest_offset": QueryKind("highest_offset_for_epoch", ("epoch",), AnswerForm.NUMBER),
    "size": QueryKind("remote_log_size", ("epoch",), AnswerForm.NUMBER),
    "next_txn": QueryKind("next_segment_with_txn_index", ("epoch", "offset"), AnswerForm.ROW),
    "summary": QueryKind("summary", (), AnswerForm.SUMMARY),
}

LISTS = tuple(name for name, one in QUERIES.items() if one.form is AnswerForm.ROWS)


def kind_of(query: Query) -> QueryKind:
    """The kind of `query`.

    Raises:
        InvalidArgument: There is no such kind.
    """
    known = QUERIES.get(query.kind)
    if known is None:
        raise InvalidArgument(f"expected one of {', '.join(QUERIES)}, got {query.kind!r}")
    return known


def answer_from(answering: object, query: Query, *view: object) -> Any:  # noqa: ANN401
    """The answer of a `Replica`, or of anything with such methods."""
    kind = QUERIES[query.kind]
    return getattr(answering, kind.method)(*view, *query[1 : 1 + len(kind.arguments)])


def asked(view: PartitionState | Snapshot, query: Query) -> Any:  # noqa: ANN401
    """The answer of a state; `WalkPaused`, or rows that are made as they are iterated over."""
    return answer_from(answers, query, view)


def answer_of(view: PartitionState | Snapshot, query: Query) -> Any:  # noqa: ANN401
    """The answer of a state, made in one go: the state must not change meanwhile."""
    while isinstance(found := asked(view, query), WalkPaused):
        query = query._replace(offset=found.offset)
    if QUERIES[query.kind].form is not AnswerForm.ROWS:
        return found
    return [row for row in found if row is not None]
