"""Retention with a real index cache behind it: no index outlives its segment."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.models.index_storage import names
from tests.models.retention_world import HOUR_MS, RetentionWorld
from tests.models.tier_trace import TieredSegment, segments_of
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.index_cache.cache import RemoteIndexCache

FIRST, SECOND = segments_of("codec-none", 0)[:2]


async def tiered(
    world: RetentionWorld, segment: TieredSegment, age_ms: int = 0
) -> RemoteLogSegmentMetadata:
    start, end = segment.metadata.start_offset, segment.metadata.end_offset
    size = segment.metadata.segment_size_in_bytes
    added = await world.add(start, end, {0: start}, size=size, age_ms=age_ms)
    world.storage.indexes[added.remote_log_segment_id.id] = dict(segment.indexes)
    return added


def deletions(
    world: RetentionWorld, remove: Callable[[Iterable[RemoteLogSegmentId]], None]
) -> CountedDeletions:
    return CountedDeletions(world.store, world.storage, world.clock, 1, world.metrics, remove)


async def test_a_deletion_takes_indexes_from_memory_and_disk(tmp_path: Path) -> None:
    world = RetentionWorld()
    old, young = await tiered(world, FIRST, HOUR_MS), await tiered(world, SECOND)
    async with RemoteIndexCache(tmp_path, world.storage) as cache:
        await cache.get(old)
        await cache.get(young)
        task = world.task_with(deletions(world, cache.remove), retention_ms=HOUR_MS)

        result = await task.run_once()

        assert [one.segment for one in result.deleted] == [old]
        assert (cache.counts.removals, cache.counts.entries) == (1, 1)
        with pytest.raises(RemoteResourceNotFound):
            await cache.get(old)
        assert (await cache.get(young)).lookup_offset(young.start_offset).position == 0

    assert names(tmp_path) == {f"{young.start_offset}_{young.remote_log_segment_id.id}.indexes"}


async def test_a_cache_that_is_closed_is_no_reason_to_keep_a_segment(tmp_path: Path) -> None:
    world = RetentionWorld()
    await tiered(world, FIRST, HOUR_MS)
    async with RemoteIndexCache(tmp_path, world.storage) as cache:
        pass

    task = world.task_with(deletions(world, cache.remove), retention_ms=HOUR_MS)

    assert len((await task.run_once()).deleted) == 1
    assert world.left() == []
