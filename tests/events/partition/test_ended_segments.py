"""`EndSegments` moves on what no broker moves on, if it still is as it was seen."""

import pytest

from tests.models.events.driven_partition import (
    CLAIM,
    GENESIS,
    TIP,
    DrivenPartition,
    command_of,
)
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidStateTransition
from tierledger.events.event_codec import decode_events
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.events.log_events import Origin
from tierledger.events.partition.invariants import check
from tierledger.events.tables.segment_rows import BROKER, STATE, unpack_row
from tierledger.simulation.checkers.slow.decisions import Facts, Refused, decided
from tierledger.simulation.checkers.slow.model import Add, Update

COPYING, FINISHED, DELETING, DELETED = RemoteLogSegmentState
ORIGIN = Origin(-1, None)
ONE = bytes([1]) * 16


def copying() -> DrivenPartition:
    """A partition in which a copy has begun, and that nobody leads any more."""
    partition = DrivenPartition()
    partition.accept(cmd.OpenSession(CLAIM, 1, None, TIP.topic))
    partition.accept(command_of(Add(ONE, 0, 9, {0: 0}, 100, 5, 1, 5)))
    return partition


def step(partition: DrivenPartition, target: RemoteLogSegmentState) -> cmd.EndSegments:
    return cmd.EndSegments(ORIGIN, target, tuple(partition.state.rows), 77)


def test_a_copy_that_nobody_ends_goes_in_two_steps_without_a_session() -> None:
    partition = copying()
    partition.accept(cmd.CloseSession(CLAIM, "its broker is gone"))
    first = step(partition, DELETING)

    assert len(partition.accept(first, 50).events) == 1
    (row,) = partition.state.rows
    assert (unpack_row(row)[STATE], unpack_row(row)[BROKER]) == (DELETING, -1)
    assert partition.accept(first, 51).events == (), "a repeat after a kill"
    last = step(partition, DELETED)
    partition.accept(last, 52)

    assert list(partition.state.rows) == []
    assert partition.accept(last, 53).events == ()
    check(partition.state)


def test_what_is_finished_is_kept() -> None:
    partition, facts = copying(), Facts(128, 1_000)
    partition.accept(command_of(Update(ONE, FINISHED, 1, 6)))
    for event in decode_events(partition.stored, 0, GENESIS)[0]:
        facts.take(event)
    keep = cmd.Keep(9_000, "nobody needs it")
    command = step(partition, DELETING)._replace(keep=keep, cause=DeletionCause.TOPIC)

    for _ in range(2):
        told = decided(facts, command, 50).events
        assert tuple(told) == partition.accept(command, 50).events
    ((_, kept),) = partition.state.kept.all()
    assert (kept.until_ms, kept.reason, kept.cause) == (9_000, keep.reason, DeletionCause.TOPIC)
    assert list(partition.state.rows) == []
    check(partition.state)


def test_what_has_changed_since_or_is_finished_is_left() -> None:
    partition = copying()
    seen = step(partition, DELETING)
    too_far = partition.refuse(step(partition, DELETED))
    assert isinstance(too_far, InvalidStateTransition)
    partition.accept(command_of(Update(ONE, FINISHED, 1, 6)))

    for command in (seen, step(partition, DELETING), step(partition, DELETED)):
        assert isinstance(partition.refuse(command), InvalidStateTransition)
    (row,) = partition.state.rows
    assert unpack_row(row)[STATE] == FINISHED


def test_the_simulators_slow_rules_end_the_same() -> None:
    partition, facts = copying(), Facts(128, 1_000)
    for event in decode_events(partition.stored, 0, GENESIS)[0]:
        facts.take(event)
    begun = step(partition, DELETING)
    with pytest.raises(Refused, match="InvalidStateTransition"):
        decided(facts, step(partition, DELETED), 50)

    for _ in range(2):
        told = decided(facts, begun, 50).events
        assert tuple(told) == partition.accept(begun, 50).events
    ended = step(partition, DELETED)
    assert tuple(decided(facts, ended, 60).events) == partition.accept(ended, 60).events
    assert ONE in facts.deleted
