"""The rules of Kafka's own index cache, and those that KIP-1002 and this cache add."""

import asyncio
from pathlib import Path

import pytest

from tests.models.actors.local_world import eventually
from tests.models.tiering.index_storage import IndexStorage, filled, held_load, name_of, names
from tests.models.tiering.tier_trace import TieredSegment, segments, segments_of
from tierledger.events.errors import InvalidArgument, NotReady
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.index_cache.files import HEADER_SIZE

FIRST, SECOND, THIRD = segments_of("codec-none", 0)[:3]
WITH_ABORTED = segments_of("payments-tx", 0)[0]
LOOKED_UP = (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)


def weight(*segments: TieredSegment) -> int:
    """The weight of these entries in the cache."""
    return sum(
        HEADER_SIZE + sum(len(one.indexes.get(kind, b"")) for kind in LOOKED_UP)
        for one in segments
    )


async def test_a_segments_indexes_are_fetched_once_and_all_together(tmp_path: Path) -> None:
    storage = IndexStorage(WITH_ABORTED)
    metadata = WITH_ABORTED.metadata
    async with RemoteIndexCache(tmp_path / "new" / "cache", storage) as cache:
        entry = await cache.get(metadata)
        again = await cache.get(metadata)
        await cache.lookup_offset(metadata, 5)
        await cache.lookup_timestamp(metadata, 0, 0)

    assert storage.requests == [(metadata.remote_log_segment_id.id, frozenset(LOOKED_UP))]
    assert again is entry
    assert entry.offset_index.data == WITH_ABORTED.indexes[IndexType.OFFSET]
    assert entry.time_index.data == WITH_ABORTED.indexes[IndexType.TIMESTAMP]
    assert entry.txn_index.data == WITH_ABORTED.indexes[IndexType.TRANSACTION]
    assert (cache.counts.misses, cache.counts.hits, cache.counts.loads) == (1, 3, 1)


async def test_there_is_one_file_for_each_segment_named_like_kafkas(tmp_path: Path) -> None:
    async with RemoteIndexCache(tmp_path, IndexStorage(FIRST, SECOND)) as cache:
        await cache.get(FIRST.metadata)
        await cache.get(SECOND.metadata)

    assert names(tmp_path) == {
        f"0_{FIRST.metadata.remote_log_segment_id.id}.indexes",
        f"45_{SECOND.metadata.remote_log_segment_id.id}.indexes",
    }
    assert (tmp_path / name_of(FIRST)).stat().st_size == weight(FIRST)
    assert cache.counts.bytes == weight(FIRST, SECOND)


