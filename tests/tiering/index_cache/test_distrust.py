"""The index cache drops an entry whose positions are wrong."""

from pathlib import Path

from tests.models.actors.local_world import eventually
from tests.models.tiering.index_storage import IndexStorage, name_of, names
from tests.models.tiering.tier_trace import segments_of
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
