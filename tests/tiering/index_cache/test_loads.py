"""Loads of the index cache that meet: with others, with removals, with their own files."""

import asyncio
import struct
import threading
from pathlib import Path

import pytest
from typing_extensions import override

from tests.models.actors.local_world import eventually
from tests.models.tiering.gated_files import GatedFiles
from tests.models.tiering.index_storage import (
    IndexStorage,
    filled,
    held_load,
    name_of,
    names,
    turns,
)
from tests.models.tiering.tier_trace import TieredSegment, segments, segments_of
from tierledger.events.identifiers import Uuid
from tierledger.tiering.formats.index_files import OffsetIndex, SegmentBounds
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.cache import LOADS_MAX, RemoteIndexCache
from tierledger.tiering.index_cache.cleaner import RENAMES_AT_ONCE
from tierledger.tiering.index_cache.entry import CHECKED_IN_PLACE_BYTES_MAX
from tierledger.tiering.index_cache.files import CacheKey

FIRST, SECOND = segments_of("codec-none", 0)[:2]


def id_of(segment: TieredSegment) -> Uuid:
    return segment.metadata.remote_log_segment_id.id


async def test_so_many_segments_and_no_more_are_loaded_at_the_same_time(tmp_path: Path) -> None:
    every = segments()[: LOADS_MAX + 3]
    storage = IndexStorage(*every)
    for segment in every:
        storage.gates[id_of(segment)] = asyncio.Event()
    async with RemoteIndexCache(tmp_path, storage) as cache:
        waiting = [asyncio.create_task(cache.get(one.metadata)) for one in every]
        await eventually(lambda: len(storage.requests) >= LOADS_MAX)
        await turns()
        assert (cache.counts.misses, len(storage.requests)) == (len(every), LOADS_MAX)

        for gate in storage.gates.values():
            gate.set()
        await asyncio.gather(*waiting)
    assert len(storage.requests) == len(every)


async def test_a_load_outdated_by_a_removal_does_not_end_the_next_one(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        old, before = await held_load(cache, storage, FIRST)
        cache.remove([FIRST.metadata.remote_log_segment_id])
        new, after = await held_load(cache, storage, FIRST)
        old.set()
        await before

        also = asyncio.create_task(cache.get(FIRST.metadata))
        await turns()
        assert storage.requested(FIRST) == 2
        new.set()
        assert await also is await after
        assert cache.counts.entries == 1


async def test_a_damaged_file_replaced_while_read_takes_nothing_along(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST)
    files = GatedFiles(tmp_path)
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage, files=files) as cache:
        gate = files.hold("read")
        reading = asyncio.create_task(cache.get(FIRST.metadata))
        await eventually(gate.is_reached)
        cache.remove([FIRST.metadata.remote_log_segment_id])
        kept = await cache.get(FIRST.metadata)
        (tmp_path / name_of(FIRST)).write_bytes(b"damaged")
        gate.open()
        await reading

        assert cache.counts.corrupt_files == 1
        assert await cache.get(FIRST.metadata) is kept
        assert cache.counts.entries == 1


@pytest.mark.parametrize("gets_name", [True, False])
async def test_a_reload_before_renaming_keeps_its_file(tmp_path: Path, gets_name: bool) -> None:
    files = GatedFiles(tmp_path)
    async with RemoteIndexCache(tmp_path, IndexStorage(FIRST, SECOND), files=files) as cache:
        await cache.get(FIRST.metadata)
        await cache.get(SECOND.metadata)
        gate = files.hold("remove")
        cache.remove([SECOND.metadata.remote_log_segment_id])
        await eventually(gate.is_reached)  # The cleaner does nothing else now.
        cache.remove([FIRST.metadata.remote_log_segment_id])
        if not gets_name:
            files.keeps_names_for = 1
        await cache.get(FIRST.metadata)
        assert (cache.counts.file_errors, cache.counts.entries) == (not gets_name, 1)
        gate.open()
    assert names(tmp_path) == ({name_of(FIRST)} if gets_name else set())

    if gets_name:
        async with RemoteIndexCache(tmp_path, IndexStorage()) as cache:
            assert len((await cache.get(FIRST.metadata)).offset_index) == 5


class CountingFiles(GatedFiles):
    """Counts the files that lost their names."""

    doomed = 0

    @override
    def doom(self, key: CacheKey) -> Path | None:
        self.doomed += 1
        return super().doom(key)


async def test_others_get_their_turn_while_many_are_given_up(tmp_path: Path) -> None:
    every = segments()
    assert len(every) > RENAMES_AT_ONCE
    files = CountingFiles(tmp_path)
    async with RemoteIndexCache(tmp_path, IndexStorage(*every), files=files) as cache:
        for segment in every:
            await cache.get(segment.metadata)

        cache.resize(0)

        assert (cache.counts.entries, cache.counts.bytes, files.doomed) == (0, 0, 0)
        most = before = 0
        while files.doomed < len(every):
            await asyncio.sleep(0)
            most, before = max(most, files.doomed - before), files.doomed
        assert most == RENAMES_AT_ONCE
    assert names(tmp_path) == set()


async def test_an_entry_read_from_its_file_outlives_an_unused_one(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST, SECOND)

    async with RemoteIndexCache(tmp_path, IndexStorage()) as cache:
        await cache.get(FIRST.metadata)
        cache.resize(cache.counts.bytes - 1)
        assert cache.counts.evictions == 1
    assert names(tmp_path) == {name_of(FIRST)}


@pytest.mark.parametrize("is_large", [False, True])
async def test_large_indexes_are_checked_in_a_thread_and_small_ones_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    checked_in = []
    parse = OffsetIndex.parse

    def recorded(data: bytes, bounds: SegmentBounds) -> OffsetIndex:
        checked_in.append(threading.get_ident())
        return parse(data, bounds)

    monkeypatch.setattr(OffsetIndex, "parse", recorded)
    storage = IndexStorage(FIRST)
    if is_large:
        times = struct.pack(">qi", 1, 0) * CHECKED_IN_PLACE_BYTES_MAX
        storage.indexes[id_of(FIRST)][IndexType.TIMESTAMP] = times
    async with RemoteIndexCache(tmp_path, storage) as cache:
        await cache.get(FIRST.metadata)

    (thread,) = checked_in
    assert (thread != threading.get_ident()) == is_large
