"""A partition is forgotten beside a service that runs, and beside one that sleeps."""

import asyncio
from pathlib import Path

import pytest

from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import (
    CLUSTER,
    DELETED,
    DELETING,
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
from tests.models.storage import faulty_store
from tests.models.storage.faulty_store import Faults
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.events.errors import NotLeader, OutcomeUnknown
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.partition.forgetting import forget
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.partition.verification import verify

TIP = partition()


def reader(folder: Path) -> PartitionReader:
    backend = MemoryBackend(faulty_store.values(str(folder)))
    return PartitionReader(backend, KEYS, SERDE, CLUSTER, TIP)


async def emptied(manager: AsyncRemoteLogMetadataManager) -> None:
    await copy(manager, segment(0))
    for state in (DELETING, DELETED):
        await manager.update_remote_log_segment_metadata(moved(segment(0), state))


async def resign(leader: AsyncRemoteLogMetadataManager, folder: Path) -> None:
    """Follow from now on; returns once the session is closed."""
    await leader.on_partition_leadership_changes([], [TIP])

    async def is_closed() -> bool:
        return not (await reader(folder).state()).state.is_open

    await eventually(is_closed)


async def test_a_forgotten_partition_without_a_checkpoint_is_loaded_from_its_boundary(
    shared: LocalWorld, tmp_path: Path
) -> None:
    leader = await shared.leader(TIP)
    await emptied(leader)
    await resign(leader, tmp_path)
    await shared.stop()
    await forget(reader(tmp_path))
    del faulty_store.values(str(tmp_path))[KEYS.partition(TIP)]

    await shared.start()
    leader = await shared.leader(TIP)
    await copy(leader, segment(7))

    assert await listed(leader) == [7]
    assert await listed(await shared.follower(TIP)) == [7]
    assert (await verify(reader(tmp_path))).findings == ()


async def test_a_partition_that_was_forgotten_is_led_and_followed_from_its_boundary(
    shared: LocalWorld, tmp_path: Path
) -> None:
    leader = await shared.leader(TIP)
    follower = await shared.follower(TIP)
    await emptied(leader)
    await resign(leader, tmp_path)

    await forget(reader(tmp_path))
    await lead(leader, TIP)
    await copy(leader, segment(7))

    assert await listed(leader) == [7]

    async def has_followed() -> bool:
        return await listed(follower) == [7]

    await eventually(has_followed)
    assert "quarantined" not in await shared.alarms()
    assert (await verify(reader(tmp_path))).findings == ()
    await shared.restart()
    assert await listed(await shared.leader(TIP)) == [7]


async def test_a_leader_that_slept_while_its_partition_was_forgotten_acknowledges_nothing(
    tmp_path: Path,
) -> None:
    name = str(tmp_path)
    old, new = (LocalWorld(faulty_store.settings(name, side)) for side in "ab")
    await old.start()
    zombie = await old.leader(TIP)
    faults: Faults = faulty_store.faults(name, "a")
    faults.freeze()
    with hasty(zombie, 5):
        write = asyncio.ensure_future(zombie.add_remote_log_segment_metadata(segment(0)))
        await eventually(lambda: faults.held > 0)
    await old.service.coordinator.close()  # Else it would take the work back, rightly.

    await new.start()
    await new.follower(TIP, broker_id=1)  # Else its claim would stand again.
    manager = await new.leader(TIP, broker_id=2)
    await emptied(manager)
    await resign(manager, tmp_path)
    await forget(reader(tmp_path))
    (boundary,) = [key for key in faulty_store.values(name) if key.startswith(KEYS.log(TIP))]
    faults.thaw()
    with pytest.raises((NotLeader, OutcomeUnknown)):
        await write

    keys = [key for key in faulty_store.values(name) if key.startswith(KEYS.log(TIP))]
    assert keys[0] == boundary
    assert (await verify(reader(tmp_path))).findings == ()
    await old.stop()
    await new.stop()
