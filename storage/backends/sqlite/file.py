"""Opens a store's SQLite file: checks its kind and version, and locks out a second writer.

Rule 1: a store's file gets its name only when it is complete. So a file of that name that is no
complete store is another program's, and is left alone.
Rule 2: one process writes. It holds `flock` on `FILE.lock`, which the system releases however
the process ends. (SQLite's own lock is not enough: a frozen process that holds it blocks its
successor, and live writers starve each other.)
Rule 3: the file is opened through SQLite only. Closing any other descriptor of it would drop
the locks that SQLite holds on it in this process.
Rule 4: the writer compares the store's files with those it has opened before and after it
writes. SQLite would go on writing into a file that has no name any more.
Rule 5: whenever the file has changed, it has to hold what it held before (`mark.py`). Only
SQLite may write it, for the writer or for a person's checkpoint.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from tierledger.events.errors import (
    DataError,
    FormatTooNew,
    NoSuchStore,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.backends.sqlite.mark import StoreMark, make_mark, mark_of
from tierledger.storage.durable_files import flush

APPLICATION_ID = int.from_bytes(b"tldg", "big")
FORMAT_VERSION = 1

BUSY_TIMEOUT_S = 5.0
"""Seconds to wait for SQLite's lock. A reader holds it while it recovers the log of a killed
writer, and so may a person's `sqlite3`."""

PAGES_PER_COPY = 1000
"""After about so many pages the log is copied into the file, as SQLite does by default."""

WAL_BYTES_KEPT = 64 * 1024 * 1024
"""Bytes to which the write-ahead log is truncated after it has grown beyond."""

LOOKS = 5
LOOK_PAUSE_S = 0.02
"""How often, and with what pause, the file alone is read until it is as expected: while a log
is copied into it, its pages do not fit together."""

# Measured once on 1,000,000 rows of 90 bytes (SQLite 3.40, two cores, one virtual disk, pages
# of 4 KiB), in brackets with a ROWID: reading all in pages of 1,000 0.5 s (3.7 s), one key 7 µs
# (16 µs), file 222 MB (308 MB). Commits of one row, 0.19 ms, varied too much to compare.
SCHEMA = "CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID, STRICT"


