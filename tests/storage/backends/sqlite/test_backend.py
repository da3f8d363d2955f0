"""SQLite keeps the contract, and loses nothing when a process is killed or a disk is full."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from tests.models.forks import living_fork
from tests.storage.backends.backend_contract import DatabaseContract, everything
from tierledger.events.errors import DataError, OutcomeUnknown, StorageUnavailable
from tierledger.storage.backend import MetadataStorageBackend, Put
from tierledger.storage.backends.open_store import KEYS_PER_REMOVAL
from tierledger.storage.backends.sqlite.backend import SqliteBackend

KEYS_PER_STEP = 200

KEEP_WRITING = f"""
import asyncio, sys
from pathlib import Path
from tierledger.storage.backend import Put
from tierledger.storage.backends.sqlite.backend import SqliteBackend

async def main():
    backend = await SqliteBackend.open(Path(sys.argv[1]))
    step = int((await backend.get("0")) or b"0")
    while True:
        step += 1
        # Every key holds the step's number, padded so that a step fills many pages.
        value = b"%d" % step
        await backend.execute_atomically(
            [Put(str(key), value.rjust(1000, b"0")) for key in range({KEYS_PER_STEP})]
        )
        print(step, flush=True)

asyncio.run(main())
"""


class TestSqliteBackend(DatabaseContract):
    keys_per_removal = KEYS_PER_REMOVAL

    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[SqliteBackend]:
        self.path = tmp_path / "store.sqlite"
        backend = await SqliteBackend.open(self.path)
        yield backend
        await backend.close()

    @override
    async def reopen(
        self, backend: MetadataStorageBackend, *, read_only: bool = False
    ) -> MetadataStorageBackend:
        await backend.close()
        return await SqliteBackend.open(self.path, read_only=read_only)


async def test_a_writer_killed_in_the_middle_leaves_whole_steps_only(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    before = 0
    for steps in (1, 2, 5, 11, 23):
        acknowledged = await asyncio.to_thread(kill_after, steps, path)

        backend = await SqliteBackend.open(path)
        found = await everything(backend)
        await backend.close()

        (step,) = {int(value) for value in found.values()}
        assert len(found) == KEYS_PER_STEP
        # One step more: it was durable, and the process was killed before it could say so.
        assert step in {acknowledged, acknowledged + 1}
        assert step > before
        before = step


def kill_after(steps: int, path: Path) -> int:
    """Kill a process that writes without end once it has acknowledged `steps`; the last one."""
    writer = subprocess.Popen(
        [sys.executable, "-c", KEEP_WRITING, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer:
        lines = [writer.stdout.readline() for _ in range(steps)]
        writer.kill()
        lines += writer.stdout.readlines()
    return int(lines[-1])


async def test_a_reader_sees_what_the_writer_has_committed_and_never_waits(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.sqlite"
    writer = await SqliteBackend.open(path)
    reader = await SqliteBackend.open(path, read_only=True)

    for one in range(20):
        await writer.create(f"k{one:02d}", b"")
        assert len(await everything(reader)) == one + 1

    await writer.close()
    assert len(await everything(reader)) == 20
    await reader.close()


async def test_a_reader_reads_what_a_killed_writer_left(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    acknowledged = await asyncio.to_thread(kill_after, 3, path)

    reader = await SqliteBackend.open(path, read_only=True)
    found = await everything(reader)
    await reader.close()

    assert {int(value) for value in found.values()} <= {acknowledged, acknowledged + 1}
    assert len(found) == KEYS_PER_STEP


async def test_a_full_disk_leaves_nothing_half_written_and_passes(tmp_path: Path) -> None:
    backend = await SqliteBackend.open(tmp_path / "store.sqlite")
    await backend.create("k", b"v")
    await limit_pages(backend, 20)

    with pytest.raises(StorageUnavailable):
        await backend.execute_atomically([Put("a", b"1"), Put("big", bytes(200_000))])
    with pytest.raises(StorageUnavailable):
        await backend.create_each([("b", b"1"), ("big", bytes(200_000))])

    assert await everything(backend) == {"k": b"v"}
    await backend.create("c", b"2")
    await limit_pages(backend, 1_000_000)
    await backend.create("big", bytes(200_000))
    assert list(await everything(backend)) == ["big", "c", "k"]
    await backend.close()


async def limit_pages(backend: SqliteBackend, pages: int) -> None:
    """Let the file grow to `pages` at most, as on a disk without room."""
    writer = backend._writer
    assert writer is not None
    await asyncio.get_running_loop().run_in_executor(
        backend._writing,
        lambda: writer.connection.execute(f"PRAGMA max_page_count = {pages}").fetchone(),
    )


@contextmanager
def room_in(path: Path, size: int) -> Iterator[None]:
    """Let no file of this process grow beyond what `path` has now, and `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_commit_that_fails_in_the_medium_is_told_as_unknown_and_then_settled(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.sqlite"
    backend = await SqliteBackend.open(path)
    await backend.create("k", b"v")

    with room_in(Path(f"{path}-wal"), 6000), pytest.raises(OutcomeUnknown):
        await backend.execute_atomically([Put(f"a{one}", bytes(3000)) for one in range(9)])

    assert await everything(backend) == {"k": b"v"}
    await backend.create("l", b"w")
    await backend.close()
    again = await SqliteBackend.open(path)
    assert await everything(again) == {"k": b"v", "l": b"w"}
    await again.close()


async def test_while_the_medium_stays_away_reads_do_not_guess(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    backend = await SqliteBackend.open(path)
    await backend.create("k", b"v")

    with room_in(Path(f"{path}-wal"), 0):
        with pytest.raises(OutcomeUnknown):
            await backend.create("a", b"1")
        with pytest.raises(StorageUnavailable):
            await backend.get("a")
        with pytest.raises(StorageUnavailable):
            await backend.create("b", b"1")

    assert await backend.get("a") is None
    await backend.close()


async def test_a_damaged_file_is_a_matter_for_a_person(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    backend = await SqliteBackend.open(path)
    await backend.create_each([(f"k{one:05d}", bytes(100)) for one in range(2000)])
    await backend.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))

    damaged = await SqliteBackend.open(path)

    with pytest.raises(DataError):
        await damaged.get_like("k")
    with pytest.raises(DataError):
        await damaged.create("k", b"")
    await damaged.close()


async def test_a_forked_process_does_not_hold_the_store_that_was_open(tmp_path: Path) -> None:
    path = tmp_path / "store"
    backend = await SqliteBackend.open(path)
    with living_fork():
        await backend.close()
        await (await SqliteBackend.open(path)).close()
