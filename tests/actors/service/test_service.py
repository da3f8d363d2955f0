"""The thirteen operations through a whole service, on each store; nothing goes wrong here."""

import pytest

from tests.models.actors.local_world import (
    DELETED,
    DELETING,
    FINISHED,
    LocalWorld,
    copy,
    eventually,
    hasty,
    lead,
    listed,
    moved,
    partition,
    segment,
)
from tierledger.events.errors import (
    InvalidStateTransition,
    NotLeader,
    NotReady,
    PartitionDeleted,
    RemoteResourceNotFound,
)
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemotePartitionDeleteMetadata

TIP = partition()


def deletion(state: RemotePartitionDeleteState) -> RemotePartitionDeleteMetadata:
    return RemotePartitionDeleteMetadata(TIP, state, 8, 1)


# The operations.


async def test_a_segment_is_found_from_its_copy_to_its_deletion(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    one, two = segment(0), segment(1)
    positions = [await manager.add_remote_log_segment_metadata(one)]
    assert await manager.remote_log_segment_metadata(TIP, 0, 5) is None
    positions.append(await manager.update_remote_log_segment_metadata(moved(one)))
    positions.append(await copy(manager, two))

    found = await manager.remote_log_segment_metadata(TIP, 0, 15)
    assert found is not None
    assert found.remote_log_segment_id == two.remote_log_segment_id
    assert found.state == FINISHED
    assert await manager.highest_offset_for_epoch(TIP, 0) == 19
    assert await manager.remote_log_size(TIP, 0) == 20
    following = await manager.next_segment_with_txn_index(TIP, 0, 3)
    assert following is not None
    assert following.start_offset == 0
    by_epoch = [found async for found in manager.list_remote_log_segments(TIP, 0)]
    assert [found.start_offset for found in by_epoch] == [0, 10]
    assert await listed(manager) == [0, 1]
    assert await manager.partition_summary(TIP) == ((0, 2, 0), (0, 20, 0), (0,), None)

    positions += [
        await manager.update_remote_log_segment_metadata(moved(one, state))
        for state in (DELETING, DELETED)
    ]
    assert await manager.remote_log_segment_metadata(TIP, 0, 5) is None
    assert await listed(manager) == [1]
    assert positions == sorted(set(positions))


async def test_a_partition_is_deleted_in_three_steps_and_answers_nothing_then(
    world: LocalWorld,
) -> None:
    manager = await world.leader(TIP)
    await copy(manager, segment(0))
    for state in RemotePartitionDeleteState:
        await manager.put_remote_partition_delete_metadata(deletion(state))

    with pytest.raises(PartitionDeleted):
        await manager.remote_log_segment_metadata(TIP, 0, 5)
    with pytest.raises(PartitionDeleted):
        await listed(manager)
    with pytest.raises(PartitionDeleted):
        await manager.add_remote_log_segment_metadata(segment(1))

    await world.service.kill_host("host-0")
    with pytest.raises(RemoteResourceNotFound):
        await manager.remote_log_segment_metadata(TIP, 0, 5)
    last = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
    await manager.put_remote_partition_delete_metadata(deletion(last))


async def test_what_the_lifecycle_refuses_is_refused_by_type(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    one = segment(0)
    await copy(manager, one)

    with pytest.raises(InvalidStateTransition):
        await manager.add_remote_log_segment_metadata(one)
    with pytest.raises(RemoteResourceNotFound):
        await manager.update_remote_log_segment_metadata(moved(segment(9)))
    with pytest.raises(InvalidStateTransition):
        await manager.update_remote_log_segment_metadata(moved(one, DELETED))
    await manager.update_remote_log_segment_metadata(moved(segment(9), DELETING))
    assert await listed(manager) == [0]


# Unknown, not ready, no such segment.


async def test_three_different_answers_to_a_question_without_a_segment(
    world: LocalWorld,
) -> None:
    manager = await world.leader(TIP)
    other = await world.broker(3)

    with pytest.raises(RemoteResourceNotFound):
        await manager.remote_log_segment_metadata(partition(9), 0, 0)
    assert await manager.remote_log_segment_metadata(TIP, 0, 0) is None
    assert await manager.highest_offset_for_epoch(TIP, 4) is None
    assert await manager.remote_log_size(TIP, 4) == 0
    other.observe(TIP, 1000)  # Nobody has got so far.
    await other.on_partition_leadership_changes([], [TIP])
    with hasty(other), pytest.raises(NotReady):
        await other.remote_log_segment_metadata(TIP, 0, 0)


async def test_a_partition_is_ready_once_announced_and_not_before(world: LocalWorld) -> None:
    manager, other = await world.broker(1), await world.broker(2)
    assert not await manager.is_ready(TIP)
    with pytest.raises(NotLeader):
        await manager.add_remote_log_segment_metadata(segment(0))

    await lead(manager, TIP)

    assert await manager.is_ready(TIP)
    assert not await other.is_ready(TIP)
    with pytest.raises(NotLeader):
        await other.add_remote_log_segment_metadata(segment(0))


# Stops.


async def test_a_stop_by_one_broker_is_not_a_stop_by_the_other(world: LocalWorld) -> None:
    leader, follower = await world.leader(TIP), await world.follower(TIP)
    await copy(leader, segment(0))
    await follower.on_stop_partitions([TIP])

    assert await leader.is_ready(TIP)
    follower.observe(TIP, await copy(leader, segment(1)))
    assert await listed(follower) == [0, 1]

    await follower.on_partition_leadership_changes([], [TIP])
    await leader.on_stop_partitions([TIP])
    with pytest.raises(NotLeader):
        await leader.add_remote_log_segment_metadata(segment(2))
    await follower.when_ready([TIP])
    assert await listed(follower) == [0, 1]


async def test_a_released_partition_is_known_and_readable_and_uses_nothing(
    world: LocalWorld,
) -> None:
    manager, other = await world.leader(TIP), await world.broker(2)
    await copy(manager, *map(segment, range(3)))
    await manager.on_stop_partitions([TIP])
    await eventually(world.is_idle)

    assert await listed(other) == [0, 1, 2]
    assert await other.highest_offset_for_epoch(TIP, 0) == 29
    assert await world.is_idle()
    assert type((await world.events(TIP))[-1].body).__name__ == "SessionClosed"
    await lead(manager, TIP)
    await copy(manager, segment(3))
    assert await listed(other) == [0, 1, 2, 3]
