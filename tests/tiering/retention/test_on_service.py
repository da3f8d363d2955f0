"""Retention and removal of a partition whose metadata a whole service keeps."""

from collections.abc import AsyncIterator

import pytest

from tests.models.local_world import LocalWorld, copy, listed, segment
from tests.models.memory_storage import MemoryStorage
from tests.models.retention_world import TIP, FixedClock, MemoryLog
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.events.errors import PartitionDeleted
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.deletion.partition_remover import PartitionRemover, RemovalResult
from tierledger.tiering.metrics.metered_metadata import MeteredMetadata
from tierledger.tiering.metrics.tier_metrics import METADATA_COUNT, SIZE_BYTES, TierMetrics
from tierledger.tiering.retention.expiration_task import ExpirationTask, Retention

SEGMENTS = 30


@pytest.fixture
async def manager() -> AsyncIterator[AsyncRemoteLogMetadataManager]:
    """Leads `TIP`, which has segments of 10 bytes and 10 offsets."""
    world = LocalWorld({"metadata.storage.url": "memory:"})
    await world.start()
    led = await world.leader(TIP)
    await copy(led, *[segment(number, TIP) for number in range(SEGMENTS)])
    yield led
    await world.stop()


class Tier:
    """What works on the manager's segments."""

    def __init__(self, manager: AsyncRemoteLogMetadataManager) -> None:
        self.metrics = TierMetrics()
        self.storage = MemoryStorage()
        for number in range(SEGMENTS):
            self.storage.logs[segment(number).remote_log_segment_id.id] = bytes(10)
        store = MeteredMetadata(manager, self.metrics)
        self.deletions = CountedDeletions(store, self.storage, FixedClock(), 1, self.metrics)


async def test_what_is_due_by_size_is_deleted(manager: AsyncRemoteLogMetadataManager) -> None:
    tier, log = Tier(manager), MemoryLog({0: 0}, end=10 * SEGMENTS)
    task = ExpirationTask(log, tier.deletions, Retention(retention_bytes=205), frozenset)

    result = await task.run_once()
    again = await task.run_once()

    assert len(result.deleted) == 9
    assert again.deleted == ()
    assert await listed(manager, TIP) == list(range(9, SEGMENTS))
    assert len(tier.storage.ids) == 21
    assert log.log_start_offset == 90
    assert tier.metrics.value(METADATA_COUNT, TIP) == 21
    assert tier.metrics.value(SIZE_BYTES, TIP) == 210


async def test_a_marked_partition_is_deleted(manager: AsyncRemoteLogMetadataManager) -> None:
    tier = Tier(manager)
    remover = PartitionRemover(tier.deletions, lambda _: ())
    await remover.mark(TIP)

    result = await remover.run_once(TIP)

    done = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
    assert result == RemovalResult(done, deleted=SEGMENTS)
    assert tier.storage.ids == set()
    with pytest.raises(PartitionDeleted):
        await manager.partition_summary(TIP)
    assert await remover.run_once(TIP) == RemovalResult(done)
