"""What is done to a store's files while it is open, and the file that is left at the end."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tierledger.events.errors import StoreRefused
from tierledger.storage.backend import Put
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
