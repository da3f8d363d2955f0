"""Copy tasks of two brokers against the real service, with hosts that die."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from tests.models.actors.local_world import POLL_S, LocalWorld
from tests.models.tiering import tier_trace
from tests.models.tiering.memory_storage import MemoryStorage
from tests.models.tiering.retention_world import FINISHED, FixedClock
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.events.errors import CustomMetadataSizeLimitExceeded, Fenced
from tierledger.events.identifiers import Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.copying.task import CopySettings, CopyTask
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.local.directory import LogDirectory
from tierledger.tiering.metrics.tier_metrics import TierMetrics

TIP = next(one for one in tier_trace.topics() if one.topic == "codec-none")
TIERED = [
    (one.metadata.start_offset, one.metadata.end_offset)
    for one in tier_trace.segments_of(TIP.topic, TIP.partition)
]


class Brokers:
    """Brokers of one partition, each with the same log on a disk of its own."""

    def __init__(self, folder: Path, world: LocalWorld) -> None:
        self.folder = folder
        self.world = world
        self.storage = MemoryStorage()
        self.metrics = TierMetrics()
        self._ids = count(1)

    async def task(
        self, broker_id: int, settings: CopySettings | None = None
    ) -> tuple[CopyTask, AsyncRemoteLogMetadataManager]:
        """The task of a broker that leads from now on."""
        manager = await self.world.leader(TIP, broker_id=broker_id)
        folder = self.folder / str(broker_id)
        log = await LogDirectory.open(
            tier_trace.local_log_directory(folder, TIP.topic, TIP.partition), TIP
        )
        deletions = CountedDeletions(
            manager, self.storage, FixedClock(), broker_id, self.metrics
        )
        return CopyTask(log, self.storage, deletions, self._new_id, settings), manager

    def _new_id(self) -> Uuid:
        return Uuid(next(self._ids).to_bytes(16, "big"))


async def listed(manager: AsyncRemoteLogMetadataManager) -> list[RemoteLogSegmentMetadata]:
    found = [one async for one in manager.list_remote_log_segments(TIP)]
    return sorted(found, key=lambda one: one.start_offset)


def check_all_copied(found: list[RemoteLogSegmentMetadata], storage: MemoryStorage) -> None:
    assert [(one.start_offset, one.end_offset) for one in found] == TIERED
    assert {one.state for one in found} == {FINISHED}
    assert storage.ids == {one.remote_log_segment_id.id for one in found}


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    storage = {"metadata.storage.url": f"sqlite:{tmp_path / 'ledger.sqlite'}"}
    world = LocalWorld(storage, hosts=2)
    await world.start()
    yield Brokers(tmp_path, world)
    await world.stop()


async def until_copying(manager: AsyncRemoteLogMetadataManager) -> None:
    while not await listed(manager):  # noqa: ASYNC110 - The announcement has no event.
        await asyncio.sleep(POLL_S)


async def test_a_leader_copies_its_log(brokers: Brokers) -> None:
    task, manager = await brokers.task(1)

    assert (await task.run_once()).segments == len(TIERED)

    check_all_copied(await listed(manager), brokers.storage)


async def test_a_new_leader_takes_over_in_the_middle_of_a_copy(brokers: Brokers) -> None:
    old, manager = await brokers.task(1)
    gate = brokers.storage.copy_gate = asyncio.Event()
    run = asyncio.create_task(old.run_once())
    await until_copying(manager)
    new, manager = await brokers.task(2, CopySettings(dangling_copy_grace_ms=0))
    gate.set()

    with pytest.raises(Fenced):
        await run
    await new.run_once()

    assert old.is_stopped
    check_all_copied(await listed(manager), brokers.storage)


async def test_a_leaders_host_dies_in_the_middle_of_a_copy(brokers: Brokers) -> None:
    task, manager = await brokers.task(1)
    gate = brokers.storage.copy_gate = asyncio.Event()
    run = asyncio.create_task(task.run_once())
    await until_copying(manager)
    for host in ("host-0", "host-1"):
        await brokers.world.service.kill_host(host)
    gate.set()

    await run

    check_all_copied(await listed(manager), brokers.storage)


async def test_the_leaders_own_limit_stops_a_task_with_a_larger_one(tmp_path: Path) -> None:
    assert CopySettings().custom_metadata_max_bytes > 10
    storage = {
        "metadata.storage.url": f"sqlite:{tmp_path / 'ledger.sqlite'}",
        "remote.log.metadata.custom.metadata.max.bytes": "10",
    }
    world = LocalWorld(storage)
    await world.start()
    try:
        brokers = Brokers(tmp_path, world)
        brokers.storage.custom_metadata = bytes(11)
        task, manager = await brokers.task(1)

        with pytest.raises(CustomMetadataSizeLimitExceeded, match="the leader refused it"):
            await task.run_once()

        assert task.is_stopped
        assert await listed(manager) == []
        assert brokers.storage.ids == set()
    finally:
        await world.stop()