class WriterLock:
    """The right to write one store, held until it is released or the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        _HELD.add(self)

    @classmethod
    def acquire(cls, path: Path) -> WriterLock:
        """The lock of the store at `path`, with this process's pid in it.

        Raises:
            StoreRefused: Another writer holds it, or the lock file cannot be created.
        """
        try:
            descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreRefused(f"{path} cannot be written: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            who = f"process {holder}" if holder else "another process"
            raise StoreRefused(
                f"{path} is being written by {who}; a SQLite file has one writer, such as "
                "tierledger serve: end that process first"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise StoreRefused(f"{path} cannot be locked: {error}") from error
        return cls(descriptor)

    def release(self) -> None:
        # The file stays: if it were removed, two writers could lock two files of that name.
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _HELD.discard(self)


_HELD: set[WriterLock] = set()


def _let_go_in_child() -> None:
    """A forked process writes no store, and may live longer than the one that does."""
    for lock in list(_HELD):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)


class OpenedFiles:
    """The files of a store as its writer has opened them."""

    def __init__(self, path: Path) -> None:
        """`path`: as the writer was given it; a symbolic link may lead to the file."""
        real = os.path.realpath(path)
        self._file = os.path.abspath(path)  # noqa: PTH100 - Unlike `resolve`, keeps links.
        self._names = (self._file, f"{real}-wal", f"{real}-shm")
        self._seen = {name: os.stat(name) for name in self._names}  # noqa: PTH116 - Twice as quick.
        self._trouble = ""
        self.copied = 0
        """How often the log was copied into the file, at least."""
        self.is_written = False
        """Whether the file has changed since the writer last copied the log into it."""

    def check(self, count: int = 3) -> None:
        """Check that the files are still in place; takes 5 to 10 µs.

        `count`: only the file (1), or also the log (2), or also the log's index, which holds
        nothing that could be lost.

        Raises:
            StoreRefused: One of them is not, or was not before: what was done to them since
                is not known, so nothing is written until the store is opened again.
        """
        if not self._trouble:
            for name in self._names[:count]:
                if trouble := self._change_of(name, self._seen[name]):
                    self._trouble = trouble
                    break
        self.refuse()

    def refuse(self) -> None:
        """Raise `StoreRefused` if a file was not in place when `check` looked."""
        if self._trouble:
            raise StoreRefused(
                f"{self._trouble} while the store was open; expected that nobody touches it. "
                "Nothing is written any more: end the service, put back the file that was "
                "open, and start the service again"
            )

    def _change_of(self, name: str, before: os.stat_result) -> str:
        try:
            now = os.stat(name)  # noqa: PTH116 - As above.
        except OSError as error:
            return f"{name} is gone ({error.strerror})"
        if (now.st_ino, now.st_dev) != (before.st_ino, before.st_dev):
            return f"{name} was replaced by another file"
        # The log grows and shrinks; SQLite never makes the file itself shorter by itself.
        if name == self._file and now.st_size < before.st_size:
            return f"{name} was cut from {before.st_size} to {now.st_size} bytes"
        if name == self._file and now.st_mtime_ns != before.st_mtime_ns:
            return self._look_into(now)
        return ""

    def _look_into(self, now: os.stat_result) -> str:
        for _ in range(LOOKS):
            try:
                if _mark_in(Path(self._file)).copied >= self.copied:
                    self._seen[self._file], self.is_written = now, True
                    return ""
            except sqlite3.Error as error:
                # A reader has let only a part of the log be copied. Without the rest the file
                # may have fewer pages than it says; the next check looks again.
                if _code(error) == sqlite3.SQLITE_CORRUPT:
                    return ""
            threading.Event().wait(LOOK_PAUSE_S)
            with suppress(OSError):
                now = os.stat(self._file)  # noqa: PTH116 - As above.
        return f"{self._file} was written over by an older copy, or by something else,"


class StoreReader:
    """A connection that reads a store and never changes it."""

    def __init__(self, path: Path) -> None:
        """Open the store at `path`.

        Raises:
            NoSuchStore: There is none.
            StoreRefused: It is another program's, or it cannot be read here.
            DataError: The file is damaged.
            FormatTooNew: A newer program created it.
            StorageUnavailable: The medium failed.
        """
        self._path = Path(os.path.realpath(path))
        self._connection, self._immutable = self._open()
        self._inode = self._path.stat().st_ino

    def connection(self) -> sqlite3.Connection:
        """A connection that sees the newest commit; raises as `__init__`."""
        # A file that was removed or replaced would be read on, though nobody writes it.
        if not self._immutable and self._found_inode() != self._inode:
            self._reopen()
            self._inode = self._found_inode()
        # In a folder without write permission the file is opened as immutable, without locks.
        # If a writer with the permission has come since, its write-ahead log exists: open the
        # file again to read that, too.
        if self._immutable and _is_there(_beside(self._path, "-wal")):
            self._reopen()
        return self._connection

    def _reopen(self) -> None:
        """Replace the connection. The former stays if there is none: its file may come back."""
        former = self._connection
        self._connection, self._immutable = self._open()
        former.close()

    def close(self) -> None:
        self._connection.close()

    def _found_inode(self) -> int:
        try:
            return os.stat(self._path).st_ino  # noqa: PTH116 - As above.
        except OSError:
            return 0

    def _open(self) -> tuple[sqlite3.Connection, bool]:
        """A connection, and whether it takes the file for immutable."""
        if not self._path.exists():
            raise NoSuchStore(f"no such store: {self._path}")
        _check_kind(self._path)
        try:
            return _checked(self._path, "mode=ro"), False
        except sqlite3.Error as error:
            if _code(error) not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
                raise refusal(self._path, error) from error
            if not os.access(self._path, os.R_OK):
                raise StoreRefused(f"{self._path} is not yours to read") from error
            if _is_there(_beside(self._path, "-wal")):
                raise StoreRefused(
                    f"{self._path} cannot be read here ({error}); if the last writer did not "
                    "close it, its folder must be writable once"
                ) from error
        with refused(self._path):
            return _checked(self._path, "mode=ro&immutable=1"), True


def open_writer(path: Path) -> tuple[sqlite3.Connection, WriterLock]:
    """A connection that may write the store at `path`, created if missing, and its lock.

    Raises:
        StoreRefused: Another process writes it, it is another program's, it cannot be
            written, or its folder is missing.
        DataError: The file is damaged.
        FormatTooNew: A newer program created it.
        StorageUnavailable: The medium failed.
    """
    path = Path(os.path.realpath(path))
    _check_kind(path)
    _check_folder(path)
    if _is_there(path):
        # Check the file before a lock file is put beside what may be another program's.
        StoreReader(path).close()
    lock = WriterLock.acquire(path)
    try:
        if not _is_there(path):
            _create(path)
        return _open_locked(path), lock
    except BaseException:
        lock.release()
        raise


def open_guard(path: Path) -> sqlite3.Connection:
    """A second connection to a store that is open for writing.

    While it is open, SQLite does not copy the log into the file when the writer closes: that
    may be another file by then. It never does so itself, as it cannot write.
    """
    path = Path(os.path.realpath(path))
    with refused(path):
        guard = _connect(path, "mode=ro")
        known_mark(guard)  # Only then it holds SQLite's lock.
    return guard


def _open_locked(path: Path) -> sqlite3.Connection:
    with refused(path):
        connection = _checked(path, "mode=rw")
        try:
            # A copy that `VACUUM INTO` has made is not in this mode.
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreRefused(f"{path}: expected SQLite's mode WAL here, got {mode}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # On macOS only this is durable.
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
            # The writer does it, with a mark; SQLite, if that cannot for long.
            connection.execute(f"PRAGMA wal_autocheckpoint = {4 * PAGES_PER_COPY}")
            # Without write permission SQLite opens the file for reading; only a write fails.
            make_mark(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _create(path: Path) -> None:
    """Create an empty store under a temporary name, then rename it."""
    _check_alone(path)
    new = _beside(path, ".new")
    try:
        for suffix in ("", "-wal", "-shm", "-journal"):
            _beside(new, suffix).unlink(missing_ok=True)
        with refused(path), closing(_connect(new, "mode=rwc")) as connection:
            connection.execute("BEGIN")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            connection.execute(SCHEMA)
            connection.execute("COMMIT")
            make_mark(connection)
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreRefused(f"{path}: this file system does not allow SQLite's WAL mode")
        new.replace(path)
        flush(path.parent)
    except OSError as error:
        raise StoreRefused(f"{path} cannot be made: {error}") from error


def _check_alone(path: Path) -> None:
    """Refuse a missing or empty file whose log is there: SQLite would remove the log."""
    for suffix in ("-wal", "-journal"):
        if not _is_there(path) and _is_there(_beside(path, suffix)):
            raise StoreRefused(
                f"{path} is missing or empty, but {path.name}{suffix} is there: put back the "
                "file that belongs to it, or move it away"
            )


def _checked(path: Path, options: str) -> sqlite3.Connection:
    """A connection to the file at `path`, after a check that it is a store of tierledger."""
    _check_alone(path)
    connection = _connect(path, options)
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise StoreRefused(
                f"{path} is not a store of tierledger: {_found(path, application)}"
            )
        if version > FORMAT_VERSION:
            raise FormatTooNew(
                f"{path} has format {version}, and this program knows {FORMAT_VERSION}"
            )
        if version < 1:
            raise StoreRefused(f"{path} says it has format {version}, which there never was")
        _check_mark(path, known_mark(connection))
    except BaseException:
        connection.close()
        raise
    return connection


def _check_mark(path: Path, mark: StoreMark) -> None:
    """Refuse a file whose log is missing, and one that is older than its log."""
    log = f"{path.name}-wal"
    if not _is_there(_beside(path, "-wal")):
        if mark.needs_log:
            raise StoreRefused(
                f"{path} lacks its newest commits: it was copied without {log}, or that was "
                f"removed. Put {log} beside it, or copy the store as docs/settings.md tells; "
                f"to take what is there, run sqlite3 {path} 'DROP TABLE mark'"
            )
        return
    with suppress(sqlite3.Error):  # While a log is copied, its pages do not fit together.
        if _mark_in(path).copied + mark.needs_log < mark.copied:
            raise StoreRefused(
                f"{path} is older than {log}, with which it makes no whole store: put back the "
                f"file to which {log} belongs; or, to take the older file, move {log} away"
            )


def known_mark(connection: sqlite3.Connection) -> StoreMark:
    """The store's mark; the first one if it is damaged, which is reported when it is read."""
    try:
        return mark_of(connection)
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
        return StoreMark()


