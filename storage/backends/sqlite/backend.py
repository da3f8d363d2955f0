"""The embedded store: one SQLite file, one writing process, any number of readers.

One thread writes and another reads, each with its own connection; in WAL mode neither waits for
the other. The event loop only hands work to them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, assert_never

from typing_extensions import override

from tierledger.events.errors import (
    DataError,
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.backend import (
    NO_FORMERS,
    AtomicConflict,
    ConflictReason,
    Create,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
    Put,
    Remove,
    Update,
    behind_folder,
    check_items,
    check_key,
    check_page,
    check_prefix,
    conflict_of,
    folder_of,
    key_after,
    older_store,
)
from tierledger.storage.backends.checking import checked_beside
from tierledger.storage.backends.open_store import KEYS_PER_REMOVAL, OpenStore, removed
from tierledger.storage.backends.sqlite.file import (
    FORMAT_VERSION,
    PAGES_PER_COPY,
    OpenedFiles,
    StoreReader,
    is_corrupt,
    is_full,
    known_mark,
    open_guard,
    open_writer,
)
from tierledger.storage.backends.sqlite.mark import StoreMark, put_mark

T = TypeVar("T")

KEYS_PER_STATEMENT = 32
"""Keys that one statement creates or reads. For each statement the thread releases Python's
global lock and waits for it again, up to 5 ms if the event loop is busy."""

CHECKPOINT = "PRAGMA wal_checkpoint({})"
SELECT = "SELECT value FROM kv WHERE key = ?"
SELECT_LAST = "SELECT key FROM kv WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"
CREATE_EACH = (
    "INSERT INTO kv (key, value) WITH item (key, value, bound, former, beginning)"
    " AS (VALUES {}) SELECT key, value FROM item WHERE NOT EXISTS"
    " (SELECT 1 FROM item AS one, kv WHERE kv.key >= one.key AND kv.key < one.bound)"
    " AND NOT EXISTS (SELECT 1 FROM item AS one WHERE one.former IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM kv WHERE kv.key = one.former"
    " AND (one.beginning = x'' OR substr(kv.value, 1, length(one.beginning)) = one.beginning)))"
)
"""Creates all items if each is after all keys of its folder and has its former, else none.
`bound` is the first text after the folder."""
SELECT_LIKE = "SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
INSERT = "INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING"
PUT = "INSERT OR REPLACE INTO kv (key, value) VALUES (?, ?)"
UPDATE = "UPDATE kv SET value = ? WHERE key = ?"
UPDATE_EXPECTED = "UPDATE kv SET value = ? WHERE key = ? AND value = ?"
DELETE = "DELETE FROM kv WHERE key = ?"
DELETE_EXPECTED = "DELETE FROM kv WHERE key = ? AND value = ?"
DELETE_LIKE = (
    "DELETE FROM kv WHERE key IN"
    " (SELECT key FROM kv WHERE key >= ? AND key < ? ORDER BY key LIMIT ?)"
)


class _Writer:
    """The writing connection; used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.connection, self._lock = open_writer(path)
        self.unsettled = False
        self._older: StoreRefused | None = None
        try:
            self._guard = open_guard(path)
            self._files = OpenedFiles(path)
            self._mark = known_mark(self.connection)
        except BaseException as error:
            with suppress(sqlite3.Error):
                self.connection.close()
            self._lock.release()
            if isinstance(error, OSError):
                gone = f"{path} went away while it was opened: {error}"
                raise StoreRefused(gone) from error
            raise
        self._files.copied = self._mark.copied
        self._rows = self.connection.total_changes
        self._pages = 0
        """About how many pages were written since the log was copied into the file."""
        self._copy_log()

    def step(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `work`, once its changes are durable; an error if nothing changed."""
        self._check()
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            result = work(self.connection)
        except BaseException as error:
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise _read_error(self._path, error) from error
            raise
        try:
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise self._commit_error(error) from error
        self._committed(0)
        return result

    def statement(self, text: str, values: Sequence[str | bytes | None]) -> int:
        """The number of rows that one statement changed, durably.

        The statement is a transaction by itself, so Python's lock is released once instead of
        three times.
        """
        self._check()
        try:
            changed = self.connection.execute(text, values).rowcount
        except sqlite3.Error as error:
            if is_corrupt(error):  # Found while searching, before anything is written.
                raise _read_error(self._path, error) from error
            raise self._commit_error(error) from error
        self._committed(sum(map(len, filter(None, values))))
        return changed

    def _committed(self, size: int) -> None:
        """Look at the files again after a commit of `size` bytes; copy the log if it is long.

        Raises:
            OutcomeUnknown: They were touched meanwhile, so nobody may find the commit.
        """
        try:
            self._files.check(2)
        except StoreRefused as error:
            raise OutcomeUnknown(str(error)) from error
        rows, self._rows = self._rows, self.connection.total_changes
        self._pages += 1 + self._rows - rows + size // 4096
        if self._pages >= PAGES_PER_COPY or self._files.is_written:
            self._copy_log()

    def _copy_log(self) -> None:
        """Have SQLite copy the log into the file, with a mark of that."""
        copied, self._pages = self._mark.copied + 1, 0
        try:
            put_mark(self.connection, StoreMark(copied, needs_log=True))
            ended = self.connection.execute(CHECKPOINT.format("PASSIVE")).fetchone()
            if ended == (0, ended[1], ended[1]):  # Else a reader needs the file as it is.
                self._mark = StoreMark(copied)
            put_mark(self.connection, self._mark)
        except sqlite3.Error:
            self.unsettled = True  # As after a commit that failed; the next one tries again.
        self._files.copied = self._mark.copied
        with suppress(StoreRefused):
            self._files.check()
        self._files.is_written = False

    def require(self, former: Former) -> None:
        """Check within a step that `former` is there, so that its item may follow it.

        Raises:
            StoreRefused: It is not. Nothing is written any more.
        """
        value = _select(self.connection, former.key)
        if value is None or not value.startswith(former.beginning):
            self._older = older_store(self._path, former.key)
            raise self._older

    def _check(self) -> None:
        if self._older is not None:
            raise StoreRefused(*self._older.args)
        self._files.check()
        self.settle()

    def settle(self) -> None:
        """Make sure that a commit with an unknown outcome has not happened and never will.

        Its last frame may be in the write-ahead log, but not in its index: it is invisible now,
        but recovery after a restart would find it. The next commit that succeeds overwrites it.
        """
        if self.connection.in_transaction:
            self._roll_back()
        if not self.unsettled:
            return
        try:
            self.connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        except sqlite3.Error as error:
            raise _read_error(self._path, error) from error
        self.unsettled = False

    def close(self) -> None:
        with suppress(sqlite3.Error, StoreRefused):
            self._files.check()
            self._guard.close()
            # The file alone is the whole store then, though readers have it open. If one of
            # them reads for so long that SQLite gives up, a later process does it.
            put_mark(self.connection, StoreMark(self._mark.copied + 1))
            self.connection.execute(CHECKPOINT.format("TRUNCATE"))
        with suppress(sqlite3.Error):
            self.connection.close()
        self._guard.close()
        self._lock.release()

    def refuse(self) -> None:
        """Raise `StoreRefused` if the files are known to have been touched."""
        self._files.refuse()

    def _roll_back(self) -> None:
        # If the rollback fails, too, the next step tries it again first.
        with suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def _commit_error(self, error: sqlite3.Error) -> Exception:
        if is_full(error):
            return StorageUnavailable(f"{self._path}: {error}")
        self.unsettled = True
        return OutcomeUnknown(f"{self._path}: {error}, while committing")


class SqliteBackend(MetadataStorageBackend):
    """A store in one SQLite file."""

    def __init__(self, path: Path, writer: _Writer | None, reader: StoreReader) -> None:
        """Not called directly: `open` does what takes time in another thread."""
        self._opened = OpenStore(f"the open store {path}", str(path))
        self._path = path
        self._writer = writer
        self._reader = reader
        self._writing = ThreadPoolExecutor(1, "sqlite-writer")
        self._reading = ThreadPoolExecutor(1, "sqlite-reader")

    @classmethod
    async def open(cls, path: Path, *, read_only: bool = False) -> SqliteBackend:
        """The store at `path`; a writer creates it if missing, in a folder that is there.

        Raises:
            NoSuchStore: There is none, and it was opened for reading.
            StoreRefused: Another process writes it, it is another program's file, or it cannot
                be written. A later write raises it if the store's files were touched.
            FormatTooNew: A newer program created it.
            StorageUnavailable: The medium failed.
        """
        opening = asyncio.create_task(asyncio.to_thread(cls._open, path, read_only))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread goes on; what it opens would stay open, and locked.
            with suppress(RemoteStorageError):
                await (await opening).close()
            raise

    @classmethod
    def _open(cls, path: Path, read_only: bool) -> SqliteBackend:
        writer = None if read_only else _Writer(path)
        try:
            return cls(path, writer, StoreReader(path))
        except BaseException:
            if writer is not None:
                writer.close()
            raise

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        for key in keys:
            check_key(key)
        return await self._read(lambda connection: _select_each(connection, keys))

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        check_page(prefix, after, limit)
        start, end = _bounds(prefix)
        if after is not None and after >= prefix:
            start = after + "\0"  # The next text, as no key has a NUL.
        return await self._read(
            lambda connection: connection.execute(SELECT_LIKE, (start, end, limit)).fetchall()
        )

    @override
    async def get_firsts(
        self, prefix: str, levels: int, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        check_page(prefix, after, limit)
        start, end = _bounds(prefix)
        if after is not None and after >= prefix:
            start = after + "\0"

        def firsts(connection: sqlite3.Connection) -> list[tuple[str, bytes]]:
            found: list[tuple[str, bytes]] = []
            begin = start
            while len(found) < limit:
                page = connection.execute(SELECT_LIKE, (begin, end, 1)).fetchall()
                if not page:
                    break
                found += page
                begin = behind_folder(prefix, page[0][0], levels) + "\0"
            return found

        return await self._read(firsts)

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        for prefix in prefixes:
            check_prefix(prefix)
        return await self._read(
            lambda connection: [
                key for some in _some(prefixes) for key in _last_keys(connection, some)
            ]
        )

    @override
    async def remove_like(self, prefix: str) -> int:
        check_prefix(prefix)
        bounds = (*_bounds(prefix), KEYS_PER_REMOVAL)
        return await removed(
            lambda: self._write(
                lambda connection: connection.execute(DELETE_LIKE, bounds).rowcount
            )
        )

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await checked_beside(operations)
        await self._write(lambda connection: _execute_each(connection, operations))

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        check_items(items)
        return await self._in_writer(lambda writer: _create_each(writer, items, formers))

    @override
    async def close(self) -> None:
        # A forked process would lock and change what the other one has open.
        await self._opened.close(self._close_both)

    async def _close_both(self) -> None:
        loop = asyncio.get_running_loop()
        # After the work in flight. The writer closes last, as the last checkpoints the log.
        await loop.run_in_executor(self._reading, self._reader.close)
        if self._writer is not None:
            await loop.run_in_executor(self._writing, self._writer.close)
        self._reading.shutdown(wait=False)
        self._writing.shutdown(wait=False)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._opened.check()
        loop = asyncio.get_running_loop()
        if self._writer is not None and self._writer.unsettled:
            await loop.run_in_executor(self._writing, self._writer.settle)
        return await loop.run_in_executor(self._reading, self._read_now, work)

    def _read_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._writer is not None:
            self._writer.refuse()
        try:
            return work(self._reader.connection())
        except sqlite3.Error as error:
            raise _read_error(self._path, error) from error

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._in_writer(lambda writer: writer.step(work))

    async def _in_writer(self, work: Callable[[_Writer], T]) -> T:
        self._opened.check()
        if self._writer is None:
            raise StoreRefused(f"{self._path} was opened for reading only")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writing, work, self._writer)


def _read_error(path: Path, error: sqlite3.Error) -> Exception:
    """The exception for an error that left the store unchanged."""
    if is_corrupt(error):
        return DataError(f"{path}: {error}")
    return StorageUnavailable(f"{path}: {error}")


def _bounds(prefix: str) -> tuple[str, str | bytes]:
    """The range of keys that start with `prefix`; SQLite sorts blobs after all text."""
    end = key_after(prefix)
    return prefix, b"" if end is None else end


def _select_each(connection: sqlite3.Connection, keys: Sequence[str]) -> list[bytes | None]:
    if len(keys) == 1:
        return [_select(connection, keys[0])]
    connection.execute("BEGIN")
    try:
        return [_select(connection, key) for key in keys]
    finally:
        if connection.in_transaction:  # An error may have ended the transaction.
            connection.execute("COMMIT")


def _select(connection: sqlite3.Connection, key: str) -> bytes | None:
    # Fetching all rows ends the statement, which would otherwise keep its read snapshot.
    rows = connection.execute(SELECT, (key,)).fetchall()
    return rows[0][0] if rows else None


def _create_each(
    writer: _Writer, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former]
) -> list[CreateOutcome]:
    if 0 < len(items) <= KEYS_PER_STATEMENT and _are_all_created(
        writer.statement, items, formers
    ):
        return [CreateOutcome.CREATED] * len(items)
    return writer.step(lambda connection: _create_some(writer, connection, items, formers))


def _create_some(
    writer: _Writer,
    connection: sqlite3.Connection,
    items: Sequence[tuple[str, bytes]],
    formers: Mapping[str, Former],
) -> list[CreateOutcome]:
    # Sorting is stable: of two items with one key, the first is created.
    order = sorted(range(len(items)), key=lambda at: items[at][0])
    outcomes: dict[int, CreateOutcome] = {}
    for some in _some(order):
        if _are_all_created(
            lambda text, values: connection.execute(text, values).rowcount,
            [items[at] for at in some],
            formers,
        ):
            outcomes.update(dict.fromkeys(some, CreateOutcome.CREATED))
            continue
        for at in some:
            key, value = items[at]
            outcomes[at] = _create(connection, key, value)
            if outcomes[at] is CreateOutcome.CREATED and key in formers:
                writer.require(formers[key])
    return [outcomes[at] for at in range(len(items))]


def _are_all_created(
    execute: Callable[[str, Sequence[str | bytes | None]], int],
    items: Sequence[tuple[str, bytes]],
    formers: Mapping[str, Former],
) -> bool:
    """Create `items` if all of them can be; whether they were."""
    if len(dict(items)) < len(items):
        return False
    values: list[str | bytes | None] = []
    for key, value in items:
        folder = folder_of(key)
        # Without a folder a key's range is only itself, up to the next text: key and NUL.
        values += (key, value, key + "\0" if folder is None else _bounds(folder)[1])
        values += formers.get(key, (None, b""))
    text = CREATE_EACH.format(", ".join(["(?, ?, ?, ?, ?)"] * len(items)))
    return execute(text, values) == len(items)


def _create(connection: sqlite3.Connection, key: str, value: bytes) -> CreateOutcome:
    folder = folder_of(key)
    last = None if folder is None else _last_keys(connection, [folder])[0]
    if last is not None and last > key:
        is_there = _select(connection, key) is not None
        return CreateOutcome.EXISTS if is_there else CreateOutcome.PASSED
    is_new = connection.execute(INSERT, (key, value)).rowcount
    return CreateOutcome.CREATED if is_new else CreateOutcome.EXISTS


def _last_keys(connection: sqlite3.Connection, prefixes: Sequence[str]) -> Sequence[str | None]:
    bounds = [bound for prefix in prefixes for bound in _bounds(prefix)]
    columns = ", ".join([f"({SELECT_LAST})"] * len(prefixes))
    found: list[tuple[str | None, ...]]
    found = connection.execute(f"SELECT {columns}", bounds).fetchall()
    return found[0]


def _some(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """`items` in pieces of at most `KEYS_PER_STATEMENT`."""
    for start in range(0, len(items), KEYS_PER_STATEMENT):
        yield items[start : start + KEYS_PER_STATEMENT]


def _execute_each(connection: sqlite3.Connection, operations: Sequence[Operation]) -> None:
    for operation in operations:
        conflict = _execute(connection, operation)
        if conflict is not None:
            raise AtomicConflict(operation.key, conflict)


def _execute(connection: sqlite3.Connection, operation: Operation) -> ConflictReason | None:
    """Carry out `operation`; returns why it failed, or None."""
    match operation:
        case Create(key, value):
            cursor = connection.execute(INSERT, (key, value))
        case Put(key, value):
            cursor = connection.execute(PUT, (key, value))
        case Remove(key, None):
            cursor = connection.execute(DELETE, (key,))
        case Update(key, value, None):
            cursor = connection.execute(UPDATE, (value, key))
        case Update(key, value, expected):
            cursor = connection.execute(UPDATE_EXPECTED, (value, key, expected))
        case Remove(key, expected):
            cursor = connection.execute(DELETE_EXPECTED, (key, expected))
        case _:
            assert_never(operation)
    return None if cursor.rowcount else conflict_of(operation, _select(connection, key))
