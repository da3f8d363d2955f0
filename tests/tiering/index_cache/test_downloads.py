"""Bad days of the remote storage: what it gives is damaged or missing, or it is away."""

import asyncio
import gc
from pathlib import Path

import pytest

from tests.models.actors.local_world import eventually
from tests.models.tiering.index_storage import IndexStorage, held_load, names
from tests.models.tiering.tier_trace import segments_of
from tierledger.events.errors import (
    CorruptRemoteData,
    RemoteResourceNotFound,
    StorageUnavailable,
)
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.cache import RemoteIndexCache

FIRST = segments_of("codec-none", 0)[0]
WITH_ABORTED = segments_of("payments-tx", 0)[0]
PAST_THE_END = b"\x00\x00\x00\x05\x7f\xff\xff\xff"
"""An offset index that points far behind any segment's end."""


@pytest.mark.parametrize(
    "damage",
    [
        {IndexType.OFFSET: PAST_THE_END},
        {IndexType.TIMESTAMP: b"x"},
        {IndexType.TRANSACTION: b"y" * 34},
    ],
    ids=lambda damage: next(iter(damage)).name,
)
async def test_a_corrupt_download_is_fetched_once_more_and_never_kept(
    tmp_path: Path, damage: dict[IndexType, bytes]
) -> None:
    storage = IndexStorage(WITH_ABORTED)
    storage.damaged = [damage]
    async with RemoteIndexCache(tmp_path, storage) as cache:
        entry = await cache.get(WITH_ABORTED.metadata)

        assert entry.offset_index.data == WITH_ABORTED.indexes[IndexType.OFFSET]
        assert (len(storage.requests), cache.counts.corrupt_downloads) == (2, 1)
        assert cache.counts.load_failures == 0


async def test_a_download_that_stays_corrupt_is_an_error_kept_nowhere(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST)
    storage.damaged = [{IndexType.OFFSET: PAST_THE_END}] * 2
    async with RemoteIndexCache(tmp_path, storage) as cache:
        with pytest.raises(CorruptRemoteData, match=r"offset index of .*: expected positions"):
            await cache.get(FIRST.metadata)

        assert names(tmp_path) == set()
        assert (cache.counts.corrupt_downloads, cache.counts.load_failures) == (2, 1)
        assert cache.counts.entries == 0
        # The failure is not kept either.
        assert len((await cache.get(FIRST.metadata)).offset_index) == 5


@pytest.mark.parametrize("missing", [IndexType.OFFSET, IndexType.TIMESTAMP])
async def test_a_missing_required_index_is_named(tmp_path: Path, missing: IndexType) -> None:
    storage = IndexStorage(FIRST)
    del storage.indexes[FIRST.metadata.remote_log_segment_id.id][missing]
    async with RemoteIndexCache(tmp_path, storage) as cache:
        with pytest.raises(RemoteResourceNotFound, match=f"no {missing.name} index of"):
            await cache.get(FIRST.metadata)

    assert len(storage.requests) == 1
    assert names(tmp_path) == set()


async def test_all_waiters_hear_of_a_failure_and_the_next_one_retries(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST)
    gate = storage.gates[FIRST.metadata.remote_log_segment_id.id] = asyncio.Event()
    storage.errors = [StorageUnavailable("away")]
    async with RemoteIndexCache(tmp_path, storage) as cache:
        waiting = [asyncio.create_task(cache.get(FIRST.metadata)) for _ in range(3)]
        await eventually(lambda: cache.counts.misses == 3)
        gate.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)

        assert all(isinstance(one, StorageUnavailable) for one in answers)
        assert (len(storage.requests), cache.counts.load_failures) == (1, 1)
        assert len((await cache.get(FIRST.metadata)).offset_index) == 5


async def test_a_failure_that_nobody_waits_for_any_more_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = IndexStorage(FIRST)
    storage.errors = [StorageUnavailable("away")]
    async with RemoteIndexCache(tmp_path, storage) as cache:
        gate, waiting = await held_load(cache, storage, FIRST)
        waiting.cancel()
        gate.set()
        await eventually(lambda: cache.counts.load_failures == 1)

    gc.collect()
    assert caplog.records == []


async def test_a_load_that_nobody_waits_for_any_more_may_end_with_the_cache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        _, waiting = await held_load(cache, storage, FIRST)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        del waiting

    gc.collect()
    assert caplog.records == []
