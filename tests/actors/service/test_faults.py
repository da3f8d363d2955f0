"""A whole service whose hosts die and whose store fails: what was acknowledged stays."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.models.actors.harness import SERDE, kinds
from tests.models.actors.local_world import (
    CLUSTER,
    KEYS,
    LocalWorld,
    copy,
    eventually,
    hasty,
    listed,
    partition,
    segment,
)
from tests.models.storage import faulty_store
from tests.models.storage.faulty_store import Faults
from tests.models.storage.flipped_bits import flipped
from tierledger.actors.calls import LEADER
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.leader.machine import CHECKPOINT_EVENTS
from tierledger.actors.messages import Query
from tierledger.events.errors import (
    NotLeader,
    NotReady,
    OutcomeUnknown,
    Quarantined,
    StorageUnavailable,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.state import PartitionState
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.partition.checkpoint import LOAD_ATTEMPTS, CheckpointStore

TIP = partition()


# Hosts that die.


async def test_nothing_acknowledged_is_lost_with_a_host_and_repeats_apply_once(
    world: LocalWorld,
) -> None:
    tips = [partition(number) for number in range(5)]
    manager = await world.leader(*tips)
    acknowledged: list[tuple[TopicIdPartition, int]] = []

    async def work(tip: TopicIdPartition) -> None:
        for number in range(60):
            await copy(manager, segment(number, tip))
            acknowledged.append((tip, number))

    async def kill() -> None:
        for enough in (100, 200):
            await eventually(partial(lambda count: len(acknowledged) > count, enough))
            await world.service.kill_host("host-0")

    await asyncio.gather(kill(), *(work(tip) for tip in tips))

    for tip in tips:
        assert await listed(manager, tip) == list(range(60))
        applied = kinds(await world.events(tip))
        assert applied.count("SegmentAdded") == applied.count("SegmentUpdated") == 60
        assert applied.count("SessionOpened") == 3


async def test_a_list_is_begun_again_when_its_host_dies(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    adds = [manager.add_remote_log_segment_metadata(segment(one)) for one in range(3000)]
    await asyncio.gather(*adds)
    lists = [asyncio.ensure_future(listed(manager)) for _ in range(5)]
    await asyncio.sleep(0)
    await world.service.kill_host("host-0")

    for found in await asyncio.gather(*lists):
        assert found == list(range(3000))


# What is stored and does not verify.


async def test_a_flipped_byte_quarantines_one_partition_and_no_other(world: LocalWorld) -> None:
    broken, whole = partition(0), partition(1)
    manager = await world.leader(broken, whole)
    for tip in (broken, whole):
        await copy(manager, segment(0, tip), segment(1, tip))
    await world.stop()
    last = KEYS.log_batch(broken, 3)
    states = KEYS.state(broken)

    def break_it(key: str, value: bytes) -> bytes | None:
        if key.startswith(states):
            return b""  # Without its checkpoint the log has to be read.
        return flipped(value) if key == last else None

    assert await world.change_store(break_it)
    await world.start()
    manager = await world.leader(whole)
    other = await world.broker(2)
    await other.on_partition_leadership_changes([broken], [])

    answered = await other.ask(broken, LEADER, Query("highest_offset"))
    while answered.stale is False:
        answered = await other.ask(broken, LEADER, Query("highest_offset"))
    assert (answered.value, answered.position) == (9, 2)
    for kind in ("list", "list_epoch", "next_txn"):
        answered = await other.ask(broken, LEADER, Query(kind))
        assert (answered.position, answered.stale) == (2, True)
    with hasty(other), pytest.raises(Quarantined):
        await other.add_remote_log_segment_metadata(segment(2, broken))
    assert not await other.is_ready(broken)
    assert (await world.alarms())["quarantined"] >= 1
    await copy(manager, segment(2, whole))
    assert await listed(manager, whole) == [0, 1, 2]


@pytest.mark.parametrize("part", ["/partition", "/epoch/", "/segment/"])
async def test_a_checkpoint_that_does_not_verify_is_made_anew_from_the_log(
    world: LocalWorld, part: str
) -> None:
    manager = await world.leader(TIP)
    await copy(manager, *map(segment, range(5)))
    await world.stop()

    def break_it(key: str, value: bytes) -> bytes | None:
        ours = key.startswith(KEYS.state(TIP)) and part in key.removeprefix(CLUSTER)
        return flipped(value) if ours else None

    assert await world.change_store(break_it)
    await world.start()
    manager = await world.leader(TIP)
    assert await listed(manager) == list(range(5))
    assert await manager.highest_offset_for_epoch(TIP, 0) == 49
    assert (await world.alarms())["checkpoint"] == 1

    await world.restart()
    manager = await world.leader(TIP)
    assert await listed(manager) == list(range(5))
    assert "checkpoint" not in await world.alarms()


async def test_a_checkpoint_is_kept_if_the_store_was_only_away(
    shared: LocalWorld, faults: Faults, tmp_path: Path
) -> None:
    await copy(await shared.leader(TIP), *map(segment, range(5)))
    await shared.restart()
    manager = await shared.leader(TIP)
    first = KEYS.log_batch(TIP, 0)
    values = faulty_store.values(str(tmp_path))
    del values[first]  # What a checkpoint covers is not needed any more.
    faults.refuse_reads = StorageUnavailable("away")
    await shared.service.kill_host("host-0")
    # Longer than a checkpoint that does not verify is looked at again.
    await eventually(lambda: faults.refused > LOAD_ATTEMPTS + 1)
    faults.refuse_reads = None

    await manager.when_ready([TIP])
    assert await listed(manager) == list(range(5))
    assert "quarantined" not in await shared.alarms()
    assert "checkpoint" not in await shared.alarms()


async def test_a_zombie_writes_neither_event_nor_checkpoint(tmp_path: Path) -> None:
    name = str(tmp_path)
    old, new = (LocalWorld(faulty_store.settings(name, side)) for side in "ab")
    await old.start()
    zombie = await old.leader(TIP)
    await fill(zombie, CHECKPOINT_EVENTS - 10)
    faults = faulty_store.faults(name, "a")
    faults.freeze()
    with hasty(zombie, 5):
        late = asyncio.ensure_future(fill(zombie, 20, start=CHECKPOINT_EVENTS))
        await eventually(lambda: faults.held > 0)
    await old.service.coordinator.close()  # Else it would take the work back, rightly.

    await new.start()
    manager = await new.leader(TIP, broker_id=2)
    await fill(manager, CHECKPOINT_EVENTS, start=5000)
    await new.restart()
    before = dict(faulty_store.values(name))
    faults.thaw()
    with pytest.raises((NotLeader, OutcomeUnknown, NotReady)):
        await late
    await old.stop()

    state = KEYS.state(TIP)
    kept = {key: value for key, value in before.items() if key.startswith(state)}
    now = faulty_store.values(name)
    assert {key: now[key] for key in now if key.startswith(state)} == kept
    assert len((await checkpoint(name)).rows) == 2 * CHECKPOINT_EVENTS - 10
    await new.stop()


async def test_a_zombie_that_found_a_broken_checkpoint_leaves_its_successors_alone(
    tmp_path: Path,
) -> None:
    name, state = str(tmp_path), KEYS.state(TIP)
    old, new = (LocalWorld(faulty_store.settings(name, side)) for side in "ab")
    await old.start()
    await fill(await old.leader(TIP), 5)
    await old.stop()
    await old.change_store(lambda key, _: b"?" if key.startswith(state) else None)
    await old.start()
    zombie = await old.leader(TIP)
    await fill(zombie, 1, start=5)
    faulty_store.faults(name, "a").freeze()
    await old.service.coordinator.close()

    await new.start()
    await fill(await new.leader(TIP, broker_id=2), 5, start=10)
    await new.stop()
    now = faulty_store.values(name)
    before = {key: now[key] for key in now if key.startswith(state)}
    stopping = asyncio.ensure_future(old.stop())
    await asyncio.sleep(0)
    faulty_store.faults(name, "a").thaw()
    await stopping

    assert {key: now[key] for key in now if key.startswith(state)} == before
    assert kinds(await new.events(TIP)).count("SegmentAdded") == 11


async def checkpoint(store_name: str) -> PartitionState:
    """The checkpoint that stands, verified."""
    values = MemoryBackend(faulty_store.values(store_name))
    store = CheckpointStore(values, KEYS, SERDE, TIP)
    stored = await store.read_stored()
    assert stored is not None
    return await store.load(stored, store.parse_partition(stored))


async def fill(manager: AsyncRemoteLogMetadataManager, count: int, *, start: int = 0) -> None:
    adds = [
        manager.add_remote_log_segment_metadata(segment(one))
        for one in range(start, start + count)
    ]
    await asyncio.gather(*adds)
