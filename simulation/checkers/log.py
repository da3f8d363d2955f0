"""Checkers that hold callers' answers against the final log, and the log against itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tierledger.actors.calls import LEADER
from tierledger.events import log_events
from tierledger.events.commands import Claim
from tierledger.events.kafka.codec import KafkaValue
from tierledger.events.log_events import SessionOpened
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.simulation.checkers.content import content
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.calls import FAIL, INFO, OK, WRITE, Operation
from tierledger.simulation.history.final_log import FinalLog

LED = (
    log_events.SegmentAdded,
    log_events.SegmentUpdated,
    log_events.PartitionDeleteUpdated,
    log_events.ImportRecordDropped,
)
"""Events that only an open session may append."""


def lost_write(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """An acknowledged write is not in the log at the position that its answer gave."""
    found = []
    where = log.requests.get
    for op in operations:
        if op.kind != WRITE or op.outcome != OK or op.position is None:
            continue
        found_at = where(op.request)
        if found_at == op.position:
            continue
        if found_at is None and op.position > log.end:
            message = (
                f"{_named(op)} was answered with position {op.position}, and the log ends at "
                f"{log.end}"
            )
        elif found_at is not None:
            message = (
                f"{_named(op)} was answered with position {op.position}, and is at {found_at}"
            )
        else:
            continue
        found.append(Violation("lost_write", log.key, message, (op.number,)))
    return found


def phantom_write(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """The log holds a write that failed, or that nobody asked for."""
    found = []
    asked = {op.request: op for op in operations if op.kind == WRITE}
    for request, position in log.requests.items():
        one = asked.get(request)
        if one is None:
            message = f"position {position} holds request {request.hex()}, which nobody sent"
            found.append(Violation("phantom_write", log.key, message))
        elif one.outcome == FAIL:
            message = f"{_named(one)} failed with {one.error}, and the log has it at {position}"
            found.append(Violation("phantom_write", log.key, message, (one.number,)))
    return found


def duplicate_write(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """A write stands in the log twice, because its repeat was not recognised."""
    numbers = {op.request: op.number for op in operations} if log.repeated else {}
    return [
        Violation(
            "duplicate_write",
            log.key,
            f"request {request.hex()} is at {first} and again at {again}",
            (numbers[request],) if request in numbers else (),
        )
        for request, first, again in log.repeated
    ]


def altered_write(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """The log holds another content under a write's id than what was asked for."""
    found = []
    for op in operations:
        if op.kind != WRITE or op.wanted is None:
            continue
        position = log.requests.get(op.request)
        if position is None:
            continue
        body, wanted = log.events[position].body, op.wanted
        if isinstance(body, log_events.SegmentKept):  # Its custom metadata stays what it was.
            body, wanted = _without_custom(log.events[position - 1].body, wanted)
        if not _is_event_of(body, wanted):
            event = content((body,))
            message = (
                f"{_named(op)} asked for {content((op.wanted,))}; position {position}: {event}"
            )
            found.append(Violation("altered_write", log.key, message, (op.number,)))
    return found


def _without_custom(
    body: log_events.Body, wanted: KafkaValue
) -> tuple[log_events.Body, KafkaValue]:
    if isinstance(body, log_events.SegmentUpdated):
        body = body._replace(custom_metadata=None)
    if isinstance(wanted, RemoteLogSegmentMetadataUpdate):
        wanted = replace(wanted, custom_metadata=None)
    return body, wanted


def _is_event_of(body: log_events.Body, wanted: KafkaValue) -> bool:
    """Whether `body` is the event of `wanted`, compared field by field without `decide`."""
    if isinstance(wanted, RemoteLogSegmentMetadata):
        return isinstance(body, log_events.SegmentAdded) and _is_added(body, wanted)
    if isinstance(wanted, RemotePartitionDeleteMetadata):
        state, time_ms = int(wanted.state), wanted.event_timestamp_ms
        return body == log_events.PartitionDeleteUpdated(state, wanted.broker_id, time_ms)
    if not isinstance(body, log_events.SegmentUpdated):
        return False
    if not isinstance(wanted, RemoteLogSegmentMetadataUpdate):
        return False
    custom = None if wanted.custom_metadata is None else wanted.custom_metadata.value
    kept = body.custom_metadata == custom and body.dropped_bytes == 0
    dropped = body.custom_metadata is None and body.dropped_bytes == len(custom or b"")
    return (
        (kept or dropped)
        and body.segment_id == wanted.remote_log_segment_id.id
        and body.state == wanted.state
        and body.broker_id == wanted.broker_id
        and body.event_timestamp_ms == wanted.event_timestamp_ms
    )


def _is_added(body: log_events.SegmentAdded, wanted: RemoteLogSegmentMetadata) -> bool:
    custom, epochs = wanted.custom_metadata, body.epochs
    return (
        body.segment_id == wanted.remote_log_segment_id.id
        and body.start_offset == wanted.start_offset
        and body.end_offset == wanted.end_offset
        and dict(zip(epochs[::2], epochs[1::2], strict=True)) == wanted.segment_leader_epochs
        and body.size == wanted.segment_size_in_bytes
        and body.max_timestamp_ms == wanted.max_timestamp_ms
        and body.broker_id == wanted.broker_id
        and body.event_timestamp_ms == wanted.event_timestamp_ms
        and body.custom_metadata == (None if custom is None else custom.value)
        and body.txn_index_empty == wanted.txn_index_empty
        and body.source is None
    )


