"""Checkers that compare the service's answers with those of the slow model.

The model shares no code with the service: neither its fold nor its tables of legal
transitions. It scans where the service searches, so it is slow: each run asks only some of
the questions that the end of a log suggests, and the log decides which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from tierledger.actors.messages import Query
from tierledger.actors.queries import QUERIES, AnswerForm, answer_of
from tierledger.events import log_events
from tierledger.events.commands import ImportedRecord
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition import state as partition_state
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import (
    BROKER,
    CUSTOM,
    EVENT_TIMESTAMP,
    MAX_TIMESTAMP,
    STATE,
    TXN_EMPTY,
    id_of_row,
    unpack_row,
)
from tierledger.simulation.checkers.answer_text import answer_text, difference, id_text
from tierledger.simulation.checkers.content import content, first_difference
from tierledger.simulation.checkers.fold import folded
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    PARTITION_DELETE_FINISHED,
    Add,
    PartitionDelete,
    Record,
    SlowPartition,
    Update,
)
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import OK, READ, WRITE, Operation, digest_of
from tierledger.simulation.history.final_log import FinalLog

ABOUT_OFFSET = (-1, 0, 1)
"""Offsets asked for around each end of a segment."""

CUSTOM_BYTES_CEILING = 1 << 20
"""Longer custom metadata of a deletion (bytes) is not kept."""

EVERYTHING = 1 << 60
"""More questions than any log suggests: no limit."""


def wrong_answer(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """A read, of whomever, was not answered with what the log says at its position."""
    return by_model(log, reads=reads_of(operations))


def hollow_write(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """A write was acknowledged that appended nothing, and what it asked for is not so."""
    return by_model(log, writes=writes_without_event(operations, log))


def unlike_model(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """The service's rules would answer otherwise than the slow model at the end of the log.

    Asked is every question that a boundary of a segment suggests, and each of the history.
    """
    asked = dict.fromkeys(op.query for op in operations if op.query is not None)
    return by_model(log, state=folded(log), further=list(asked))


def wrong_import(
    log: FinalLog, histories: Mapping[str, Sequence[ImportedRecord]]
) -> list[Violation]:
    """Recorded history was not taken over as Kafka's consumer would have taken it.

    `histories`: the records of each cluster, by their offsets from 0 on. Each becomes one
    event, in their order; one that the model drops is dropped.
    """
    if not any(getattr(event.body, "source", None) for event in log.events):
        return []
    model, cluster, found = SlowPartition(), "", list[Violation]()
    taken: dict[str, int] = {}
    for position, event in enumerate(log.events):
        body = event.body
        if isinstance(body, log_events.SessionOpened):
            cluster = body.import_cluster or ""
        source = getattr(body, "source", None)
        if source is None:
            record = record_of(body)
            if record is not None:
                model.apply(record, position)
            continue
        expected = taken.get(cluster, -1) + 1
        taken[cluster] = source[1]
        if source[1] != expected:
            message = f"position {position}: offset {source[1]} of {cluster!r}, not {expected}"
            return [*found, Violation("wrong_import", log.key, message)]
        given = _record_given(histories[cluster][source[1]])
        is_taken = given is not None and model.apply(given, position) == "applied"
        record = record_of(body)
        if record != (given if is_taken else None):
            message = (
                f"position {position}: offset {source[1]} of {cluster!r} became "
                f"{content((body,))}, the model {'has' if is_taken else 'drops'} "
                f"{content((given,))}"
            )
            found.append(Violation("wrong_import", log.key, message))
    return found


def _record_given(item: ImportedRecord) -> Record | None:
    value = item.record.value
    if isinstance(value, RemoteLogSegmentMetadata):
        return record_of(log_events.added_body(value))
    if isinstance(value, RemoteLogSegmentMetadataUpdate):
        custom = None if value.custom_metadata is None else value.custom_metadata.value
        return Update(
            bytes(value.remote_log_segment_id.id), int(value.state), value.broker_id,
            value.event_timestamp_ms, custom,
        )  # fmt: skip
    return None


def reads_of(operations: Sequence[Operation]) -> list[Operation]:
    return [op for op in operations if op.outcome == OK and op.kind == READ]


def writes_without_event(operations: Sequence[Operation], log: FinalLog) -> list[Operation]:
    return [
        op
        for op in operations
        if op.kind == WRITE and op.outcome == OK and op.wanted is not None
        if op.request not in log.requests
    ]


def by_model(
    log: FinalLog,
    *,
    reads: Sequence[Operation] = (),
    writes: Sequence[Operation] = (),
    state: PartitionState | None = None,
    further: Sequence[Query] = (),
    questions_max: int = EVERYTHING,
    behind: Sequence[log_events.Event] = (),
) -> list[Violation]:
    """Violations that the slow model finds, in one pass over the log.

    Args:
        log: Its events are folded into the model.
        reads: Answered reads; each answer is compared at its position.
        writes: Acknowledged writes that appended nothing.
        state: The service's fold of the log; at the end it is asked what the model is asked.
        further: Questions at the end, beside those that segments' boundaries suggest.
        questions_max: How many questions are asked at the end; the log decides which.
        behind: Events that were decided on behind the log's end; `state` includes them.
    """
    model, found = SlowPartition(), list[Violation]()
    calls: defaultdict[int, list[Operation]] = defaultdict(list)
    for op in (*reads, *writes):
        calls[-2 if op.position is None else op.position].append(op)
    for position, ops in calls.items():
        if not -1 <= position <= log.end:
            found += [_nowhere(op, log) for op in ops if op.kind == READ]
    _judge_at(-1, calls, model, log, found)
    is_sound = True
    for position, event in enumerate((*log.events, *behind)):
        record = record_of(event.body)
        if record is not None and model.apply(record, position) == "dropped" and is_sound:
            is_sound = False  # Later differences would follow from this one.
            message = f"position {position}: the model drops {type(event.body).__name__}"
            found.append(Violation("unlike_model", log.key, message))
        if position in calls:
            _judge_at(position, calls, model, log, found)
    if state is not None and is_sound:
        found += [
            Violation("unlike_model", log.key, one) for one in unlike_log(state, log, behind)
        ]
        for query in _chosen([*further, *_questions(model)], questions_max, log):
            found += _compared(query, log.end + len(behind), state, model, log)
    return found


def unlike_log(
    state: PartitionState, log: FinalLog, behind: Sequence[log_events.Event] = ()
) -> Iterator[str]:
    """Differences between a log and the service's fold of it, segments left aside."""
    events = (*log.events, *behind)
    gathered, tombstones = Gathered(events), state.tombstones
    deleted = {one: tombstones.position_of(one) for one in gathered.deleted}
    log_time = max((one.log_time_ms for one in events), default=0)
    held = [
        ("session", gathered.session, state.session),
        ("newest announcements", gathered.heard, state.heard),
        ("tombstones", gathered.deleted, deleted),
        ("tombstones", len(gathered.deleted), len(tombstones)),
        ("imported offsets", gathered.imported, state.imported),
        ("disputes", gathered.disputes, state.disputes),
        ("log time", log_time, state.log_time_ms),
        ("requests", gathered.requests, {one: state.seen(*one) for one in gathered.requests}),
    ]  # fmt: skip
    for name, expected, found in held:
        if expected != found:
            yield f"at the end its {name} differ: {first_difference(found, expected)}"


