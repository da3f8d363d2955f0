"""Checkers that need the state at a position: one fold of the log serves them all."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, cast

from tierledger.events import answers, invariants, log_events
from tierledger.events.decide import CUSTOM_METADATA_BYTES_CEILING
from tierledger.events.errors import DataError
from tierledger.events.evolve import evolve_all, started_fields
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition_state import PartitionState
from tierledger.events.segment_rows import (
    BROKER,
    CUSTOM,
    EVENT_TIMESTAMP,
    STATE,
    pack_row,
    unpack_row,
)
from tierledger.simulation.checkers_laws import unlawful_event
from tierledger.simulation.checkers_violation import Violation
from tierledger.simulation.history import OK, READ, WRITE, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tierledger.actors.calls import PartitionKey
    from tierledger.actors.messages import Query
    from tierledger.events.answers import Snapshot
    from tierledger.simulation.final_log import FinalLog
    from tierledger.simulation.history import Operation
    from tierledger.simulation.observations import StateSeen

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


UNFOLDABLE = (DataError, LookupError, ValueError, AssertionError)
"""What `evolve` does with an event that `decide` would not have let through."""


class Checkpoint(NamedTuple):
    """A checkpoint that was seen in the store: the last position it covers, and its digest."""

    position: int
    digest: bytes


def wrong_answer(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """A read, of whomever, was not answered with what the log says at its position."""
    return check_fold(log, reads=reads_of(operations))


def hollow_write(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """A write was acknowledged that appended nothing, and what it asked for is not so."""
    return check_fold(log, writes=writes_without_event(operations, log))


def checkpoint_is_fold(checkpoints: Iterable[Checkpoint], log: FinalLog) -> list[Violation]:
    """A checkpoint's digest is not that of the log up to its position."""
    return check_fold(log, checkpoints=checkpoints)


def replay_determinism(
    states: Iterable[StateSeen], log: FinalLog | None, key: PartitionKey | None = None
) -> list[Violation]:
    """Somebody's state at a position is not the log's, or not everybody's.

    Where the log is unknown, or does not reach, states are held against each other.
    """
    if log is None:
        return _disagreements(states, key)
    return check_fold(log, states=states)


def lifecycle(
    log: FinalLog, *, custom_metadata_bytes_max: int | None = None, every: int = 0
) -> list[Violation]:
    """An event that the rules forbid, or a state that no log should lead to.

    Args:
        log: Recorded history in it is held to no rule, as in `decide`.
        custom_metadata_bytes_max: The limit that leaders were given, none if unknown.
        every: Check the state after so many events, and always at the end.
    """
    unlawful = unlawful_event(log, custom_metadata_bytes_max)
    return unlawful + check_fold(log, every=every, at_end=True)


class _Asked:
    """What is to be judged, by position."""

    def __init__(
        self,
        calls: Iterable[Operation],
        checkpoints: Iterable[Checkpoint],
        states: Iterable[StateSeen],
    ) -> None:
        self.calls: defaultdict[int, list[Operation]] = defaultdict(list)
        self.checkpoints: defaultdict[int, list[Checkpoint]] = defaultdict(list)
        self.states: defaultdict[int, list[StateSeen]] = defaultdict(list)
        for op in calls:
            self.calls[-2 if op.position is None else op.position].append(op)
        for checkpoint in checkpoints:
            self.checkpoints[checkpoint.position].append(checkpoint)
        for seen in states:
            self.states[seen.position].append(seen)


