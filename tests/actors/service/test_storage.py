"""A whole service whose store fails: typed answers, no guesses, and nothing lost."""

import asyncio
from pathlib import Path

import pytest

from tests.models.actors.harness import kinds
from tests.models.actors.local_world import (
    KEYS,
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
from tests.models.cli.command_line import run
from tests.models.storage.faulty_store import Faults
from tests.models.storage.flipped_bits import flipped
from tierledger.actors.calls import FOLLOWER, PartitionsCall
from tierledger.actors.messages import Query
from tierledger.events.errors import (
    CorruptLog,
    NotReady,
    OutcomeUnknown,
    StorageUnavailable,
    StoreRefused,
)

TIP, OTHER = partition(), partition(1)


# A store that is busy.


async def writes_behind_a_commit(shared: LocalWorld, faults: Faults) -> list[asyncio.Task[int]]:
    """Writes to `TIP` that have come while a commit of `OTHER` is held, which is the first."""
    manager = await shared.leader(TIP, OTHER)
    host = shared.service.host("host-0")
    faults.freeze()
    commits = host.host.committer.commits
    first = manager.add_remote_log_segment_metadata(segment(0, tip=OTHER))
    tasks = [asyncio.ensure_future(first)]
    await eventually(lambda: host.host.committer.commits > commits)
    for number in range(5):
        add = manager.add_remote_log_segment_metadata(segment(number))
        tasks.append(asyncio.ensure_future(add))

    async def have_come() -> bool:
        partitions = {one["partition"]: one for one in await host.ask(PartitionsCall())}
        return bool(partitions[TIP.partition]["waiting"] == 5)

    await eventually(have_come)
    return tasks


async def test_what_comes_during_a_commit_is_one_batch_of_the_next(
    shared: LocalWorld, faults: Faults
) -> None:
    writes = await writes_behind_a_commit(shared, faults)
    committer = shared.service.host("host-0").host.committer
    batches, commits = committer.batches, committer.commits
    faults.thaw()

    _, *positions = await asyncio.gather(*writes)

    assert positions == list(range(positions[0], positions[0] + 5))
    assert (committer.batches, committer.commits) == (batches + 1, commits + 1)


# A store that fails.


async def test_a_store_that_refuses_writes_answers_by_type_and_loses_nothing(
    shared: LocalWorld, faults: Faults
) -> None:
    manager = await shared.leader(TIP)
    await copy(manager, segment(0))
    faults.refuse_writes = StorageUnavailable("the disk is full")

    with hasty(manager), pytest.raises(StorageUnavailable):
        await manager.add_remote_log_segment_metadata(segment(1))
    assert await listed(manager) == [0]

    faults.refuse_writes = StoreRefused("opened for reading only")
    with pytest.raises(StoreRefused):
        await manager.add_remote_log_segment_metadata(segment(1))

    faults.refuse_writes = None
    await copy(manager, segment(1))
    assert await listed(manager) == [0, 1]


async def test_a_store_that_is_away_for_reading_answers_nothing_old(
    shared: LocalWorld, faults: Faults
) -> None:
    manager = await shared.leader(TIP)
    await copy(manager, segment(0))
    faults.refuse_reads = StorageUnavailable("away")

    with hasty(manager), pytest.raises(StorageUnavailable):
        await manager.highest_offset_for_epoch(TIP, 0)
    faults.refuse_reads = None
    assert await manager.highest_offset_for_epoch(TIP, 0) == 9


async def test_a_lost_answer_is_looked_up_and_nothing_happens_twice(
    shared: LocalWorld, faults: Faults
) -> None:
    manager = await shared.leader(TIP)
    for number in range(5):
        faults.replies_to_lose = 2
        await copy(manager, segment(number))

    assert await listed(manager) == list(range(5))
    assert kinds(await shared.events(TIP)).count("SegmentAdded") == 5


async def test_a_store_that_hangs_leaves_a_write_unknown_and_a_read_unready(
    shared: LocalWorld, faults: Faults
) -> None:
    manager = await shared.leader(TIP)
    faults.freeze()
    with hasty(manager), pytest.raises(OutcomeUnknown):
        await manager.add_remote_log_segment_metadata(segment(0))
    with hasty(manager), pytest.raises(NotReady):
        await manager.remote_log_size(TIP, 0)
    faults.thaw()

    await manager.update_remote_log_segment_metadata(moved(segment(0)))
    assert await listed(manager) == [0]


async def test_a_write_that_may_have_happened_is_never_called_refused(
    shared: LocalWorld, faults: Faults
) -> None:
    manager = await shared.leader(TIP)
    faults.freeze()
    with hasty(manager):
        write = asyncio.ensure_future(manager.add_remote_log_segment_metadata(segment(0)))
        await eventually(lambda: faults.held > 0)
    await shared.service.kill_host("host-0")

    with pytest.raises(OutcomeUnknown):
        await write
    faults.thaw()


async def test_a_start_that_is_cancelled_leaves_the_store_closed_and_can_be_repeated(
    shared: LocalWorld, faults: Faults
) -> None:
    await shared.stop()
    faults.freeze()
    starting = asyncio.create_task(shared.start())
    await eventually(lambda: faults.held > 0)
    starting.cancel()
    faults.thaw()
    await asyncio.wait([starting])
    assert (starting.cancelled(), faults.open) == (True, 0)

    await shared.service.start()

    await copy(await shared.leader(TIP), segment(0))


async def test_a_coordinator_outlives_a_store_that_is_away(
    shared: LocalWorld, faults: Faults
) -> None:
    manager = await shared.leader(TIP)
    other = await shared.broker(2)
    faults.refuse_writes = faults.refuse_reads = StorageUnavailable("away")
    await shared.service.kill_host("host-0")
    # Unknown, if it was on its way to the host that died. By a door it is not ready: no host is
    # started before the store can be compared with what was seen of it.
    with hasty(other), pytest.raises((StorageUnavailable, OutcomeUnknown, NotReady)):
        await other.on_partition_leadership_changes([partition(1)], [])
    faults.refuse_writes = faults.refuse_reads = None

    await manager.when_ready([TIP])
    await copy(manager, segment(0))
    await lead(other, partition(1))


async def test_a_follower_serves_on_while_the_store_is_away_and_catches_up_then(
    shared: LocalWorld, faults: Faults
) -> None:
    leader, follower = await shared.leader(TIP), await shared.follower(TIP)
    follower.observe(TIP, await copy(leader, segment(0)))
    assert await listed(follower) == [0]
    faults.refuse_reads = StorageUnavailable("away")
    answered = await follower.ask(TIP, FOLLOWER, Query("highest_offset"))
    assert answered.value == 9
    faults.refuse_reads = None

    follower.observe(TIP, await copy(leader, segment(1)))
    assert await listed(follower) == [0, 1]


@pytest.mark.parametrize("batch", [0, 2])
async def test_a_damaged_log_of_the_coordinator_is_named_by_verify_and_at_the_start(
    tmp_path: Path, batch: int
) -> None:
    path = tmp_path / "store.sqlite"
    world = LocalWorld({"metadata.storage.url": f"sqlite:{path}"})
    await world.start()
    await copy(await world.leader(TIP), segment(0))
    await world.stop()
    whole = await asyncio.to_thread(run, path, "verify")
    damaged = KEYS.coordinator_batch(batch)
    await world.change_store(lambda key, value: flipped(value) if key == damaged else None)

    verified = await asyncio.to_thread(run, path, "verify")
    with pytest.raises(CorruptLog) as caught:
        await world.start()

    assert whole.exit_code == 0
    assert "ok       the coordinator's log: " in whole.stdout
    assert verified.exit_code == 1
    assert verified.stdout.count("ok ") == 1
    for text in (verified.stdout, str(caught.value)):
        assert f"batch {batch}: " in text
        assert damaged in text
        assert "restore the store from a backup" in text
    await world.stop()
