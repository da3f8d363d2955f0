"""Deleting a partition, forgetting the deleted, and who may write at all.

`DrivenPartition` asserts for each refusal that the state's digest is what it was.
"""

import pytest

from tests.models.events.driven_partition import (
    CLAIM,
    DrivenPartition,
    command_of,
    open_session,
    opened,
)
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import Fenced, InvalidStateTransition, NotLeader, PartitionDeleted
from tierledger.events.partition import answers
from tierledger.events.partition.decide import TOMBSTONES_PER_DROP, Accepted, Limits
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    Record,
    Update,
)

A = b"\x01" * 16
ADD = Add(A, 0, 99, {0: 0}, size=10)
MARKED, STARTED, FINISHED = range(3)


def written(*records: Record) -> DrivenPartition:
    partition = opened()
    for record in records:
        partition.accept(command_of(record))
    return partition


# Deleting the partition.


@pytest.mark.parametrize("target", [MARKED, STARTED, FINISHED])
@pytest.mark.parametrize("passed", [(), (MARKED,), (MARKED, STARTED)])
def test_a_partitions_deletion_goes_step_by_step(passed: tuple[int, ...], target: int) -> None:
    partition = written(ADD, *(PartitionDelete(state, 1, 5) for state in passed))
    legal = target in (len(passed), len(passed) - 1)
    command = command_of(PartitionDelete(target, 1, 6))

    if legal:
        assert len(partition.accept(command).events) == 1
    else:
        assert isinstance(partition.refuse(command), InvalidStateTransition)


@pytest.mark.parametrize("last", [MARKED, STARTED, FINISHED])
def test_an_exact_repeat_of_a_deletions_step_holds_already(last: int) -> None:
    partition = written(*(PartitionDelete(state, 1, 5) for state in range(last + 1)))

    repeated = partition.accept(command_of(PartitionDelete(last, 1, 5)))

    assert repeated == Accepted((), partition.state.next_position - 1)


def test_a_partition_in_deletion_goes_on_working() -> None:
    partition = written(ADD, PartitionDelete(MARKED), PartitionDelete(STARTED))

    partition.accept(command_of(Update(A, COPY_FINISHED)))

    assert answers.lookup(partition.state, 0, 50) is not None


def deleted() -> DrivenPartition:
    steps = (PartitionDelete(state, 1, 5) for state in (MARKED, STARTED, FINISHED))
    return written(ADD, Update(A, COPY_FINISHED), *steps)


def test_a_deleted_partition_holds_nothing_and_takes_nothing() -> None:
    partition = deleted()
    refused = [
        command_of(ADD),
        command_of(Update(A, DELETE_STARTED)),
        command_of(PartitionDelete(FINISHED, 1, 6)),
        command_of(PartitionDelete(MARKED, 1, 5)),
        open_session(cmd.Claim(1, 1, 2), 2),
        open_session(cmd.Claim(2, 1, 1), 3),
    ]

    errors = [partition.refuse(command) for command in refused]

    assert [type(error) for error in errors] == [PartitionDeleted] * len(refused)
    assert answers.lookup(partition.state, 0, 50) is None
    assert len(partition.state.rows) == 0


@pytest.mark.parametrize("closes", [True, False])
def test_whoever_was_elected_since_hears_that_the_partition_is_deleted(closes: bool) -> None:
    partition = deleted()
    if closes:
        partition.accept(cmd.CloseSession(CLAIM, "released"))

    # Not `NotLeader`, which is tried again: it can never lead here.
    write = command_of(Add(b"\x02" * 16, 100, 199, {1: 100}), cmd.Claim(2, 1, 1))

    assert isinstance(partition.refuse(write), PartitionDeleted)


def test_a_deleted_partitions_session_can_still_be_closed() -> None:
    partition = deleted()

    assert len(partition.accept(cmd.CloseSession(CLAIM, "released")).events) == 1


# Tombstones.


def with_tombstones(count: int, retention_ms: int = 100) -> DrivenPartition:
    """`count` segments, deleted one millisecond after another from 1,000 on."""
    partition = opened(Limits(tombstone_retention_ms=retention_ms))
    for at in range(count):
        one = at.to_bytes(16, "big")
        partition.accept(command_of(Add(one, 0, 9, {0: 0})), 1_000 + at)
        for state in (DELETE_STARTED, DELETE_FINISHED):
            partition.accept(command_of(Update(one, state)), 1_000 + at)
    return partition


def test_a_deleted_id_is_remembered_however_much_time_passes() -> None:
    partition = with_tombstones(1)
    add = command_of(Add(bytes(16), 0, 9, {0: 0}))

    error = partition.refuse(add, now_ms=10**12)

    assert isinstance(error, InvalidStateTransition)


def test_tombstones_expire_by_an_event() -> None:
    partition = with_tombstones(3)

    (event,) = partition.accept(cmd.DropTombstones(), now_ms=1_102).events

    assert isinstance(event.body, log.TombstonesDropped)
    assert event.body.ids == 2
    gone = [at.to_bytes(16, "big") in partition.state.tombstones for at in range(3)]
    assert gone == [False, False, True]
    partition.accept(command_of(Add(bytes(16), 0, 9, {0: 0})))


def test_nothing_is_appended_while_no_tombstone_has_expired() -> None:
    for partition in (opened(), with_tombstones(2)):
        assert partition.accept(cmd.DropTombstones(), now_ms=1_100).events == ()


def test_tombstones_are_dropped_in_bounded_steps() -> None:
    partition = with_tombstones(TOMBSTONES_PER_DROP + 3)

    left = []
    for _ in range(3):
        partition.accept(cmd.DropTombstones(), now_ms=10**6)
        left.append(len(partition.state.tombstones))

    assert left == [3, 0, 0]


# Who may write, and when.


def test_nobody_writes_before_a_session_is_open() -> None:
    assert isinstance(DrivenPartition().refuse(command_of(ADD)), NotLeader)


def test_nobody_writes_after_the_session_was_closed() -> None:
    partition = opened()
    partition.accept(cmd.CloseSession(CLAIM, "shutdown"))

    assert isinstance(partition.refuse(command_of(ADD)), NotLeader)


@pytest.mark.parametrize(
    "claim", [CLAIM._replace(**{one: 2}) for one in cmd.Claim._fields], ids=cmd.Claim._fields
)
def test_a_claim_must_match_the_session_in_every_part(claim: cmd.Claim) -> None:
    for record in (ADD, Update(A, DELETE_STARTED), PartitionDelete(MARKED)):
        assert isinstance(opened().refuse(command_of(record, claim)), Fenced)


def test_the_broker_in_the_metadata_is_data_and_no_identity() -> None:
    opened().accept(command_of(ADD._replace(broker_id=99)))


def test_log_time_never_goes_back() -> None:
    partition = opened()

    times = [
        partition.accept(command_of(ADD._replace(segment_id=bytes([at]) * 16)), now).events[0]
        for at, now in enumerate([50, 20, 60])
    ]

    assert [event.log_time_ms for event in times] == [50, 50, 60]


def test_an_event_names_its_session_and_its_origin() -> None:
    partition = opened()

    (event,) = partition.accept(command_of(ADD, origin=log.Origin(8, b"r"))).events

    assert (event.session, event.broker_id, event.request_id) == (1, 8, b"r")