def check_fold(
    log: FinalLog,
    *,
    reads: Sequence[Operation] = (),
    writes: Sequence[Operation] = (),
    checkpoints: Iterable[Checkpoint] = (),
    states: Iterable[StateSeen] = (),
    every: int = 0,
    at_end: bool = False,
) -> list[Violation]:
    """All that is checked against states, in one pass over the log."""
    found: list[Violation] = []
    asked = _Asked((*reads, *writes), checkpoints, states)
    doubted = set(range(every - 1, len(log.events), every)) if every else set()
    if at_end:
        doubted.add(log.end)
    state, end = PartitionState(log.topic_id_partition, log.genesis), log.end
    events, hash_at = log.events, log.chain_hashes.get
    # To the end, whoever asked: a log that does not fold is nobody's to serve.
    positions = sorted({*asked.calls, *asked.checkpoints, *asked.states, *doubted, end})
    for at, position in enumerate(positions):
        if not -1 <= position <= end:
            found += _nowhere(log, position, asked)
            continue
        try:
            first = state.next_position
            if position >= first:
                evolve_all(state, events[first : position + 1], hash_at(position, b""))
        except UNFOLDABLE as error:  # No leader may have appended that.
            found.append(Violation("lifecycle", log.key, f"the log does not fold: {error!r}"))
            unjudged = [one for later in positions[at:] for one in asked.states.get(later, ())]
            return found + _disagreements(unjudged, log.key)
        _judge_at(position, asked, state, log, found)
        if position in doubted:
            found += _judge_state(state, log)
    return found


def _judge_at(
    position: int,
    asked: _Asked,
    state: PartitionState,
    log: FinalLog,
    found: list[Violation],
) -> None:
    for op in asked.calls.get(position, ()):
        if op.kind == READ:
            _judge_read(op, state, log, found)
        elif not _holds_already(op, state):
            found.append(_hollow(op, log))
    if position in asked.checkpoints:
        for checkpoint in asked.checkpoints[position]:
            found += _judge_checkpoint(checkpoint, state, log)
    if position in asked.states:
        found += _judge_states(asked.states[position], state, log)


def _nowhere(log: FinalLog, position: int, asked: _Asked) -> Iterator[Violation]:
    where = f"at position {position}, and the log ends at {log.end}"
    for op in asked.calls.get(position, ()):
        if op.kind == READ:  # Of writes, `lost_write` says so.
            message = f"operation {op.number} ({op.what or op.query}) was answered {where}"
            yield Violation("wrong_answer", log.key, message, (op.number,))
    for _ in asked.checkpoints.get(position, ()):
        yield Violation("checkpoint_is_fold", log.key, f"a checkpoint stands {where}")
    for seen in asked.states.get(position, ()):
        message = f"{seen.role} {seen.node} was {where}"
        yield Violation("replay_determinism", log.key, message)


def reads_of(operations: Sequence[Operation]) -> list[Operation]:
    return [op for op in operations if op.outcome == OK and op.kind == READ]


def writes_without_event(operations: Sequence[Operation], log: FinalLog) -> list[Operation]:
    return [
        op
        for op in operations
        if op.kind == WRITE and op.outcome == OK and op.wanted is not None
        if op.request not in log.requests
    ]


# Reads.


def _judge_read(
    op: Operation, state: PartitionState, log: FinalLog, found: list[Violation]
) -> None:
    query = op.query
    assert query is not None, "checked among the assumptions"
    if state.delete is not None and state.is_finished:
        why = "was answered, and the partition was deleted by then"
    else:
        expected = answer_of(state, query)
        if digest_of(expected, query) == op.value:
            return
        why = f"has another answer than the log, which says {expected!r:.120}"
    message = f"operation {op.number} ({op.what or query}) at position {op.position} {why}"
    found.append(Violation("wrong_answer", log.key, message, (op.number,)))


def answer_of(state: PartitionState, query: Query) -> object:
    """The answer to `query`, made in one go."""
    answer = _ANSWERS.get(query.kind)
    assert answer is not None, f"no query is called {query.kind!r}"
    return answer(state, query)


def _walked(state: PartitionState, query: Query) -> bytes | None:
    offset = query.offset
    while True:
        found = answers.next_segment_with_txn_index(state, query.epoch, offset)
        if not isinstance(found, answers.WalkPaused):
            return found
        offset = found.offset


def _epoch_listed(state: PartitionState, query: Query) -> list[bytes]:
    # Read to its end before the state moves on, so no snapshot is needed.
    rows = answers.list_epoch(cast("Snapshot", state), query.epoch)
    return [row for row in rows if row is not None]


