"""A store's file is opened only where that is right, and by one writer at a time."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tierledger.events.errors import FormatTooNew, NoSuchStore, RemoteStorageError, StoreRefused
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.backends.sqlite.file import APPLICATION_ID, FORMAT_VERSION

# Permissions do not bind root; so the parent's rights are dropped once all is imported.
AS_NOBODY = """
import asyncio, os, sys
from pathlib import Path
from tierledger.storage.backends.sqlite.backend import SqliteBackend

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

async def main():
    path, read_only = Path(sys.argv[1]), sys.argv[2] == "read"
    try:
        backend = await SqliteBackend.open(path, read_only=read_only)
    except Exception as error:
        print(type(error).__name__, error)
        return
    print(await backend.get("k"), flush=True)
    if input() == "again":
        print(await backend.get("k"))
    await backend.close()

asyncio.run(main())
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can enter; pytest's own are private."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


@pytest.mark.parametrize("read_only", [False, True])
async def test_what_is_no_file_is_refused_and_stays(read_only: bool, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(StoreRefused, match="pipe is no regular file"):
        await SqliteBackend.open(pipe, read_only=read_only)

    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]  # noqa: PTH208 - Quick, in a test.


def start_as_nobody(path: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", AS_NOBODY, str(path), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def as_nobody(path: Path, mode: str) -> str:
    """The outcome of opening the store at `path` as an unprivileged user."""
    output, _ = start_as_nobody(path, mode).communicate("done\n")
    return output


def permit(modes: dict[Path, int]) -> None:
    for path, mode in modes.items():
        path.chmod(mode)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def make_store(path: Path, value: bytes = b"v") -> None:
    backend = await SqliteBackend.open(path)
    await backend.create("k", value)
    await backend.close()


async def refusal_of(path: Path, *, read_only: bool) -> RemoteStorageError:
    with pytest.raises(RemoteStorageError) as caught:
        await SqliteBackend.open(path, read_only=read_only)
    return caught.value


async def test_a_writer_makes_the_store(tmp_path: Path) -> None:
    path = tmp_path / "b c?%#" / "store.sqlite"
    path.parent.mkdir()

    await make_store(path)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT_VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert names_in(path.parent) == ["store.sqlite", "store.sqlite.lock"]


async def test_a_writer_commits_as_durably_as_sqlite_can(tmp_path: Path) -> None:
    backend = await SqliteBackend.open(tmp_path / "store.sqlite")

    assert backend._writer is not None
    assert backend._writer.connection.execute("PRAGMA synchronous").fetchone() == (2,)

    await backend.close()


async def test_a_reader_makes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "store.sqlite"

    error = await refusal_of(path, read_only=True)

    assert isinstance(error, NoSuchStore)
    assert "no such store" in str(error)
    assert names_in(tmp_path) == []


async def test_an_empty_file_becomes_a_store_by_a_writer_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.touch()

    assert "empty" in str(await refusal_of(path, read_only=True))
    assert path.stat().st_size == 0
    await make_store(path)
    assert path.stat().st_size > 0


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_file_that_is_no_database_is_left_alone(
    tmp_path: Path, read_only: bool
) -> None:
    path = tmp_path / "notes.txt"
    text = b"Dear diary, today I bought a disk. " * 200
    path.write_bytes(text)

    error = await refusal_of(path, read_only=read_only)

    assert isinstance(error, StoreRefused)
    assert "no SQLite database" in str(error)
    assert path.read_bytes() == text
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("application_id", [0, 0x47504B47])
async def test_another_programs_database_is_left_alone(
    tmp_path: Path, read_only: bool, application_id: int
) -> None:
    path = tmp_path / "photos.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {application_id}")
        connection.execute("CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB)")
        connection.commit()
    before = path.read_bytes()

    error = await refusal_of(path, read_only=read_only)

    assert isinstance(error, StoreRefused)
    assert hex(application_id) in str(error)
    assert path.read_bytes() == before
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(("version", "kind"), [(2, FormatTooNew), (0, StoreRefused)])
async def test_another_version_is_named_and_left_alone(
    tmp_path: Path, read_only: bool, version: int, kind: type[RemoteStorageError]
) -> None:
    path = tmp_path / "store.sqlite"
    await make_store(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")

    error = await refusal_of(path, read_only=read_only)

    assert type(error) is kind
    assert f"format {version}" in str(error)


async def test_a_folder_is_no_store(tmp_path: Path) -> None:
    for read_only in (True, False):
        assert isinstance(await refusal_of(tmp_path, read_only=read_only), StoreRefused)


async def test_a_writer_makes_no_folder_since_the_path_may_be_mistyped(tmp_path: Path) -> None:
    error = await refusal_of(tmp_path / "mistyped" / "b" / "store.sqlite", read_only=False)

    assert isinstance(error, StoreRefused)
    assert f"no folder {tmp_path / 'mistyped'};" in str(error)
    assert names_in(tmp_path) == []


async def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    error = await refusal_of(tmp_path / "file" / "store.sqlite", read_only=False)

    assert isinstance(error, StoreRefused)


async def test_a_log_without_its_store_is_not_taken_for_a_new_stores(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    (tmp_path / "store.sqlite-wal").write_bytes(b"commits that are nowhere else")

    error = await refusal_of(path, read_only=False)

    assert isinstance(error, StoreRefused)
    assert not path.exists()


async def test_what_a_crash_left_of_making_a_store_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    (tmp_path / "store.sqlite.new").write_bytes(b"half of a database")

    await make_store(path)

    assert not (tmp_path / "store.sqlite.new").exists()


async def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    (tmp_path / "link.sqlite").symlink_to(path)
    first = await SqliteBackend.open(path)

    for name in ("store.sqlite", "link.sqlite"):
        error = await refusal_of(tmp_path / name, read_only=False)
        assert isinstance(error, StoreRefused)
        assert f"process {os.getpid()}" in str(error)

    await first.create("k", b"v")
    await first.close()
    second = await SqliteBackend.open(path)
    assert await second.get("k") == b"v"
    await second.close()


async def test_an_open_that_is_cancelled_leaves_no_writer(tmp_path: Path) -> None:
    opening = asyncio.create_task(SqliteBackend.open(tmp_path / "store.sqlite"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening

    assert (tmp_path / "store.sqlite").exists(), "its thread had begun"
    await (await SqliteBackend.open(tmp_path / "store.sqlite")).close()


async def test_a_writer_in_another_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    await make_store(path)
    other = start_writer(path)

    error = await refusal_of(path, read_only=False)
    other.kill()
    other.communicate()

    assert f"process {other.pid}" in str(error)
    await (await SqliteBackend.open(path)).close()


def start_writer(path: Path) -> subprocess.Popen[str]:
    """A process that has opened the store for writing and waits."""
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            AS_NOBODY.replace("geteuid() == 0", "name == ''"),
            path,
            "write",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "b'v'\n"
    return writer


async def test_a_file_that_may_not_be_written_is_read_but_not_written(shared: Path) -> None:
    path = shared / "store.sqlite"
    await make_store(path)
    permit({path: 0o444, shared: 0o777})

    assert as_nobody(path, "read") == "b'v'\n"
    assert as_nobody(path, "write").startswith("StoreRefused")


async def test_a_folder_that_may_not_be_written_is_read_but_not_written(shared: Path) -> None:
    path = shared / "store.sqlite"
    await make_store(path)
    permit({shared: 0o555})

    assert as_nobody(path, "read") == "b'v'\n"
    assert as_nobody(path, "write").startswith("StoreRefused")
    assert as_nobody(shared / "new.sqlite", "write").startswith("StoreRefused")
    assert as_nobody(shared / "new" / "store.sqlite", "write").startswith("StoreRefused")


async def test_a_reader_without_rights_sees_what_a_later_writer_commits(shared: Path) -> None:
    path = shared / "store.sqlite"
    await make_store(path)
    reader = start_as_nobody(path, "read")
    assert reader.stdout is not None
    assert reader.stdout.readline() == "b'v'\n"

    writer = await SqliteBackend.open(path)
    await writer.update("k", b"new")
    output, _ = reader.communicate("again\n")
    await writer.close()

    assert output == "b'new'\n"


async def test_a_file_that_may_not_be_read_is_refused(shared: Path) -> None:
    path = shared / "store.sqlite"
    await make_store(path)
    permit({path: 0o000})

    assert as_nobody(path, "read").startswith("StoreRefused")
