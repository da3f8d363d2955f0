"""The one way in which a segment is deleted, from each state and past each failure."""

import pytest

from tests.models.tiering.planned_faults import When
from tests.models.tiering.retention_world import DELETING, FINISHED, STARTED, RetentionWorld
from tierledger.events.errors import Fenced, OutcomeUnknown, StorageUnavailable
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.tiering.deletion.segment_deletion import delete_segment

DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
UPDATE = "update_remote_log_segment_metadata"
DATA = ["delete indexes", "delete log"]


@pytest.mark.parametrize(
    ("state", "calls"),
    [
        (STARTED, [UPDATE, *DATA, UPDATE]),
        (FINISHED, [UPDATE, *DATA, UPDATE]),
        (DELETING, [*DATA, UPDATE]),  # Announced already.
    ],
)
async def test_it_is_announced_removed_and_then_forgotten(
    state: RemoteLogSegmentState, calls: list[str]
) -> None:
    world = RetentionWorld()
    segment = await world.add(0, 9, {0: 0}, state=state, custom=b"here")

    await delete_segment(world.store, world.storage, segment, 1, world.clock)

    assert world.faults.calls == calls
    assert world.left() == []
    assert world.storage.ids == set()


async def test_a_segment_that_is_deleted_already_takes_no_call() -> None:
    world = RetentionWorld()
    segment = await world.add(0, 9, {0: 0}, state=DELETING)
    last = RemoteLogSegmentMetadataUpdate(segment.remote_log_segment_id, 0, DELETED, 1)

    await delete_segment(
        world.store, world.storage, segment.create_with_updates(last), 1, world.clock
    )

    assert world.faults.calls == []


async def test_both_updates_carry_what_the_storage_manager_needs_to_find_it() -> None:
    world = RetentionWorld()
    segment = await world.add(0, 9, {0: 0}, custom=b"here")
    world.store.written.clear()

    await delete_segment(world.store, world.storage, segment, 7, world.clock)

    for one in world.store.written:
        assert isinstance(one, RemoteLogSegmentMetadataUpdate)
        assert one.custom_metadata == CustomMetadata(b"here")
        assert (one.broker_id, one.event_timestamp_ms) == (7, world.clock.now_ms())
    assert world.store.updates() == [DELETING, DELETED]


@pytest.mark.parametrize("is_listed_again", [True, False])
@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("error", [StorageUnavailable("away"), OutcomeUnknown("no answer")])
async def test_past_any_failure_the_same_call_goes_on(
    number: int, when: When, error: Exception, is_listed_again: bool
) -> None:
    world = RetentionWorld()
    segment = await world.add(0, 9, {0: 0}, custom=b"here")
    world.faults.fail_call(number, when, error)

    with pytest.raises(type(error)):
        await delete_segment(world.store, world.storage, segment, 1, world.clock)

    world.check_readable()
    found = world.ledger.segments(segment.topic_id_partition)
    if is_listed_again and found:
        (segment,) = found
        assert segment.custom_metadata == CustomMetadata(b"here")
    await delete_segment(world.store, world.storage, segment, 1, world.clock)
    world.check_agreement()
    assert world.left() == []


async def test_who_leads_no_more_removes_nothing() -> None:
    world = RetentionWorld()
    segment = await world.add(0, 9, {0: 0})
    world.ledger.open_session(segment.topic_id_partition, 2)

    with pytest.raises(Fenced):
        await delete_segment(world.store, world.storage, segment, 1, world.clock)

    world.check_readable()
    assert world.left() == [(0, 9)]
