"""What is done to a store's files while it is open, and the file that is left at the end."""

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typing_extensions import override

from tierledger.events.errors import NoSuchStore, OutcomeUnknown, StoreRefused
from tierledger.storage.backend import Operation, Put
from tierledger.storage.backends.sqlite.backend import SqliteBackend

FILES = ("", "-wal", "-shm")


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def remove(*suffixes: str) -> Callable[[Path], None]:
    def touch(path: Path) -> None:
        for suffix in suffixes:
            beside(path, suffix).unlink()

    return touch


def move_file(path: Path) -> None:
    path.rename(beside(path, ".moved"))


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.mkdir()


def put_a_backup_back(path: Path) -> None:
    shutil.copyfile(path, beside(path, ".backup"))
    beside(path, ".backup").replace(path)


def put_a_backup_back_alone(path: Path) -> None:
    put_a_backup_back(path)
    remove("-wal", "-shm")(path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


TOUCHES = {
    "the file is removed": (remove(""), "is gone"),
    "all files are removed": (remove(*FILES), "is gone"),
    "the log is removed": (remove("-wal"), "-wal is gone"),
    "the index is removed": (remove("-shm"), "-shm is gone"),
    "the file is moved": (move_file, "is gone"),
    "the folder is moved": (move_folder, "is gone"),
    "a backup is put back": (put_a_backup_back, "replaced by another file"),
    "a backup is put back alone": (put_a_backup_back_alone, "replaced by another file"),
    "the file is emptied": (empty, "was cut from"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "store.sqlite"


@pytest.mark.parametrize("name", TOUCHES)
@pytest.mark.parametrize("linked", [False, True], ids=["", "linked"])
async def test_nothing_is_acknowledged_once_the_files_were_touched(
    name: str, linked: bool, path: Path, tmp_path: Path
) -> None:
    touch, told = TOUCHES[name]
    given = tmp_path / "link.sqlite" if linked else path
    if linked:
        given.symlink_to(path)
    backend = await SqliteBackend.open(given)
    await backend.create("before", b"v")

    touch(path)

    with pytest.raises(StoreRefused, match=told):
        await backend.create("one", b"v")
    with pytest.raises(StoreRefused, match=told):
        await backend.execute_atomically([Put("before", b"w")])
    with pytest.raises(StoreRefused, match=told):
        await backend.remove_like("be")
    await backend.close()


async def test_an_older_copy_written_over_the_file_is_noticed_by_its_length(path: Path) -> None:
    backend = await SqliteBackend.open(path)
    await backend.create("a", b"v")
    shutil.copyfile(path, beside(path, ".backup"))
    await backend.create("b", bytes(100_000))
    with closing(sqlite3.connect(path)) as person:
        person.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await backend.create("c", b"v")

    shutil.copyfile(beside(path, ".backup"), path)

    with pytest.raises(StoreRefused, match="was cut from"):
        await backend.create("d", b"v")
    await backend.close()


async def test_files_that_come_back_are_trusted_by_who_opens_them_only(path: Path) -> None:
    backend = await SqliteBackend.open(path)
    await backend.create("before", b"v")
    move_file(path)
    with pytest.raises(StoreRefused):
        await backend.create("meanwhile", b"v")
    beside(path, ".moved").rename(path)

    with pytest.raises(StoreRefused, match="is gone"):
        await backend.create("after", b"v")
    await backend.close()

    backend = await SqliteBackend.open(path)
    assert await backend.get_each(["before", "meanwhile", "after"]) == [b"v", None, None]
    await backend.create("after", b"v")
    await backend.close()


async def test_a_log_that_grows_and_is_emptied_by_sqlite_is_no_trouble(path: Path) -> None:
    backend = await SqliteBackend.open(path)
    for number in range(20):
        await backend.create(f"a{number:02}", bytes(100_000))
        with closing(sqlite3.connect(path)) as person:
            person.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await backend.remove_like("a")
    await backend.create("b", b"v")
    await backend.close()


async def test_a_writer_that_ends_leaves_one_whole_file_though_readers_have_it_open(
    path: Path,
) -> None:
    writer = await SqliteBackend.open(path)
    await writer.create("k", b"v")
    reader = await SqliteBackend.open(path, read_only=True)
    assert await reader.get("k") == b"v"
    await writer.create("l", b"w")

    await writer.close()

    shutil.copyfile(path, beside(path, ".copy"))
    assert beside(path, "-wal").stat().st_size == 0
    copy = await SqliteBackend.open(beside(path, ".copy"), read_only=True)
    assert await copy.get_each(["k", "l"]) == [b"v", b"w"]
    assert await reader.get("l") == b"w"
    await copy.close()
    await reader.close()


@pytest.mark.parametrize("way", ["backup", "vacuum"])
async def test_a_copy_made_by_sqlite_while_the_store_is_open_is_a_store(
    way: str, path: Path
) -> None:
    backend = await SqliteBackend.open(path)
    await backend.create("k", b"v")
    copied = beside(path, ".copy")
    with closing(sqlite3.connect(path)) as person:
        if way == "vacuum":
            person.execute("VACUUM INTO ?", (str(copied),))
        else:
            with closing(sqlite3.connect(copied)) as target:
                person.backup(target)
    await backend.create("later", b"v")
    await backend.close()

    copy = await SqliteBackend.open(copied)
    await copy.create("l", b"w")
    assert await copy.get_each(["k", "l", "later"]) == [b"v", b"w", None]
    await copy.close()


# A file that is written over in place, by a copy of the same length.


def read(path: Path) -> bytes:
    return path.read_bytes()


def write_over(path: Path, older: bytes) -> None:
    assert path.stat().st_size == len(older)
    path.write_bytes(older)


async def overwritten(path: Path) -> tuple[SqliteBackend, bytes]:
    """An open store over whose file an older copy of the same length was written."""
    backend = await SqliteBackend.open(path)
    await backend.create_each([(f"big/{one}", bytes(2**20)) for one in range(8)])
    await backend.create("old", b"v")
    with closing(sqlite3.connect(path)) as person:
        person.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    older = read(path)
    for one in range(4):
        await backend.execute_atomically([Put(f"big/{one}", bytes([one]) * 2**20)])
    await backend.create("new", b"w")
    write_over(path, older)
    return backend, older


async def test_an_older_copy_of_the_same_length_that_is_written_over_the_file_is_noticed(
    path: Path,
) -> None:
    backend, _ = await overwritten(path)

    with pytest.raises(StoreRefused, match="was written over"):
        await backend.create("later", b"v")
    with pytest.raises(StoreRefused, match="was written over"):
        await backend.get("old")
    await backend.close()


@pytest.mark.parametrize("noticed", [False, True], ids=["", "noticed"])
async def test_who_closes_writes_nothing_into_a_file_that_was_put_back(
    noticed: bool, path: Path
) -> None:
    backend, older = await overwritten(path)
    if noticed:
        with pytest.raises(StoreRefused):
            await backend.create("later", b"v")

    await backend.close()

    assert read(path) == older
    for read_only in (False, True):
        with pytest.raises(StoreRefused, match=r"is older than store\.sqlite-wal"):
            await SqliteBackend.open(path, read_only=read_only)
    beside(path, "-wal").rename(beside(path, "-wal.away"))
    backend = await SqliteBackend.open(path)
    assert await backend.get_each(["old", "new"]) == [b"v", None]
    await backend.create("later", b"v")
    await backend.close()


async def test_the_log_of_a_file_that_was_emptied_stays(path: Path) -> None:
    """With an older copy of the file it makes a whole store."""
    backend = await SqliteBackend.open(path)
    shutil.copyfile(path, beside(path, ".backup"))
    await backend.create("a", b"v")
    empty(path)

    with pytest.raises(StoreRefused, match="-wal is there"):
        await SqliteBackend.open(path, read_only=True)
    await backend.close()
    for read_only in (True, False):
        with pytest.raises(StoreRefused, match="-wal is there"):
            await SqliteBackend.open(path, read_only=read_only)

    beside(path, ".backup").replace(path)
    backend = await SqliteBackend.open(path)
    assert await backend.get("a") == b"v"
    await backend.close()


async def test_the_same_bytes_written_over_the_file_cost_nothing(path: Path) -> None:
    backend = await SqliteBackend.open(path)
    await backend.create("a", b"v")
    write_over(path, read(path))
    await backend.create("b", b"v")
    await backend.close()

    backend = await SqliteBackend.open(path)
    assert await backend.get_each(["a", "b"]) == [b"v", b"v"]
    await backend.close()


async def test_a_commit_that_its_file_does_not_outlive_is_in_doubt(path: Path) -> None:
    backend = await SqliteBackend.open(path)

    class Touching(list[Operation]):
        """Operations during which the file is removed."""

        @override
        def __iter__(self) -> Iterator[Operation]:
            yield from super().__iter__()
            if threading.current_thread() is not threading.main_thread():
                remove("")(path)

    with pytest.raises(OutcomeUnknown, match="is gone"):
        await backend.execute_atomically(Touching([Put("k", b"v")]))
    with pytest.raises(StoreRefused, match="is gone"):
        await backend.get("k")
    await backend.close()


async def test_a_reader_reads_the_file_that_stands_there_now(path: Path) -> None:
    for name in ("one", "other"):
        backend = await SqliteBackend.open(beside(path, name))
        await backend.create("k", name.encode())
        await backend.close()
    beside(path, "one").rename(path)
    reader = await SqliteBackend.open(path, read_only=True)
    assert await reader.get("k") == b"one"

    beside(path, "other").rename(path)
    assert await reader.get("k") == b"other"
    remove("")(path)
    with pytest.raises(NoSuchStore):
        await reader.get("k")
    await reader.close()


# A file that comes back.


@pytest.mark.parametrize("looks", [0, 1, 2])
async def test_a_file_that_is_back_is_read_and_written_as_before(
    looks: int, path: Path
) -> None:
    backend = await SqliteBackend.open(path)
    await backend.create("a", b"v")

    move_file(path)
    for _ in range(looks):
        with pytest.raises(NoSuchStore, match=str(path)):
            await backend.get("a")
    beside(path, ".moved").rename(path)

    assert await backend.get("a") == b"v"
    await backend.create("b", b"w")
    assert await backend.get("b") == b"w"
    await backend.close()


# A copy of the file without its log.


@pytest.mark.parametrize("written", [0, 1, 60], ids=["new", "short", "long"])
async def test_a_copy_without_its_log_is_refused(written: int, path: Path) -> None:
    backend = await SqliteBackend.open(path)
    for one in range(written):
        await backend.create(f"k{one}", bytes(100_000))
    copy = beside(path, ".copy")
    shutil.copyfile(path, copy)
    shutil.copyfile(beside(path, "-wal"), beside(path, ".log"))
    await backend.close()

    for read_only in (False, True):
        with pytest.raises(StoreRefused, match=r"copied without store\.sqlite\.copy-wal"):
            await SqliteBackend.open(copy, read_only=read_only)

    beside(path, ".log").rename(beside(copy, "-wal"))
    backend = await SqliteBackend.open(copy)
    assert len(await backend.get_like("k", limit=9999)) == written
    await backend.close()


async def test_a_copy_without_its_log_is_a_store_while_a_person_has_copied_the_log(
    path: Path,
) -> None:
    backend = await SqliteBackend.open(path)
    await backend.create("k", b"v")
    with closing(sqlite3.connect(path)) as person:
        person.execute("PRAGMA wal_checkpoint")
    copy = beside(path, ".copy")
    shutil.copyfile(path, copy)
    await backend.close()

    backend = await SqliteBackend.open(copy, read_only=True)
    assert await backend.get("k") == b"v"
    await backend.close()


async def test_what_a_copy_without_its_log_holds_can_be_taken(path: Path) -> None:
    backend = await SqliteBackend.open(path)
    await backend.create("k", b"v")
    copy = beside(path, ".copy")
    shutil.copyfile(path, copy)
    await backend.close()
    with closing(sqlite3.connect(copy)) as person:
        person.execute("DROP TABLE mark")

    backend = await SqliteBackend.open(copy)
    await backend.create("l", b"w")
    await backend.close()
    shutil.copyfile(copy, path)

    backend = await SqliteBackend.open(path)
    assert await backend.get_each(["k", "l"]) == [None, b"w"]
    await backend.close()


async def test_a_reader_that_lets_the_log_be_copied_in_part_only_is_no_trouble(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file alone is damaged then: it says that it has pages that only the log has."""
    backend = await SqliteBackend.open(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        keys = list[str]()
        while page_count(reader) < 7:  # The newest key is in the page that came last.
            keys.append(f"a{len(keys):04d}")
            await backend.create(keys[-1], b"0" * 400)
        reader.execute("BEGIN")
        page_count(reader)
        for key in keys:
            await backend.execute_atomically([Put(key, b"1" * 400)])
        monkeypatch.setattr(f"{SqliteBackend.__module__}.PAGES_PER_COPY", 1)
        for value in (b"2" * 400, b"3" * 400):
            await backend.execute_atomically([Put(keys[0], value)])
            assert await backend.get(keys[0]) == value
            with pytest.raises(sqlite3.DatabaseError, match="malformed"):
                keys_alone(path)
    await backend.create("b", b"")  # It copies what is left.
    assert keys_alone(path) == len(keys) + 1
    await backend.close()


def page_count(reader: sqlite3.Connection) -> int:
    (count,) = reader.execute("PRAGMA page_count").fetchone()
    return int(count)


def keys_alone(path: Path) -> int:
    """The number of keys in the file without its log."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as alone:
        (count,) = alone.execute("SELECT count(*) FROM kv").fetchone()
        return int(count)