class Gathered:
    """Sessions, requests, tombstones and imports of a log, gathered by plain rules."""

    def __init__(self, events: Iterable[log_events.Event]) -> None:
        self.session: tuple[Any, ...] | None = None
        self.heard: dict[int, tuple[int, int]] = {}
        self.deleted: dict[bytes, int] = {}
        self.is_gone = False
        self.imported: dict[tuple[str, int], int] = {}
        self.disputes = 0
        self.requests: dict[tuple[int, bytes], int] = {}
        """The last requests of each broker, whose repeats must be recognised."""
        of_broker: defaultdict[int, list[tuple[bytes, int]]] = defaultdict(list)
        for event in events:
            self._take(event)
            if event.request_id is not None and event.broker_id >= 0:
                made = of_broker[event.broker_id]
                if made and made[-1][0] == event.request_id:
                    made.pop()  # What is kept takes two events.
                made.append((event.request_id, event.position))
        for broker_id, made in of_broker.items():
            for request, position in made[-partition_state.REQUESTS_KEPT :]:
                self.requests[broker_id, request] = position

    def _take(self, event: log_events.Event) -> None:
        body = event.body
        match body:
            case log_events.SessionOpened():
                self.heard[body.broker_id] = (body.incarnation, body.announcement)
                self.session = (
                    body.number, body.broker_id, body.incarnation, body.announcement,
                    body.assignment, body.leader_epoch, body.import_cluster, True,
                )  # fmt: skip
            case log_events.SessionClosed() if self.session is not None:
                if self.session[0] == body.number:
                    self.session = (*self.session[:-1], False)
            case log_events.SessionDisputed():
                self.disputes += 1
            case log_events.SegmentAdded():
                self.deleted.pop(body.segment_id, None)
            case log_events.SegmentUpdated() if body.state == DELETE_FINISHED:
                self.deleted[body.segment_id] = event.position
            case log_events.SegmentPurged() if not self.is_gone:
                self.deleted[body.segment_id] = event.position
            case log_events.PartitionDeleteUpdated() if body.state == PARTITION_DELETE_FINISHED:
                self.is_gone = True
                self.deleted.clear()
            case log_events.TombstonesDropped():
                for segment_id in list(self.deleted)[: body.ids]:
                    del self.deleted[segment_id]
            case _:
                pass
        source = getattr(body, "source", None)
        if source is not None:
            cluster = None if self.session is None else self.session[6]
            self.imported[cluster or "", source[0]] = source[1]


