"""Bad days on the disk: damaged files, leftovers, no room, a second process."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.actors.local_world import eventually
from tests.models.storage.flipped_bits import flipped
from tests.models.tiering.index_storage import IndexStorage, filled, name_of, names
from tests.models.tiering.refusing_files import RefusingFiles
from tests.models.tiering.tier_trace import segments, segments_of
from tierledger.events.errors import CorruptRemoteData, StorageUnavailable, StoreRefused
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.cache import RemoteIndexCache

FIRST, SECOND, THIRD = segments_of("codec-none", 0)[:3]
WITH_ABORTED = segments_of("payments-tx", 0)[0]
PAST_THE_END = b"\x00\x00\x00\x05\x7f\xff\xff\xff"
"""An offset index that points far behind any segment's end."""


async def test_any_flipped_bit_in_a_file_is_noticed_and_fetched_again(tmp_path: Path) -> None:
    await filled(tmp_path, WITH_ABORTED)
    path = tmp_path / name_of(WITH_ABORTED)
    sound = path.read_bytes()

    for at in range(0, len(sound), 7):
        path.write_bytes(flipped(sound, at, 1 << at % 8))
        storage = IndexStorage(WITH_ABORTED)
        async with RemoteIndexCache(tmp_path, storage) as cache:
            entry = await cache.get(WITH_ABORTED.metadata)

        assert entry.offset_index.data == WITH_ABORTED.indexes[IndexType.OFFSET]
        assert (len(storage.requests), cache.counts.corrupt_files) == (1, 1)
        assert path.read_bytes() == sound


async def test_a_damaged_file_goes_even_if_it_cannot_be_fetched_again(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST)
    (tmp_path / name_of(FIRST)).write_bytes(b"damaged")
    storage = IndexStorage(FIRST)
    storage.errors = [StorageUnavailable("away")]
    async with RemoteIndexCache(tmp_path, storage) as cache:
        with pytest.raises(StorageUnavailable):
            await cache.get(FIRST.metadata)

        assert (cache.counts.entries, cache.counts.bytes) == (0, 0)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("size", [0, 10, 60, -1])
async def test_a_file_cut_short_is_fetched_again(tmp_path: Path, size: int) -> None:
    await filled(tmp_path, FIRST)
    path = tmp_path / name_of(FIRST)
    sound = path.read_bytes()
    path.write_bytes(sound[:size])

    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        await cache.get(FIRST.metadata)
        assert cache.counts.bytes == len(sound)

    assert storage.requested(FIRST) == 1
    assert path.read_bytes() == sound


async def test_another_segments_file_under_this_name_is_not_served(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST, SECOND)
    (tmp_path / name_of(SECOND)).replace(tmp_path / name_of(FIRST))

    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        entry = await cache.get(FIRST.metadata)

    assert entry.offset_index.data == FIRST.indexes[IndexType.OFFSET]
    assert storage.requested(FIRST) == 1


async def test_a_file_that_somebody_removed_is_fetched_again(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST)
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        (tmp_path / name_of(FIRST)).unlink()
        await cache.get(FIRST.metadata)
        assert cache.counts.entries == 1

    assert storage.requested(FIRST) == 1


async def test_start_removes_leftovers_and_touches_nothing_else(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST, SECOND)
    (tmp_path / name_of(SECOND)).write_bytes(b"not an index file at all")
    for leftover in (f"{name_of(THIRD)}.0.tmp", f"{name_of(THIRD)}.12.deleted"):
        (tmp_path / leftover).write_bytes(b"half")
    foreign = {"notes.txt", "00000000000000000000.log", f"{name_of(THIRD)}.tmp", "x_y.indexes"}
    for path in foreign:
        (tmp_path / path).write_bytes(b"mine")
    (tmp_path / "folder.indexes").mkdir()

    storage = IndexStorage(SECOND)
    async with RemoteIndexCache(tmp_path, storage) as cache:
        await eventually(
            lambda: (
                names(tmp_path) == {name_of(FIRST), name_of(SECOND), "folder.indexes"} | foreign
            )
        )
        assert cache.counts.files_removed_at_start == 2
        assert cache.counts.corrupt_files == 0
        await cache.get(FIRST.metadata)
        await cache.get(SECOND.metadata)

    assert cache.counts.corrupt_files == 1
    assert [one for one, _ in storage.requests] == [SECOND.metadata.remote_log_segment_id.id]


async def test_on_a_full_disk_the_cache_serves_from_memory(tmp_path: Path) -> None:
    files = RefusingFiles(tmp_path)
    files.full_for = 1
    storage = IndexStorage(FIRST, SECOND)
    async with RemoteIndexCache(tmp_path, storage, files=files) as cache:
        await cache.get(FIRST.metadata)
        await cache.get(SECOND.metadata)
        await cache.get(FIRST.metadata)

        assert len(storage.requests) == 2
        assert (cache.counts.file_errors, cache.counts.entries) == (1, 2)
        # What was half written is gone: a full disk gets no fuller.
        assert names(tmp_path) == {name_of(SECOND)}
        cache.resize(0)
        assert (cache.counts.entries, cache.counts.bytes) == (0, 0)
    assert cache.counts.file_errors == 1


