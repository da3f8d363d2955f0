"""A partition whose deletion is finished holds nothing, whatever is still to be swept."""

from tests.models.storage.stored_partitions import StoredPartition, segment_id, updated
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.log_events import PartitionDeleteUpdated, SegmentKept
from tierledger.storage.partition.verification import verify


async def deleted() -> StoredPartition:
    partition = await StoredPartition.led()
    await partition.fill(range(3))
    await partition.checkpoint()
    for state in RemotePartitionDeleteState:
        await partition.append([PartitionDeleteUpdated(int(state), 1, 0)])
    await partition.checkpoint()
    return partition


async def test_a_finished_partition_loads_with_its_leftovers_and_without() -> None:
    partition = await deleted()
    reader = partition.reader()
    segments = partition.keys.segments(partition.tip)
    assert len(await partition.backend.get_like(segments)) == 3

    before = (await reader.state()).state.digest()
    await reader.checkpoints.sweep()
    after = (await reader.state()).state

    assert after.is_finished
    assert after.digest() == before
    assert reader.notes == []
    assert await partition.backend.get_like(segments) == []
    assert (await verify(reader)).passed


async def test_a_sweep_leaves_the_segments_that_are_kept() -> None:
    partition = await StoredPartition.led()
    await partition.fill(range(2))
    await partition.append([updated(0, 2), SegmentKept(segment_id(0), 9, 1, 1, 5, "undo")])
    for state in RemotePartitionDeleteState:
        await partition.append([PartitionDeleteUpdated(int(state), 1, 0)])
    await partition.checkpoint()
    reader = partition.reader()

    await reader.checkpoints.sweep()

    loaded = (await reader.state()).state
    assert reader.notes == []
    assert [one.reason for _, one in loaded.kept.all()] == ["undo"]
    assert loaded.digest() == partition.state.digest()
    assert (await verify(reader)).passed


async def test_only_a_checkpoint_of_the_finished_deletion_says_that_it_may_be_swept() -> None:
    partition = await StoredPartition.led()
    store, plans = partition.reader().checkpoints, []
    for state in RemotePartitionDeleteState:
        await partition.append([PartitionDeleteUpdated(int(state), 1, 0)])
        plans.append(store.plan(partition.state, partition.next_batch, None))

    assert [plan.is_finished for plan in plans] == [False, False, True]
