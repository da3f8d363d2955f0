"""Removal of a whole partition: every state on the way, every failure, nothing orphaned."""

import pytest

from tests.models.tiering.planned_faults import Killed, When
from tests.models.tiering.retention_world import DELETING, STARTED, TIP, RetentionWorld
from tierledger.events.errors import (
    Fenced,
    NotLeader,
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata
from tierledger.tiering.deletion import partition_remover
from tierledger.tiering.deletion.partition_remover import RemovalResult
from tierledger.tiering.metrics.tier_metrics import DELETE_ERRORS, DELETE_REQUESTS, SIZE_BYTES

MARKED, BEGUN, DONE = RemotePartitionDeleteState


async def scene() -> RetentionWorld:
    """A segment in each state, of several epochs."""
    world = RetentionWorld({0: 0, 1: 150}, end=400)
    await world.add(0, 99, {0: 0}, custom=b"where")
    await world.add(100, 199, {0: 100, 1: 150}, state=DELETING, custom=b"there")
    await world.add(200, 299, {1: 200}, state=STARTED)
    await world.add(50, 120, {0: 50})
    return world


async def marked() -> RetentionWorld:
    world = await scene()
    await world.remover().mark(TIP)
    world.faults.restart()
    return world


def states(world: RetentionWorld) -> list[RemotePartitionDeleteState]:
    written = world.store.written
    return [one.state for one in written if isinstance(one, RemotePartitionDeleteMetadata)]


def is_removed(world: RetentionWorld) -> bool:
    world.check_agreement()
    return world.ledger.state(TIP).is_finished and world.left() == []


async def test_a_marked_partition_is_removed_with_all_its_segments() -> None:
    world = await marked()

    result = await world.remover().run_once(TIP)

    assert result == RemovalResult(DONE, deleted=4)
    assert states(world) == [MARKED, BEGUN, DONE]
    assert is_removed(world)
    assert len(world.without_indexes) == 4
    # The storage manager finds the data by its custom metadata, in whatever state it is.
    given = {one.custom_metadata.value for one in world.storage.deleted if one.custom_metadata}
    assert given == {b"where", b"there"}


async def test_a_partition_that_nobody_marked_is_left_alone() -> None:
    world = await scene()

    assert await world.remover().run_once(TIP) == RemovalResult(None)
    assert world.faults.calls == ["partition_summary"]


async def test_a_removed_partition_stays_removed() -> None:
    world = await marked()
    remover = world.remover()
    await remover.run_once(TIP)

    assert await remover.run_once(TIP) == RemovalResult(DONE)
    await remover.mark(TIP)
    assert states(world) == [MARKED, BEGUN, DONE]


async def test_marking_again_changes_nothing() -> None:
    world = await marked()
    remover = world.remover()

    await remover.mark(TIP)
    begun = RemotePartitionDeleteMetadata(TIP, BEGUN, 0, 1)
    await world.store.put_remote_partition_delete_metadata(begun)
    await remover.mark(TIP)

    assert states(world) == [MARKED, BEGUN]


async def test_an_empty_partition_is_removed() -> None:
    world = RetentionWorld()
    remover = world.remover()
    await remover.mark(TIP)

    assert await remover.run_once(TIP) == RemovalResult(DONE)


async def test_a_removal_waits_for_the_copies_of_this_broker() -> None:
    world = await marked()
    copied = world.ledger.segments(TIP)[0].remote_log_segment_id
    world.being_copied = {copied}
    remover = world.remover()

    waits = await remover.run_once(TIP)
    world.being_copied = set()
    goes_on = await remover.run_once(TIP)

    assert waits == RemovalResult(MARKED, waits_for_copy=True)
    assert goes_on == RemovalResult(DONE, deleted=4)


@pytest.mark.parametrize("when", When)
async def test_killed_at_any_step_the_next_process_goes_on(when: When) -> None:
    world = await marked()
    await world.remover().run_once(TIP)
    steps = len(world.faults.calls)

    for number in range(steps):
        world = await marked()
        world.faults.fail_call(number, when, Killed())
        with pytest.raises(Killed):
            await world.remover().run_once(TIP)
        world.check_readable()
        world.faults.restart()

        assert (await world.remover().run_once(TIP)).state == DONE
        assert is_removed(world)


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("error", [StorageUnavailable, OutcomeUnknown, NotLeader])
async def test_failed_anywhere_it_goes_on(when: When, error: type[RemoteStorageError]) -> None:
    world = await marked()
    await world.remover().run_once(TIP)
    steps = len(world.faults.calls)

    for number in range(steps):
        world = await marked()
        remover = world.remover()
        world.faults.fail_call(number, when, error("told so"))
        with pytest.raises(error, match="told so"):
            await remover.run_once(TIP)
        world.check_readable()

        assert (await remover.run_once(TIP)).state == DONE
        assert is_removed(world)


@pytest.mark.parametrize("kind", [StorageUnavailable, PermissionError])
async def test_one_failing_segment_does_not_stop_the_others(kind: type[Exception]) -> None:
    world = await marked()
    remover = world.remover()
    for _ in range(2):
        error = kind("the object is locked")
        world.faults.fail_next("delete log", When.BEFORE, error)

    with pytest.raises(kind, match="locked") as caught:
        await remover.run_once(TIP)

    assert caught.value.__notes__ == [f"{TIP}: 2 segments not deleted, 2 deleted"]
    assert len(world.left()) == 2
    assert states(world) == [MARKED, BEGUN]
    assert world.metrics.value(DELETE_REQUESTS, TIP) == 4
    assert world.metrics.value(DELETE_ERRORS, TIP) == 2
    assert await remover.run_once(TIP) == RemovalResult(DONE, deleted=2)
    assert is_removed(world)


async def test_who_leads_no_more_stops_at_once_and_the_next_leader_goes_on() -> None:
    world = await marked()
    begun = RemotePartitionDeleteMetadata(TIP, BEGUN, 0, 1)
    await world.store.put_remote_partition_delete_metadata(begun)
    remover = world.remover()
    successor = world.ledger.store(TIP, broker_id=2)
    kept = set(world.storage.ids)

    with pytest.raises(Fenced):
        await remover.run_once(TIP)

    assert len(kept - world.storage.ids) <= 1  # What was being deleted may go under any leader.
    assert world.metrics.value(DELETE_REQUESTS, TIP) <= 2
    world.store = successor
    assert (await world.remover().run_once(TIP)).state == DONE
    assert is_removed(world)


async def test_many_segments_go_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_remover, "SEGMENTS_LISTED_MAX", 3)
    world = RetentionWorld(end=1000)
    await world.add_hundreds(*range(0, 800, 100))
    await world.remover().mark(TIP)
    error = StorageUnavailable("the object is locked")
    world.faults.fail_next("delete log", When.BEFORE, error)

    with pytest.raises(StorageUnavailable):
        await world.remover().run_once(TIP)
    assert len(world.left()) == 1

    assert await world.remover().run_once(TIP) == RemovalResult(DONE, deleted=1)
    assert is_removed(world)