def early_answer(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """A position was answered before it was durable, or was durable before it was asked for."""
    durable_at, found = log.durable_at, []
    if not log.durable_times:
        return []
    where, events = log.requests.get, len(durable_at)
    for op in operations:
        if op.outcome == FAIL:
            continue
        position = op.position
        if op.kind == WRITE and (found_at := where(op.request)) is not None:
            durable = durable_at[found_at]
            if durable is not None and durable < op.invoked:
                message = (
                    f"{_named(op)} began at {ms_text(op.invoked)}, and was durable at "
                    f"{ms_text(durable)}"
                )
                found.append(Violation("early_answer", log.key, message, (op.number,)))
        if op.outcome != OK or position is None or not 0 <= position < events:
            continue
        durable = durable_at[position]
        if durable is not None and op.completed is not None and op.completed < durable:
            message = (
                f"{_named(op)} ended at {ms_text(op.completed)} with position {position}, "
                f"which was durable only at {ms_text(durable)}"
            )
            found.append(Violation("early_answer", log.key, message, (op.number,)))
    return found


def fencing(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """Somebody acted for a partition that another session led.

    Of the log: sessions count up by one, each event is its session's, nothing is written when
    nobody leads, and no older claim or assignment comes back. Of the answers: each write was
    asked for under the claim that leads at its position, and no leader answered from before a
    session that was open already.
    """
    found = [
        Violation("fencing", log.key, message)
        for message in (*_unsound_sessions(log), *_foreign_events(log))
    ]
    opened = [at for at in log.sessions if log.durable_at[at] is not None]
    times = [time for at in opened if (time := log.durable_at[at]) is not None]
    for op in operations:
        outcome, position = op.outcome, op.position
        if outcome == FAIL:
            continue
        if op.kind == WRITE:
            if outcome == INFO:
                position = log.requests.get(op.request)
            if op.claim is not None and position is not None and position <= log.end:
                leads = log.claims[position] if position >= 0 else None
                if leads != op.claim:
                    found.append(_foreign_claim(op, position, leads, log))
        if outcome == INFO or op.stale or op.role != LEADER or position is None:
            continue
        since = bisect_left(times, op.invoked)
        if since and position < opened[since - 1]:
            message = (
                f"{_named(op)} began at {ms_text(op.invoked)} and has position {position}, "
                f"from a leader whose successor's session stood at {opened[since - 1]} since "
                f"{ms_text(times[since - 1])}"
            )
            found.append(Violation("fencing", log.key, message, (op.number,)))
    return found


def _foreign_claim(
    op: Operation, position: int, leads: Claim | None, log: FinalLog
) -> Violation:
    message = (
        f"{_named(op)} under {op.claim} has position {position}, where "
        f"{'nobody' if leads is None else leads} leads"
    )
    return Violation("fencing", log.key, message, (op.number,))


def _unsound_sessions(log: FinalLog) -> Iterator[str]:
    """Sessions that must not have been opened."""
    last: SessionOpened | None = None
    heard: dict[int, tuple[int, int]] = {}
    for at in log.sessions:
        body = log.events[at].body
        assert isinstance(body, log_events.SessionOpened), "the log's index says so"
        number = 1 if last is None else last.number + 1
        if body.number != number:
            yield f"position {at}: expected session {number}, found {body.number}"
        pair = (body.incarnation, body.announcement)
        newest = heard.get(body.broker_id, pair)
        if pair < newest:
            yield f"position {at}: broker {body.broker_id} leads under {pair}, after {newest}"
        heard[body.broker_id] = max(pair, newest)
        if last is not None and log.claims[at - 1] is None and _is_same(last, body):
            yield f"position {at}: the session under {pair} was closed, and opens again"
        if last is not None:
            yield from (f"position {at}: {one}" for one in _rivalry(last, body, at, log))
        last = body


def _is_same(last: SessionOpened, body: SessionOpened) -> bool:
    """Whether two sessions were opened for one announcement."""
    return last[1:4] == body[1:4]


def _rivalry(last: SessionOpened, body: SessionOpened, at: int, log: FinalLog) -> Iterator[str]:
    if body.assignment <= last.assignment:
        yield f"assignment {body.assignment} opened a session after {last.assignment}"
    was_open = at > 0 and log.claims[at - 1] is not None
    ours, theirs = body.leader_epoch, last.leader_epoch
    if not was_open or body.broker_id == last.broker_id or ours is None or theirs is None:
        return
    if ours <= theirs:
        yield f"leader epoch {ours} of broker {body.broker_id} took over from {theirs}"


def _foreign_events(log: FinalLog) -> Iterator[str]:
    """Events of another session than the one they stand in, or of none."""
    session = 0
    for (position, of_session, _, _, _, body), claim in zip(
        log.events, log.claims, strict=True
    ):
        if type(body) is log_events.SessionOpened:
            session = body.number
        if of_session != session:
            yield f"position {position}: an event of session {of_session} in {session}"
        if claim is None and isinstance(body, LED):
            yield f"position {position}: {type(body).__name__} while nobody leads"


def _named(op: Operation) -> str:
    return f"call {op.number} ({op.what or op.kind} by {op.process})"