async def test_a_segment_without_transaction_index_gets_an_empty_one(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        entry = await cache.get(FIRST.metadata)

    assert list(entry.txn_index.entries()) == []
    # Its metadata says so: the object is not asked for.
    assert storage.requests[0][1] == {IndexType.OFFSET, IndexType.TIMESTAMP}


async def test_a_missing_transaction_index_is_empty_though_announced(tmp_path: Path) -> None:
    storage = IndexStorage(WITH_ABORTED)
    del storage.indexes[WITH_ABORTED.metadata.remote_log_segment_id.id][IndexType.TRANSACTION]
    async with RemoteIndexCache(tmp_path, storage) as cache:
        entry = await cache.get(WITH_ABORTED.metadata)

    assert len(entry.txn_index) == 0
    assert len(entry.offset_index) == 10


async def test_lookups_past_either_end_answer_with_that_end(tmp_path: Path) -> None:
    metadata = WITH_ABORTED.metadata
    async with RemoteIndexCache(tmp_path, IndexStorage(WITH_ABORTED)) as cache:
        assert await cache.lookup_offset(metadata, metadata.start_offset - 1) == 0
        assert await cache.lookup_offset(metadata, metadata.start_offset) == 0
        assert await cache.lookup_offset(metadata, 22) == 3710
        assert await cache.lookup_offset(metadata, metadata.end_offset + 1) == 11594
        assert await cache.lookup_timestamp(metadata, 0, 0) == 0
        assert await cache.lookup_timestamp(metadata, 2**62, 0) == 11594


async def test_a_time_is_looked_up_from_the_starting_offset_on(tmp_path: Path) -> None:
    metadata = WITH_ABORTED.metadata
    async with RemoteIndexCache(tmp_path, IndexStorage(WITH_ABORTED)) as cache:
        # The time index says offset 31, and the offset index that its batch is at 4967.
        assert await cache.lookup_timestamp(metadata, 1795220685533, 0) == 4967
        assert await cache.lookup_timestamp(metadata, 1795220685533, 45) == 7195
        assert await cache.lookup_timestamp(metadata, 1795220685533, 3) == 4967


async def test_a_full_cache_gives_a_segment_up_and_fetches_it_again(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST, SECOND, THIRD)
    room = weight(FIRST, SECOND, THIRD) - 1
    async with RemoteIndexCache(tmp_path, storage, room) as cache:
        for segment in (FIRST, SECOND, SECOND, FIRST):
            await cache.get(segment.metadata)
        assert len(storage.requests) == 2

        await cache.get(THIRD.metadata)
        assert (len(storage.requests), cache.counts.evictions) == (3, 1)
        await cache.get(FIRST.metadata)

        assert (len(storage.requests), cache.counts.entries) == (4, 2)
        assert cache.counts.bytes <= room
    assert names(tmp_path) == {name_of(one) for one in (FIRST, THIRD)}


async def test_a_segment_that_is_used_stays_while_others_are_read_once(tmp_path: Path) -> None:
    others = [one for one in segments() if one is not FIRST]
    storage = IndexStorage(*segments())
    room = 4 * max(weight(one) for one in segments())
    async with RemoteIndexCache(tmp_path, storage, room) as cache:
        for other in others:
            await cache.get(FIRST.metadata)
            await cache.get(other.metadata)

        assert cache.counts.evictions > 20
    assert storage.requested(FIRST) == 1


async def test_an_entry_stays_good_after_the_cache_has_given_it_up(tmp_path: Path) -> None:
    async with RemoteIndexCache(tmp_path, IndexStorage(FIRST)) as cache:
        entry = await cache.get(FIRST.metadata)
        before = entry.lookup_offset(44)
        cache.remove([FIRST.metadata.remote_log_segment_id])

    assert entry.lookup_offset(44) == before


async def test_a_segment_too_heavy_is_served_and_pushes_nothing_out(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST, WITH_ABORTED)
    assert weight(WITH_ABORTED) > weight(FIRST)
    async with RemoteIndexCache(tmp_path, storage, weight(FIRST)) as cache:
        await cache.get(FIRST.metadata)
        entry = await cache.get(WITH_ABORTED.metadata)

        assert len(entry.offset_index) == 10
        assert cache.counts.entries == 1
    assert names(tmp_path) == {name_of(FIRST)}


async def test_after_close_nothing_is_answered_and_files_stay(tmp_path: Path) -> None:
    cache = RemoteIndexCache(tmp_path, IndexStorage(FIRST))
    await cache.get(FIRST.metadata)

    await cache.close()
    await cache.close()

    with pytest.raises(NotReady, match="closed"):
        await cache.get(FIRST.metadata)
    with pytest.raises(NotReady):
        await cache.lookup_offset(FIRST.metadata, 0)
    with pytest.raises(NotReady):
        cache.remove([FIRST.metadata.remote_log_segment_id])
    with pytest.raises(NotReady):
        cache.distrust(FIRST.metadata)
    with pytest.raises(NotReady):
        cache.resize(1)
    with pytest.raises(NotReady):
        await cache.open()
    assert names(tmp_path) == {name_of(FIRST)}


async def test_closing_a_cache_that_was_never_opened_does_nothing(tmp_path: Path) -> None:
    await RemoteIndexCache(tmp_path / "nothing", IndexStorage()).close()

    assert not (tmp_path / "nothing").exists()


async def test_waiters_for_a_load_hear_not_ready_at_close(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST)
    cache = RemoteIndexCache(tmp_path, storage)
    _, waiting = await held_load(cache, storage, FIRST)

    await cache.close()

    with pytest.raises(NotReady, match="closed"):
        await waiting


async def test_a_restart_needs_no_request(tmp_path: Path) -> None:
    async with RemoteIndexCache(tmp_path, IndexStorage(FIRST, WITH_ABORTED)) as cache:
        before = [await cache.get(one.metadata) for one in (FIRST, WITH_ABORTED)]

    storage = IndexStorage()
    async with RemoteIndexCache(tmp_path, storage) as cache:
        assert cache.counts.entries == 2
        assert cache.counts.bytes == weight(FIRST, WITH_ABORTED)
        after = [await cache.get(one.metadata) for one in (FIRST, WITH_ABORTED)]
        assert await cache.lookup_offset(WITH_ABORTED.metadata, 22) == 3710

    assert [one.raw for one in after] == [one.raw for one in before]
    assert storage.requests == []
    assert (cache.counts.file_hits, cache.counts.misses, cache.counts.hits) == (2, 2, 1)


async def test_a_restart_with_less_room_keeps_what_was_loaded_last(tmp_path: Path) -> None:
    await filled(tmp_path, SECOND, FIRST, THIRD)

    async with RemoteIndexCache(tmp_path, IndexStorage(), weight(FIRST, THIRD)) as cache:
        assert (cache.counts.entries, cache.counts.evictions) == (2, 1)
    assert names(tmp_path) == {name_of(one) for one in (FIRST, THIRD)}


@pytest.mark.parametrize("removed", [[], [FIRST], [FIRST, THIRD], [FIRST, SECOND, THIRD]])
async def test_removals_take_their_files(tmp_path: Path, removed: list[TieredSegment]) -> None:
    every = (FIRST, SECOND, THIRD)
    storage = IndexStorage(*every)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        for segment in every:
            await cache.get(segment.metadata)

        cache.remove(one.metadata.remote_log_segment_id for one in removed)
        cache.remove(one.metadata.remote_log_segment_id for one in [*removed, WITH_ABORTED])

        kept = [one for one in every if one not in removed]
        assert cache.counts.removals == len(removed)
        assert cache.counts.bytes == weight(*kept)
        await eventually(lambda: names(tmp_path) == {name_of(k) for k in kept})
        for segment in every:
            await cache.get(segment.metadata)
        assert len(storage.requests) == 3 + len(removed)


async def test_what_is_removed_before_the_opening_does_not_come_back(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST, SECOND)

    cache = RemoteIndexCache(tmp_path, IndexStorage())
    cache.remove([FIRST.metadata.remote_log_segment_id])
    await cache.get(SECOND.metadata)
    await cache.close()

    assert names(tmp_path) == {name_of(SECOND)}


@pytest.mark.parametrize("is_distrusted", [False, True])
async def test_what_goes_while_it_loads_is_served_not_kept(
    tmp_path: Path, is_distrusted: bool
) -> None:
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        gate, waiting = await held_load(cache, storage, FIRST)
        if is_distrusted:
            cache.distrust(FIRST.metadata)
        else:
            cache.remove([FIRST.metadata.remote_log_segment_id])
        gate.set()

        assert len((await waiting).offset_index) == 5
        assert (cache.counts.entries, cache.counts.distrusted) == (0, 0)
        await eventually(lambda: names(tmp_path) == set())
        await cache.get(FIRST.metadata)
    assert storage.requested(FIRST) == 2


async def test_the_limit_can_change_while_the_cache_runs(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST, SECOND, THIRD)
    async with RemoteIndexCache(tmp_path, storage, weight(FIRST)) as cache:

        async def held_after_asking_for_all(limit: int) -> int:
            cache.resize(limit)
            for segment in (FIRST, SECOND, THIRD):
                await cache.get(segment.metadata)
            return cache.counts.entries

        everything = weight(FIRST, SECOND, THIRD)
        assert await held_after_asking_for_all(everything) == 3
        assert await held_after_asking_for_all(everything - 1) == 2
        assert await held_after_asking_for_all(2 * everything) == 3
        cache.resize(1)
        assert (cache.counts.entries, cache.counts.bytes) == (0, 0)
        await eventually(lambda: names(tmp_path) == set())
        assert await held_after_asking_for_all(0) == 0
        with pytest.raises(InvalidArgument, match="got -1"):
            cache.resize(-1)


async def test_a_hit_is_answered_while_other_segments_are_being_loaded(tmp_path: Path) -> None:
    await filled(tmp_path, THIRD)
    storage = IndexStorage(FIRST, SECOND)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        await cache.get(FIRST.metadata)
        gate, waiting = await held_load(cache, storage, SECOND)

        assert answered_at_once(cache, FIRST.metadata) == 0
        assert len((await cache.get(THIRD.metadata)).offset_index) == 8  # From its file.
        assert not waiting.done()
        gate.set()
        await waiting


def answered_at_once(cache: RemoteIndexCache, metadata: RemoteLogSegmentMetadata) -> int:
    """The position of the segment's first offset, if nothing has to be waited for."""
    looking = cache.lookup_offset(metadata, metadata.start_offset)
    with pytest.raises(StopIteration) as ended:
        looking.send(None)
    position = ended.value.value
    assert isinstance(position, int)
    return position


async def test_one_who_is_cancelled_does_not_end_the_load_for_others(tmp_path: Path) -> None:
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        gate, starter = await held_load(cache, storage, FIRST)
        other = asyncio.create_task(cache.get(FIRST.metadata))
        await eventually(lambda: cache.counts.misses == 2)
        starter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starter
        gate.set()

        assert len((await other).offset_index) == 5
    assert len(storage.requests) == 1