async def test_a_late_segment_goes_with_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await marked()
    delete = world.storage.delete_log_segment_data
    late: list[RemoteLogSegmentMetadata] = []

    async def with_another_behind(metadata: RemoteLogSegmentMetadata) -> None:
        await delete(metadata)
        if not late:
            late.append(await world.add(300, 399, {1: 300}, state=STARTED))

    monkeypatch.setattr(world.storage, "delete_log_segment_data", with_another_behind)
    remover = world.remover()

    first = await remover.run_once(TIP)

    assert first == RemovalResult(BEGUN, deleted=4)
    assert world.ledger.segments(TIP) == late
    assert await remover.run_once(TIP) == RemovalResult(DONE, deleted=1)
    assert is_removed(world)


async def test_a_cancelled_removal_goes_on_in_the_next_process() -> None:
    world = await marked()
    remover = world.remover()
    remover.cancel()

    assert await remover.run_once(TIP) == RemovalResult(BEGUN)
    assert len(world.left()) == 4
    assert await world.remover().run_once(TIP) == RemovalResult(DONE, deleted=4)


async def test_a_removed_partition_loses_its_series() -> None:
    world = await marked()
    await world.task().run_once()
    assert world.metrics.value(SIZE_BYTES, TIP) > 0

    await world.remover().run_once(TIP)

    assert world.metrics.value(SIZE_BYTES, TIP) == 0
