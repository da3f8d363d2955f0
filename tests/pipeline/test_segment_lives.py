"""The states of segments, followed event by event."""

from collections.abc import Collection

from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.log_events import (
    Body,
    Event,
    PartitionDeleteUpdated,
    SegmentAdded,
    SegmentUpdated,
)
from tierledger.events.partition.evolve import evolve
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.segment_lives import (
    COPYING,
    DELETED,
    DELETING,
    FINISHED,
    Passage,
    SegmentLives,
)

ONE, OTHER = bytes(16), b"1" * 16


def added(segment_id: bytes) -> SegmentAdded:
    start = 10 * segment_id[0]
    return SegmentAdded(segment_id, start, start + 9, (0, start), 1, 0, 7, 0, None, True)


def updated(segment_id: bytes, state: int, broker_id: int = 8) -> SegmentUpdated:
    return SegmentUpdated(segment_id, state, broker_id, 0, None)


GONE = PartitionDeleteUpdated(int(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED), 9, 0)


def lived(
    *bodies: Body, followed: Collection[int] | None = None, unseen: int = 0
) -> tuple[SegmentLives, list[Passage]]:
    """What is known after the events, the first of them `unseen`; what the last one did."""
    lives = SegmentLives(followed)
    passages: list[Passage] = []
    state = PartitionState(TopicIdPartition(Uuid(ONE), 0, "orders"), b"")
    for position, body in enumerate(bodies):
        event = Event(position, 0, 1_000 * position, 7, None, body)
        if position >= unseen:
            passages = lives.note(state, event)
        evolve(state, event)
    return lives, passages


def test_a_state_lasts_from_its_first_event_however_often_it_is_repeated() -> None:
    lives, [passage] = lived(
        added(ONE), updated(ONE, FINISHED), updated(ONE, FINISHED, broker_id=9)
    )

    assert lives.stays[ONE] == (FINISHED, 1, 1_000, 8, 1)
    assert passage.left is not None
    assert passage.left.state == FINISHED
    assert passage.left.repeats == 0


def test_a_deleted_segment_is_gone_and_one_added_again_begins_anew() -> None:
    deleted = (added(ONE), updated(ONE, FINISHED), updated(ONE, DELETING))

    lives, [passage] = lived(*deleted, updated(ONE, DELETED))
    again, _ = lived(*deleted, updated(ONE, DELETED), added(ONE))

    assert not lives.stays
    assert passage.left is not None
    assert (passage.left.state, passage.entered) == (DELETING, None)
    assert again.stays[ONE].position == 4


def test_a_partition_takes_its_segments_along_also_those_of_a_forgotten_beginning() -> None:
    lives, passages = lived(added(ONE), added(OTHER), GONE, unseen=1)

    assert not lives.stays
    assert lives.deletion is not None
    assert lives.deletion.broker_id == 9
    assert {one.segment_id: one.left and one.left.position for one in passages} == {
        ONE: None,
        OTHER: 1,
    }
    assert all(one.entered is None for one in passages)


def test_only_the_states_that_are_asked_for_are_kept() -> None:
    lives, _ = lived(added(ONE), added(OTHER), updated(OTHER, FINISHED), followed=[COPYING])

    assert list(lives.stays) == [ONE]
