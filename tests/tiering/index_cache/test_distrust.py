"""What the index cache does with an entry whose positions turned out to be wrong."""

import asyncio
from pathlib import Path

from tests.models.index_storage import IndexStorage, name_of, names
from tests.models.local_world import eventually
from tests.models.tier_trace import segments_of
from tierledger.tiering.index_cache.cache import RemoteIndexCache

FIRST, SECOND, THIRD = segments_of("codec-none", 0)[:3]


async def test_a_distrusted_entry_goes_with_its_file_and_comes_anew(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST, SECOND)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        before = await cache.get(FIRST.metadata)
        await cache.get(SECOND.metadata)

        cache.distrust(FIRST.metadata)
        cache.distrust(FIRST.metadata)
        cache.distrust(THIRD.metadata)

        assert (cache.counts.distrusted, cache.counts.removals) == (1, 0)
        assert cache.counts.entries == 1
        await eventually(lambda: names(tmp_path) == {name_of(SECOND)})
        assert await cache.get(FIRST.metadata) is not before
        await cache.get(SECOND.metadata)
    assert (storage.requested(FIRST), storage.requested(SECOND)) == (2, 1)


async def test_what_is_distrusted_while_loading_is_served_but_not_kept(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST)
    gate = storage.gates[FIRST.metadata.remote_log_segment_id.id] = asyncio.Event()
    async with RemoteIndexCache(tmp_path, storage) as cache:
        waiting = asyncio.create_task(cache.get(FIRST.metadata))
        await eventually(lambda: storage.requested(FIRST) == 1)
        cache.distrust(FIRST.metadata)
        gate.set()

        assert len((await waiting).offset_index) == 5
        assert (cache.counts.entries, cache.counts.distrusted) == (0, 0)
        await cache.get(FIRST.metadata)
    assert storage.requested(FIRST) == 2