async def test_nothing_is_written_for_a_segment_that_will_not_be_kept(tmp_path: Path) -> None:
    files = RefusingFiles(tmp_path)
    files.full_for = 1
    async with RemoteIndexCache(tmp_path, IndexStorage(FIRST), 10, files=files) as cache:
        await cache.get(FIRST.metadata)

        assert cache.counts.file_errors == 0


async def test_a_file_that_cannot_get_its_name_is_done_without(tmp_path: Path) -> None:
    files = RefusingFiles(tmp_path)
    files.keeps_names_for = 1
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage, files=files) as cache:
        await cache.get(FIRST.metadata)
        await cache.get(FIRST.metadata)

        assert cache.counts.file_errors == 1
        await eventually(lambda: names(tmp_path) == set())
    assert len(storage.requests) == 1


async def test_a_file_that_keeps_its_name_is_replaced_by_the_next_load(tmp_path: Path) -> None:
    files = RefusingFiles(tmp_path)
    storage = IndexStorage(FIRST)
    async with RemoteIndexCache(tmp_path, storage, files=files) as cache:
        await cache.get(FIRST.metadata)
        files.keeps_names_for = 1
        cache.remove([FIRST.metadata.remote_log_segment_id])

        await eventually(lambda: cache.counts.file_errors == 1)
        assert cache.counts.entries == 0
        await cache.get(FIRST.metadata)
        assert names(tmp_path) == {name_of(FIRST)}
    assert len(storage.requests) == 2


async def test_the_cleaner_goes_on_after_a_file_that_it_cannot_remove(tmp_path: Path) -> None:
    files = RefusingFiles(tmp_path)
    async with RemoteIndexCache(tmp_path, IndexStorage(FIRST, SECOND), files=files) as cache:
        await cache.get(FIRST.metadata)
        await cache.get(SECOND.metadata)
        files.keeps_files_for = 1

        cache.remove([FIRST.metadata.remote_log_segment_id])
        await eventually(lambda: cache.counts.file_errors == 1)
        cache.remove([SECOND.metadata.remote_log_segment_id])
        await eventually(lambda: len(names(tmp_path)) == 1)

    (left,) = names(tmp_path)
    assert left.startswith(f"{name_of(FIRST)}.")
    async with RemoteIndexCache(tmp_path, IndexStorage()) as cache:
        assert cache.counts.files_removed_at_start == 1
    assert names(tmp_path) == set()


async def test_a_second_cache_on_a_directory_is_refused(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST)
    async with RemoteIndexCache(tmp_path, IndexStorage()):
        second = RemoteIndexCache(tmp_path, IndexStorage(FIRST))
        for _ in range(2):
            with pytest.raises(
                StoreRefused, match="an index cache needs a directory of its own"
            ):
                await second.get(FIRST.metadata)
        assert names(tmp_path) == {name_of(FIRST)}

    # It may have it when the first is done.
    assert len((await second.get(FIRST.metadata)).offset_index) == 5
    await second.close()


HOLD = """
import asyncio, pathlib, sys
from tests.models.tiering.index_storage import IndexStorage, name_of, names
from tierledger.tiering.index_cache.cache import RemoteIndexCache

async def hold():
    async with RemoteIndexCache(pathlib.Path(sys.argv[1]), IndexStorage()):
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(hold())
"""


async def test_a_killed_process_leaves_the_directory_to_the_next(tmp_path: Path) -> None:
    await filled(tmp_path, FIRST)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(  # noqa: ASYNC220 - Nothing else happens in this test.
        command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        refused = RemoteIndexCache(tmp_path, IndexStorage())
        with pytest.raises(StoreRefused, match=f"process {holder.pid}"):
            await refused.open()
        holder.kill()
        holder.wait()

    async with RemoteIndexCache(tmp_path, IndexStorage()) as cache:
        assert len((await cache.get(FIRST.metadata)).offset_index) == 5


async def test_a_directory_that_cannot_be_made_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StoreRefused, match=r"cannot be used: .*Not a directory|File exists"):
        await RemoteIndexCache(tmp_path / "file", IndexStorage()).open()


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_at_once_answers_stay_right(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    every = segments()[:12]
    storage = IndexStorage(*every)
    files = RefusingFiles(tmp_path)
    sizes = [sum(map(len, one.indexes.values())) for one in every]

    async def ask(cache: RemoteIndexCache) -> None:
        for _ in range(60):
            segment = chance.choice(every)
            match chance.randrange(12):
                case 0:
                    cache.remove([segment.metadata.remote_log_segment_id])
                case 1:
                    cache.resize(chance.randrange(sum(sizes)))
                case 2:
                    storage.damaged.append({IndexType.OFFSET: PAST_THE_END})
                case 3:
                    files.full_for = 1
                case 4:
                    path = tmp_path / name_of(segment)
                    if path.exists():
                        path.write_bytes(b"damage")
                case _:
                    try:
                        entry = await cache.get(segment.metadata)
                    except CorruptRemoteData:
                        continue
                    assert entry.offset_index.data == segment.indexes[IndexType.OFFSET]
                    assert entry.time_index.data == segment.indexes[IndexType.TIMESTAMP]

    for _ in range(3):
        async with RemoteIndexCache(tmp_path, storage, sum(sizes), files=files) as cache:
            await asyncio.gather(*(ask(cache) for _ in range(8)))
            held = cache.counts.entries
        assert len(names(tmp_path)) <= held
        assert all(name.endswith(".indexes") for name in names(tmp_path))