_ANSWERS: dict[str, Callable[[PartitionState, Query], object]] = {
    "lookup": lambda state, query: answers.lookup(state, query.epoch, query.offset),
    "highest_offset": lambda state, q: answers.highest_offset_for_epoch(state, q.epoch),
    "size": lambda state, query: answers.remote_log_size(state, query.epoch),
    "next_txn": _walked,
    "list": lambda state, _: list(state.rows),
    "list_epoch": _epoch_listed,
}


# Writes that appended nothing.


def _hollow(op: Operation, log: FinalLog) -> Violation:
    message = (
        f"operation {op.number} ({op.what or 'a write'}) was acknowledged at position "
        f"{op.position}; its event is nowhere, and what it asked for is not so there"
    )
    return Violation("hollow_write", log.key, message, (op.number,))


def _holds_already(op: Operation, state: PartitionState) -> bool:
    wanted = op.wanted
    if isinstance(wanted, RemotePartitionDeleteMetadata):
        given = (int(wanted.state), wanted.broker_id, wanted.event_timestamp_ms)
        return state.delete == given
    if state.is_finished or wanted is None:
        return False
    if isinstance(wanted, RemoteLogSegmentMetadata):
        body = log_events.added_body(wanted)
        return state.row(body.segment_id) == pack_row(started_fields(body))
    return isinstance(wanted, RemoteLogSegmentMetadataUpdate) and _is_updated(wanted, state)


def _is_updated(wanted: RemoteLogSegmentMetadataUpdate, state: PartitionState) -> bool:
    row = state.row(bytes(wanted.remote_log_segment_id.id))
    if row is None:
        return wanted.state > _FINISHED  # What is gone, or never was, is deleted.
    custom = None if wanted.custom_metadata is None else wanted.custom_metadata.value
    if wanted.state != _FINISHED and len(custom or b"") > CUSTOM_METADATA_BYTES_CEILING:
        custom = None
    fields = unpack_row(row)
    now = (fields[STATE], fields[BROKER], fields[EVENT_TIMESTAMP], fields[CUSTOM])
    return now == (wanted.state, wanted.broker_id, wanted.event_timestamp_ms, custom)


# Checkpoints, states that were seen, and the state itself.


def _judge_checkpoint(
    checkpoint: Checkpoint, state: PartitionState, log: FinalLog
) -> Iterator[Violation]:
    position, digest = checkpoint
    if position >= 0 and position not in log.chain_hashes:
        message = f"a checkpoint stands at {position}, where no batch ends"
        yield Violation("checkpoint_is_fold", log.key, message)
    elif state.digest() != digest:
        message = (
            f"the checkpoint at {position} says {digest.hex()}, the log {state.digest().hex()}"
        )
        yield Violation("checkpoint_is_fold", log.key, message)


def _judge_states(
    seen: Sequence[StateSeen], state: PartitionState, log: FinalLog
) -> Iterator[Violation]:
    """One digest for all who were seen at a position: it costs as much as some events."""
    position = seen[0].position
    if position >= 0 and position not in log.chain_hashes:
        digest, truth = b"", "no batch ends there"
    else:
        digest = state.digest()
        truth = f"the log says {digest.hex()}"
    for one in seen:
        if one.digest != digest:
            who = f"{one.role} {one.node} at position {position}"
            message = f"{who} had the state {one.digest.hex()}, {truth}"
            yield Violation("replay_determinism", log.key, message)


def _disagreements(states: Iterable[StateSeen], key: PartitionKey | None) -> list[Violation]:
    first: dict[int, StateSeen] = {}
    found = []
    for one in states:
        other = first.setdefault(one.position, one)
        if other.digest != one.digest:
            message = (
                f"at position {one.position} {one.role} {one.node} had the state "
                f"{one.digest.hex()}, {other.role} {other.node} {other.digest.hex()}"
            )
            found.append(Violation("replay_determinism", key, message))
    return found


def _judge_state(state: PartitionState, log: FinalLog) -> Iterator[Violation]:
    try:
        invariants.check(state)
    except AssertionError as error:
        message = f"before position {state.next_position}: {error}"
        yield Violation("lifecycle", log.key, message)
