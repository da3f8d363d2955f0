"""Opening an index cache may be cancelled, and closing it waits for its threads."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.models.actors.local_world import eventually
from tests.models.tiering.gated_files import Gate, GatedFiles
from tests.models.tiering.index_storage import IndexStorage, filled, names, turns
from tests.models.tiering.tier_trace import segments_of
from tierledger.events.errors import NotReady, StoreRefused
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.index_cache.files import CacheDirectory

FIRST, SECOND = segments_of("codec-none", 0)[:2]


async def cancelled(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(ended, asyncio.CancelledError)


@asynccontextmanager
async def opening(
    folder: Path,
) -> AsyncIterator[tuple[RemoteIndexCache, Gate, asyncio.Task[object]]]:
    """A cache that is being opened in a thread, for one who waits for FIRST."""
    files = GatedFiles(folder)
    gate = files.hold("open")
    cache = RemoteIndexCache(folder, IndexStorage(FIRST, SECOND), files=files)
    waiting: asyncio.Task[object] = asyncio.create_task(cache.get(FIRST.metadata))
    await eventually(gate.is_reached)
    try:
        yield cache, gate, waiting
    finally:
        gate.open()
        await cache.close()


async def can_be_used(folder: Path) -> bool:
    async with RemoteIndexCache(folder, IndexStorage(FIRST)) as cache:
        return len((await cache.get(FIRST.metadata)).offset_index) == 5


async def test_a_caller_cancelled_while_opening_disturbs_no_other(tmp_path: Path) -> None:
    async with opening(tmp_path) as (cache, gate, first):
        other = asyncio.create_task(cache.get(SECOND.metadata))
        await turns()
        await cancelled(first)
        gate.open()

        assert len((await other).offset_index) == 6
        assert cache.counts.refusals == 0
    assert await can_be_used(tmp_path)


async def test_an_abandoned_opening_serves_the_next_caller(tmp_path: Path) -> None:
    async with opening(tmp_path) as (cache, gate, first):
        await cancelled(first)
        gate.open()

        assert len((await cache.get(FIRST.metadata)).offset_index) == 5
    assert await can_be_used(tmp_path)


async def test_close_waits_for_an_abandoned_opening(tmp_path: Path) -> None:
    async with opening(tmp_path) as (cache, gate, first):
        await cancelled(first)
        closing = asyncio.create_task(cache.close())
        await turns()
        assert not closing.done()
        gate.open()
        await closing

        assert await can_be_used(tmp_path)


async def test_waiters_for_an_opening_hear_not_ready_at_close(tmp_path: Path) -> None:
    async with opening(tmp_path) as (cache, gate, first):
        opened = asyncio.create_task(cache.open())
        await turns()
        closing = asyncio.create_task(cache.close())
        await turns()
        gate.open()
        await closing

        for waiting in (first, opened):
            with pytest.raises(NotReady, match="closed"):
                await waiting


async def test_a_context_cancelled_before_its_entry_keeps_no_lock(tmp_path: Path) -> None:
    files = GatedFiles(tmp_path)
    gate = files.hold("open")

    async def use() -> None:
        async with RemoteIndexCache(tmp_path, IndexStorage(), files=files):
            pytest.fail("nobody comes here")

    using = asyncio.create_task(use())
    await eventually(gate.is_reached)
    using.cancel()
    await turns()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await using

    assert await can_be_used(tmp_path)


async def test_a_program_that_cancels_every_task_can_close_or_go_on(tmp_path: Path) -> None:
    async with opening(tmp_path) as (cache, gate, _):
        every = asyncio.all_tasks() - {asyncio.current_task()}
        for task in every:
            task.cancel()
        await turns()
        assert not all(task.done() for task in every)  # One still waits for the thread.
        gate.open()
        await asyncio.gather(*every, return_exceptions=True)

        assert len((await cache.get(FIRST.metadata)).offset_index) == 5
    assert await can_be_used(tmp_path)


async def test_refusals_count_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with RemoteIndexCache(tmp_path, IndexStorage()) as holder:
        async with opening(tmp_path) as (cache, gate, first):
            other = asyncio.create_task(cache.get(SECOND.metadata))
            await turns()
            gate.open()
            for waiting in (first, other):
                with pytest.raises(StoreRefused, match="needs a directory of its own"):
                    await waiting
            assert cache.counts.refusals == 1

            with pytest.raises(StoreRefused):
                await cache.open()
            assert (cache.counts.refusals, holder.counts.refusals) == (2, 0)
        async with opening(tmp_path) as (cache, gate, first):
            await cancelled(first)
            gate.open()
            await eventually(lambda: cache.counts.refusals == 1)

    gc.collect()
    assert caplog.records == []  # That nobody heard of it is no error.


@pytest.mark.parametrize("work", ["read", "write", "remove"])
async def test_the_directory_stays_locked_while_threads_work(tmp_path: Path, work: str) -> None:
    await filled(tmp_path, FIRST)
    files = GatedFiles(tmp_path)
    cache = RemoteIndexCache(tmp_path, IndexStorage(SECOND), files=files)
    await cache.open()
    gate = files.hold(work)
    waiting = None
    if work == "remove":
        cache.remove([FIRST.metadata.remote_log_segment_id])
    else:
        asked = FIRST if work == "read" else SECOND
        waiting = asyncio.create_task(cache.get(asked.metadata))
    await eventually(gate.is_reached)

    # The second one cancels the loaders once more.
    closings = [asyncio.create_task(cache.close()) for _ in range(2)]
    await turns()
    assert not any(closing.done() for closing in closings)
    with pytest.raises(StoreRefused):
        CacheDirectory(tmp_path).open()
    gate.open()
    await asyncio.gather(*closings)

    assert all(name.endswith(".indexes") for name in names(tmp_path))
    assert len(names(tmp_path)) == (work != "remove")
    if waiting is not None:
        with pytest.raises(NotReady, match="closed"):
            await waiting


async def test_a_thread_that_fails_when_nobody_waits_for_it_any_more_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = GatedFiles(tmp_path)
    cache = RemoteIndexCache(tmp_path, IndexStorage(FIRST), files=files)
    gate = files.hold("write")
    files.full_for = 1
    waiting = asyncio.create_task(cache.get(FIRST.metadata))
    await eventually(gate.is_reached)
    closing = asyncio.create_task(cache.close())
    await turns()
    gate.open()
    await closing
    with pytest.raises(NotReady):
        await waiting
    del closing, waiting

    gc.collect()
    assert (names(tmp_path), caplog.records) == (set(), [])


async def test_close_waits_for_removals_though_all_tasks_are_cancelled(tmp_path: Path) -> None:
    files = GatedFiles(tmp_path)
    cache = RemoteIndexCache(tmp_path, IndexStorage(FIRST), files=files)
    await cache.get(FIRST.metadata)
    gate = files.hold("remove")
    cache.remove([FIRST.metadata.remote_log_segment_id])
    await eventually(gate.is_reached)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()

    closing = asyncio.create_task(cache.close())
    await turns()
    assert not closing.done()
    gate.open()
    await closing

    assert names(tmp_path) == set()