def _chosen(questions: list[Query], most: int, log: FinalLog) -> Iterator[Query]:
    """At most `most` questions, evenly spaced; the log's length decides where they start."""
    step = -(-len(questions) // most) if questions else 1
    return islice(questions, len(log.events) % step, None, step)


def _nowhere(op: Operation, log: FinalLog) -> Violation:
    message = (
        f"call {op.number} ({op.what or op.query}) was answered at position "
        f"{op.position}, and the log ends at {log.end}"
    )
    return Violation("wrong_answer", log.key, message, (op.number,))


def _judge_at(
    position: int,
    calls: dict[int, list[Operation]],
    model: SlowPartition,
    log: FinalLog,
    found: list[Violation],
) -> None:
    for op in calls.get(position, ()):
        if op.kind == READ:
            _judge_read(op, model, log, found)
        elif not _holds_already(op, model):
            message = (
                f"call {op.number} ({op.what or 'a write'}) was acknowledged at position "
                f"{op.position}; its event is nowhere, and what it asked for is not so there: "
                f"{_lacks(op, model)}"
            )
            found.append(Violation("hollow_write", log.key, message, (op.number,)))


def _judge_read(
    op: Operation, model: SlowPartition, log: FinalLog, found: list[Violation]
) -> None:
    query = op.query
    assert query is not None, "checked among the assumptions"
    if model.deleted:
        why = "was answered, and the partition was deleted by then"
    else:
        expected = answered_by(model, query)
        if digest_of(expected, query) == op.value:
            return
        why = _wrong(op, expected)
    message = f"call {op.number} ({op.what or query}) at position {op.position} {why}"
    found.append(Violation("wrong_answer", log.key, message, (op.number,)))


def _wrong(op: Operation, expected: object) -> str:
    """How an answer differs from the model's, if the history holds more than its digest."""
    may_be_none = op.query is not None and op.query.kind != "list"
    is_known = op.answer is not None or may_be_none
    if is_known and digest_of(op.answer, op.query) == op.value:
        return f"is not what the log says: {difference(op.answer, expected)}"
    return f"has another answer than the log, which says {answer_text(expected)}"


def answered_by(model: SlowPartition, query: Query) -> Any:  # noqa: ANN401 - Any answer.
    """The model's answer in the service's form, with the same rows."""
    found = _found_by(model, query)
    match QUERIES[query.kind].form:
        case AnswerForm.ROW:
            return model.row(found)
        case AnswerForm.ROWS:
            return [model.row(one) for one in found]
        case _:
            return found


_FOUND_BY: dict[str, Callable[..., Any]] = {
    "lookup": SlowPartition.lookup,
    "highest_offset": SlowPartition.highest,
    "size": SlowPartition.size,
    "next_txn": SlowPartition.next_txn,
    "list": lambda model: list(model.segments),
    "list_epoch": SlowPartition.list_epoch,
}


def _found_by(model: SlowPartition, query: Query) -> Any:  # noqa: ANN401 - As above.
    """The model's answer: a number, or ids in place of rows."""
    return _FOUND_BY[query.kind](model, *query[1 : 1 + len(QUERIES[query.kind].arguments)])


def _holds_already(op: Operation, model: SlowPartition) -> bool:
    """Whether the model already holds what a write asked for."""
    wanted = op.wanted
    if isinstance(wanted, RemotePartitionDeleteMetadata):
        given = PartitionDelete(int(wanted.state), wanted.broker_id, wanted.event_timestamp_ms)
        return model.delete == given
    if model.deleted or wanted is None:
        return False
    if isinstance(wanted, RemoteLogSegmentMetadata):
        body = log_events.added_body(wanted)
        known = model.segments.get(body.segment_id)
        return known is not None and (known.state, known.added) == (
            COPY_STARTED, record_of(body)
        )  # fmt: skip
    return isinstance(wanted, RemoteLogSegmentMetadataUpdate) and _is_updated(wanted, model)


def _lacks(op: Operation, model: SlowPartition) -> str:
    """How the model differs from what a write asked for."""
    wanted = op.wanted
    if isinstance(wanted, RemotePartitionDeleteMetadata):
        return f"the partition's deletion is {model.delete}"
    if not isinstance(wanted, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate):
        return "nobody knows what it was"
    segment_id = bytes(wanted.remote_log_segment_id.id)
    known = model.segments.get(segment_id)
    if known is None:
        return f"there is no segment {id_text(segment_id)}"
    asked: Any
    there: Any
    if isinstance(wanted, RemoteLogSegmentMetadata):
        asked, there = record_of(log_events.added_body(wanted)), known.added
    else:
        asked = Update(
            segment_id, int(wanted.state), wanted.broker_id, wanted.event_timestamp_ms,
            None if wanted.custom_metadata is None else wanted.custom_metadata.value,
        )  # fmt: skip
        there = asked._replace(
            state=known.state, broker_id=known.broker_id,
            event_timestamp_ms=known.event_timestamp_ms,
            custom_metadata=known.custom_metadata,
        )  # fmt: skip
    pairs = zip(asked._fields, there, asked, strict=True)
    changed = [f"{name} {one!r} and not {two!r}" for name, one, two in pairs if one != two]
    state = "" if changed else f"state {known.state}"
    return f"segment {id_text(segment_id)} has {', '.join(changed)}{state}"


def _is_updated(wanted: RemoteLogSegmentMetadataUpdate, model: SlowPartition) -> bool:
    known = model.segments.get(bytes(wanted.remote_log_segment_id.id))
    if known is None:
        return wanted.state > COPY_FINISHED  # A segment that is not there is deleted.
    custom = None if wanted.custom_metadata is None else wanted.custom_metadata.value
    if wanted.state != COPY_FINISHED and len(custom or b"") > CUSTOM_BYTES_CEILING:
        custom = None
    now = (known.state, known.broker_id, known.event_timestamp_ms, known.custom_metadata)
    return now == (wanted.state, wanted.broker_id, wanted.event_timestamp_ms, custom)


def record_of(body: log_events.Body) -> Record | None:
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
        case log_events.SegmentKept():
            return Update(
                body.segment_id, DELETE_FINISHED, body.broker_id, body.event_timestamp_ms
            )
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
        agree, found, expected = state.is_finished == model.deleted, "deleted", "not deleted"
    else:
        found, expected = _found_in(state, query), _expected_by(model, query)
        agree = found == expected
    if not agree:
        message = (
            f"{query.kind} of epoch {query.epoch}, offset {query.offset}, at position "
            f"{position}: {_ids_text(found):.150}, the model has {_ids_text(expected):.150}"
        )
        yield Violation("unlike_model", log.key, message)


def _ids_text(value: object) -> str:
    """An answer as text, with ids shortened."""
    if isinstance(value, bytes):
        return id_text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_ids_text, value))}]"
    return repr(value)


def _found_in(state: PartitionState, query: Query) -> Any:  # noqa: ANN401 - Any answer.
    answer: Any = answer_of(state, query)
    match QUERIES[query.kind].form:
        case AnswerForm.ROWS if not QUERIES[query.kind].is_ordered:
            return sorted(_facts_of_row(row) for row in answer)
        case AnswerForm.ROWS:
            return [id_of_row(row) for row in answer]
        case AnswerForm.ROW:
            return None if answer is None else id_of_row(answer)
        case _:
            return answer


def _expected_by(model: SlowPartition, query: Query) -> Any:  # noqa: ANN401 - Any answer.
    if QUERIES[query.kind].is_ordered:
        return _found_by(model, query)
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
