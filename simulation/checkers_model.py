"""A checker of the rules themselves: what the service would answer, against the slow model.

The other checkers fold the log with the service's own `evolve` and ask its own `answers`. The
model shares no line with them; it scans where they search, so it is asked now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.actors.messages import Query
from tierledger.events import log_events
from tierledger.events.evolve import evolve
from tierledger.events.partition_state import PartitionState
from tierledger.events.segment_rows import (
    BROKER,
    CUSTOM,
    EVENT_TIMESTAMP,
    MAX_TIMESTAMP,
    STATE,
    TXN_EMPTY,
    id_of_row,
    unpack_row,
)
from tierledger.simulation.checkers_fold import UNFOLDABLE, answer_of, reads_of
from tierledger.simulation.checkers_violation import Violation
from tierledger.simulation.slow_model import Add, PartitionDelete, SlowPartition, Update

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tierledger.simulation.final_log import FinalLog
    from tierledger.simulation.history import Operation
    from tierledger.simulation.slow_model import Record

ABOUT_OFFSET = (-1, 0, 1)
"""Offsets asked for around each end of a segment."""


def unlike_model(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """The service's rules answer otherwise than the slow model.

    Asked are all questions of the history at their positions, and in the end every question
    that a boundary of a segment suggests.
    """
    asked: dict[int, dict[Query, None]] = {}
    for op in reads_of(operations):
        if op.query is not None and op.position is not None:
            asked.setdefault(op.position, {})[op.query] = None
    state, model = PartitionState(log.topic_id_partition, log.genesis), SlowPartition()
    found: list[Violation] = []
    for position, event in enumerate(log.events):
        try:
            evolve(state, event)
        except UNFOLDABLE:
            return found  # `check_fold` says so.
        record = _record_of(event.body)
        if record is not None and model.apply(record) == "dropped":
            message = f"position {position}: the model drops {type(event.body).__name__}"
            return [*found, Violation("unlike_model", log.key, message)]
        if position == log.end:
            asked[position] = {**asked.get(position, {}), **dict.fromkeys(_questions(model))}
        for query in asked.get(position, ()):
            found += _compared(query, position, state, model, log)
    return found


def _record_of(body: log_events.Body) -> Record | None:
    match body:
        case log_events.SegmentAdded():
            starts, offsets = body.epochs[::2], body.epochs[1::2]
            return Add(
                segment_id=body.segment_id,
                start_offset=body.start_offset,
                end_offset=body.end_offset,
                epochs=dict(zip(starts, offsets, strict=True)),
                size=body.size,
                max_timestamp_ms=body.max_timestamp_ms,
                broker_id=body.broker_id,
                event_timestamp_ms=body.event_timestamp_ms,
                custom_metadata=body.custom_metadata,
                txn_index_empty=body.txn_index_empty,
            )
        case log_events.SegmentUpdated():
            return Update(*body[:5])
        case log_events.PartitionDeleteUpdated():
            return PartitionDelete(*body[:3])
        case _:
            return None


def _questions(model: SlowPartition) -> Iterator[Query]:
    yield Query("list")
    for epoch in model.epochs:
        for kind in ("highest_offset", "size", "list_epoch"):
            yield Query(kind, epoch)
    for segment in model.segments.values():
        for epoch, start in segment.added.epochs.items():
            for end in (start, segment.epoch_end(epoch)):
                for offset in ABOUT_OFFSET:
                    yield Query("lookup", epoch, max(0, end + offset))
            yield Query("next_txn", epoch, start)


def _compared(
    query: Query, position: int, state: PartitionState, model: SlowPartition, log: FinalLog
) -> Iterator[Violation]:
    if state.is_finished or model.deleted:
        agree, said, expected = state.is_finished == model.deleted, "deleted", "not deleted"
    else:
        said, expected = _said_by(state, query), _expected_by(model, query)
        agree = said == expected
    if not agree:
        message = (
            f"{query} at position {position}: {said!r:.120}, the model has {expected!r:.120}"
        )
        yield Violation("unlike_model", log.key, message)


def _said_by(state: PartitionState, query: Query) -> Any:  # noqa: ANN401 - Any answer.
    answer: Any = answer_of(state, query)
    match query.kind:
        case "highest_offset" | "size":
            return answer
        case "list":
            return sorted(_facts_of_row(row) for row in answer)
        case "list_epoch":
            return [id_of_row(row) for row in answer]
        case _:
            return None if answer is None else id_of_row(answer)


def _expected_by(model: SlowPartition, query: Query) -> Any:  # noqa: ANN401 - Any answer.
    match query.kind:
        case "lookup":
            return model.lookup(query.epoch, query.offset)
        case "highest_offset":
            return model.highest(query.epoch)
        case "size":
            return model.size(query.epoch)
        case "next_txn":
            return model.next_txn(query.epoch, query.offset)
        case "list_epoch":
            return model.list_epoch(query.epoch)
        case _:
            return sorted(
                (
                    one.added.segment_id,
                    one.state,
                    one.broker_id,
                    one.event_timestamp_ms,
                    one.custom_metadata or b"",
                    one.added.max_timestamp_ms,
                    one.added.txn_index_empty,
                )
                for one in model.list_all()
            )


def _facts_of_row(row: bytes) -> tuple[Any, ...]:
    fields = unpack_row(row)
    return (
        id_of_row(row),
        fields[STATE],
        fields[BROKER],
        fields[EVENT_TIMESTAMP],
        fields[CUSTOM] or b"",
        fields[MAX_TIMESTAMP],
        fields[TXN_EMPTY],
    )
