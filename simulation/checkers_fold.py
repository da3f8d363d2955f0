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
    from collections.abc import Iterable, Iterator, Sequence

    from tierledger.actors.messages import Query
    from tierledger.events.answers import Snapshot
    from tierledger.simulation.final_log import FinalLog
    from tierledger.simulation.history import Operation

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


class _Fold:
    """The state of a log, brought forward from one position to the next."""

    def __init__(self, log: FinalLog) -> None:
        self.log = log
        self.state = PartitionState(log.topic_id_partition, log.genesis)

    def advance(self, position: int) -> PartitionState:
        """The state right after the event at `position`."""
        state, log = self.state, self.log
        if position >= state.next_position:
            events = log.events[state.next_position : position + 1]
            evolve_all(state, events, log.chain_hashes.get(position, b""))
        return state


def check_fold(
    log: FinalLog,
    *,
    reads: Sequence[Operation] = (),
    writes: Sequence[Operation] = (),
    checkpoints: Iterable[Checkpoint] = (),
    every: int = 0,
    at_end: bool = False,
) -> list[Violation]:
    """All that is checked against states, in one pass over the log."""
    found: list[Violation] = []
    asked: defaultdict[int, list[Operation]] = defaultdict(list)
    kept: defaultdict[int, list[Checkpoint]] = defaultdict(list)
    for op in (*reads, *writes):
        asked[-2 if op.position is None else op.position].append(op)
    for checkpoint in checkpoints:
        kept[checkpoint.position].append(checkpoint)
    doubted = set(range(every - 1, len(log.events), every)) if every else set()
    if at_end:
        doubted.add(log.end)
    fold = _Fold(log)
    for position in sorted({*asked, *kept, *doubted}):
        if not -1 <= position <= log.end:
            found += _nowhere(log, position, asked.get(position, ()), kept.get(position, ()))
            continue
        try:
            state = fold.advance(position)
        except UNFOLDABLE as error:  # No leader may have appended that.
            found.append(Violation("lifecycle", log.key, f"the log does not fold: {error!r}"))
            break
        for op in asked.get(position, ()):
            if op.kind == READ:
                found += _judge_read(op, state, log)
            else:
                found += _judge_write(op, state, log)
        for checkpoint in kept.get(position, ()):
            found += _judge_checkpoint(checkpoint, state, log)
        if position in doubted:
            found += _judge_state(state, log)
    return found


def _nowhere(
    log: FinalLog, position: int, asked: Iterable[Operation], kept: Iterable[Checkpoint]
) -> Iterator[Violation]:
    where = f"at position {position}, and the log ends at {log.end}"
    for op in asked:
        if op.kind == READ:  # Of writes, `lost_write` says so.
            message = f"operation {op.number} ({op.what or op.query}) was answered {where}"
            yield Violation("wrong_answer", log.key, message, (op.number,))
    for _ in kept:
        yield Violation("checkpoint_is_fold", log.key, f"a checkpoint stands {where}")


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


def _judge_read(op: Operation, state: PartitionState, log: FinalLog) -> Iterator[Violation]:
    assert op.query is not None, "checked among the assumptions"
    what = f"operation {op.number} ({op.what or op.query}) at position {op.position}"
    if state.is_finished:
        message = f"{what} was answered, and the partition was deleted by then"
        yield Violation("wrong_answer", log.key, message, (op.number,))
        return
    expected = answer_of(state, op.query)
    if digest_of(expected, op.query) != op.value:
        message = f"{what}: the log says {expected!r:.120}, the answer was another"
        yield Violation("wrong_answer", log.key, message, (op.number,))


def answer_of(state: PartitionState, query: Query) -> object:
    """The answer to `query`, made in one go."""
    match query.kind:
        case "lookup":
            return answers.lookup(state, query.epoch, query.offset)
        case "highest_offset":
            return answers.highest_offset_for_epoch(state, query.epoch)
        case "size":
            return answers.remote_log_size(state, query.epoch)
        case "next_txn":
            return _walked(state, query)
        case "list":
            return list(state.rows)
        case "list_epoch":
            # Read to its end before the state moves on, so no snapshot is needed.
            rows = answers.list_epoch(cast("Snapshot", state), query.epoch)
            return [row for row in rows if row is not None]
        case kind:
            raise AssertionError(f"no query is called {kind!r}")


def _walked(state: PartitionState, query: Query) -> bytes | None:
    offset = query.offset
    while True:
        found = answers.next_segment_with_txn_index(state, query.epoch, offset)
        if not isinstance(found, answers.WalkPaused):
            return found
        offset = found.offset


# Writes that appended nothing.


def _judge_write(op: Operation, state: PartitionState, log: FinalLog) -> Iterator[Violation]:
    if not _holds_already(op, state):
        message = (
            f"operation {op.number} ({op.what or 'a write'}) was acknowledged at position "
            f"{op.position}; its event is nowhere, and what it asked for is not so there"
        )
        yield Violation("hollow_write", log.key, message, (op.number,))


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


# Checkpoints and states.


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


def _judge_state(state: PartitionState, log: FinalLog) -> Iterator[Violation]:
    try:
        invariants.check(state)
    except AssertionError as error:
        message = f"before position {state.next_position}: {error}"
        yield Violation("lifecycle", log.key, message)