def _mark_in(path: Path) -> StoreMark:
    """The mark in the file at `path` alone, without its log."""
    with closing(_connect(path, "mode=ro&immutable=1")) as connection:
        return mark_of(connection)


def _found(path: Path, application: int) -> str:
    if not _is_there(path):
        return "it is an empty file"
    return f"it is a SQLite database with application_id {application:#x}"


def _connect(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?{options}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,  # No implicit transactions.
        check_same_thread=False,  # Opened in one thread, used in another, never in two at once.
    )


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _check_kind(path: Path) -> None:
    """Refuse a path that is no regular file: a device looks empty, but must not be replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # Opening the file reports the error.
    if stat.S_ISDIR(mode):
        raise StoreRefused(f"{path} is a folder, not a store")
    if not stat.S_ISREG(mode):
        raise StoreRefused(f"{path} is no regular file, so no store")


def _check_folder(path: Path) -> None:
    """Refuse a path in a missing folder: who mistypes it must not get an empty store."""
    try:
        missing = [one for one in path.parents if not one.is_dir()]
    except OSError as error:
        raise StoreRefused(f"{path} cannot be made: {error}") from error
    if missing:
        raise StoreRefused(
            f"{path} cannot be made: there is no folder {missing[-1]}; check the path, or make "
            f"the folder {path.parent} if a new store is to be there"
        )


def _is_there(path: Path) -> bool:
    """Whether there is a file at `path` that is not empty."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, or -1 for an error of Python's own."""
    code = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether the file itself is damaged."""
    return _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk was full; SQLite has rolled the step back then."""
    return _code(error) == sqlite3.SQLITE_FULL


def refusal(path: Path, error: sqlite3.Error) -> DataError | StorageUnavailable:
    """The exception for `error` while the store at `path` was opened."""
    if _code(error) == sqlite3.SQLITE_CORRUPT:
        return DataError(f"{path} is damaged: {error}")
    if _code(error) == sqlite3.SQLITE_NOTADB:
        return StoreRefused(f"{path} is not a store of tierledger: it is no SQLite database")
    if is_full(error) or _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR}:
        return StorageUnavailable(f"{path}: {error}")
    return StoreRefused(f"{path}: {error}")


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Convert SQLite's errors while the store at `path` is opened, by `refusal`."""
    try:
        yield
    except sqlite3.Error as error:
        raise refusal(path, error) from error
