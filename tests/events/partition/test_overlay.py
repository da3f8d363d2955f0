"""Later commands of a batch see the effects of earlier ones before they are stored."""

import pytest

from tests.models.events.driven_partition import (
    CLAIM,
    DrivenPartition,
    command_of,
    import_of,
    open_session,
    opened,
)
from tierledger.events import commands as cmd
from tierledger.events.errors import Fenced, InvalidStateTransition, PartitionDeleted
from tierledger.events.log_events import Origin, TombstonesDropped
from tierledger.events.partition.decide import (
    TOMBSTONES_PER_DROP,
    Accepted,
    Limits,
    Rejected,
    decide,
)
from tierledger.events.partition.overlay import Overlay
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    Record,
    Update,
)

A, B = b"\x01" * 16, b"\x02" * 16
ADD = Add(A, 0, 9, {0: 0})
ADD_B = ADD._replace(segment_id=B)
LIMITS = Limits(tombstone_retention_ms=10)


def deletion(one: bytes) -> list[Record]:
    return [Update(one, DELETE_STARTED), Update(one, DELETE_FINISHED)]


class Batch:
    """Commands decided one after another through one overlay."""

    def __init__(self, partition: DrivenPartition) -> None:
        self.view = Overlay(partition.state)

    def count(self, command: cmd.Command, now_ms: int = 0) -> int:
        """How many events an accepted command leads to."""
        decision = decide(self.view, command, now_ms, LIMITS)
        assert isinstance(decision, Accepted), decision
        return len(decision.events)

    def error(self, command: cmd.Command, now_ms: int = 0) -> type[Exception]:
        decision = decide(self.view, command, now_ms, LIMITS)
        assert isinstance(decision, Rejected), decision
        return type(decision.error)


@pytest.fixture
def buried() -> DrivenPartition:
    """A partition that remembers the deletion of A, at time 0."""
    partition = opened(LIMITS)
    for record in (ADD, *deletion(A)):
        partition.accept(command_of(record))
    return partition


def test_positions_go_on_within_a_batch() -> None:
    view = Overlay(opened().state)

    decisions = [decide(view, command_of(one), 0, LIMITS) for one in (ADD, ADD_B, ADD)]

    assert [one.position for one in decisions if isinstance(one, Accepted)] == [1, 2, 2]


def test_a_request_is_known_before_it_is_stored() -> None:
    batch = Batch(opened())
    add = command_of(ADD, origin=Origin(1, b"r"))

    assert (batch.count(add), batch.count(add)) == (1, 0)


def test_a_segments_whole_life_fits_in_one_batch() -> None:
    batch = Batch(opened())

    counts = [
        batch.count(command_of(record))
        for record in (ADD, Update(A, COPY_FINISHED), *deletion(A))
    ]

    assert counts == [1, 1, 1, 1]
    assert batch.error(command_of(ADD)) is InvalidStateTransition


def test_the_sessions_of_a_batch_fence_each_other() -> None:
    batch = Batch(opened())
    other = cmd.Claim(2, 1, 1)

    assert batch.count(open_session(other, 2)) == 1
    assert batch.error(command_of(ADD)) is Fenced
    assert batch.count(command_of(ADD, other)) == 1
    assert batch.error(open_session(CLAIM._replace(announcement=0), 3)) is Fenced


def test_nothing_follows_the_end_of_a_partition_in_its_batch() -> None:
    batch = Batch(opened())
    for state in range(3):
        batch.count(command_of(PartitionDelete(state)))

    assert batch.error(command_of(ADD)) is PartitionDeleted
    assert batch.error(open_session(CLAIM, 2)) is PartitionDeleted


def test_a_partitions_end_takes_the_tombstones_along(buried: DrivenPartition) -> None:
    batch = Batch(buried)
    for state in range(3):
        batch.count(command_of(PartitionDelete(state)))

    assert batch.count(cmd.DropTombstones(), now_ms=100) == 0


def test_an_offset_is_imported_once_within_a_batch() -> None:
    batch = Batch(opened(imports=True))

    assert (batch.count(import_of([ADD])), batch.count(import_of([ADD]))) == (1, 0)


def test_a_tombstone_that_is_dropped_frees_its_id_at_once(buried: DrivenPartition) -> None:
    batch = Batch(buried)

    assert batch.error(command_of(ADD)) is InvalidStateTransition
    assert batch.count(cmd.DropTombstones(), now_ms=11) == 1
    assert batch.count(cmd.DropTombstones(), now_ms=11) == 0
    assert batch.count(command_of(ADD)) == 1


def test_the_first_tombstone_that_is_kept_keeps_its_id() -> None:
    """The segment right behind the last one that a batch has dropped."""
    partition = opened(LIMITS)
    for record in (ADD, ADD_B, Update(A, DELETE_STARTED), Update(B, DELETE_STARTED)):
        partition.accept(command_of(record))
    for one, now_ms in ((A, 0), (B, 5)):
        partition.accept(command_of(Update(one, DELETE_FINISHED)), now_ms)
    batch = Batch(partition)

    assert batch.count(cmd.DropTombstones(), now_ms=11) == 1

    assert batch.error(command_of(ADD_B)) is InvalidStateTransition
    assert batch.count(command_of(ADD)) == 1


def test_a_deletion_of_the_same_batch_can_expire_in_it(buried: DrivenPartition) -> None:
    batch = Batch(buried)
    for record in (ADD_B, *deletion(B)):
        batch.count(command_of(record), now_ms=5)

    decision = decide(batch.view, cmd.DropTombstones(), 16, LIMITS)

    assert isinstance(decision, Accepted)
    assert decision.events[0].body == (decision.events[0].position, 2)
    assert batch.count(command_of(ADD_B)) == 1


def test_a_batch_goes_on_dropping_where_it_was() -> None:
    partition = opened(LIMITS)
    ids = [at.to_bytes(16, "big") for at in range(TOMBSTONES_PER_DROP + 3)]
    for one in ids:
        for record in (ADD._replace(segment_id=one), *deletion(one)):
            partition.accept(command_of(record))
    batch = Batch(partition)

    decisions = [decide(batch.view, cmd.DropTombstones(), 100, LIMITS) for _ in range(3)]

    events = [event for one in decisions if isinstance(one, Accepted) for event in one.events]
    counts = [event.body.ids for event in events if isinstance(event.body, TombstonesDropped)]
    assert counts == [TOMBSTONES_PER_DROP, 3]


def test_an_id_that_history_brings_back_has_no_tombstone_to_drop(
    buried: DrivenPartition,
) -> None:
    buried.accept(open_session(CLAIM, 2, imports=True))
    batch = Batch(buried)

    assert batch.count(import_of([ADD])) == 1
    assert batch.count(cmd.DropTombstones(), now_ms=100) == 0
    assert batch.count(import_of(deletion(A), first_offset=1)) == 2
    assert batch.count(import_of([ADD], first_offset=3)) == 1
    assert batch.count(cmd.DropTombstones(), now_ms=1_000) == 0


def test_a_batch_takes_off_the_bytes_of_each_deletion_that_were_counted() -> None:
    """Those of a copy that it finishes count once they are stored."""
    partition = opened()
    for stored in (ADD._replace(size=7), Update(A, COPY_FINISHED), ADD_B._replace(size=11)):
        partition.accept(command_of(stored))
    batch = Batch(partition)

    seen = []
    for record in (Update(B, COPY_FINISHED), *deletion(B), *deletion(A), *deletion(A)):
        decide(batch.view, command_of(record), 0, LIMITS)
        seen.append(batch.view.finished_bytes)

    assert seen == [7, 7, 7, 0, 0, 0, 0]
