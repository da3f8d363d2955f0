"""A SlateDB database by its official binding: keys of bytes, durable batches, moments.

Rule 1: a call ends, with an answer or with one of our errors. SlateDB repeats a request that
fails without end.
Rule 2: whatever is read is of one moment, and durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from tierledger.events.errors import (
    DataError,
    FormatTooNew,
    NoSuchStore,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.backend import FORMER_BYTES, WriterReplaced, key_after
from tierledger.storage.backends.slatedb.binding import (
    AdminBuilder,
    CloseReason,
    Db,
    DbBuilder,
    DbCache,
    DbReader,
    DbReaderBuilder,
    DbSnapshot,
    DurabilityLevel,
    Error,
    FlushOptions,
    FlushType,
    IterationOrder,
    KeyRange,
    MokaCacheOptions,
    ObjectStore,
    ReaderMode,
    ReaderOptions,
    ReadOptions,
    ScanOptions,
    Settings,
    WriteBatch,
)
from tierledger.storage.backends.slatedb.draft import Tail
from tierledger.storage.backends.slatedb.place import DatabasePlace, Listing

ANSWER_S = 15.0
"""How long a call waits for the bucket."""

LOOK_S = 0.5
"""How often the writer looks whether it was replaced. SlateDB itself notices that at its next
commit, or within two seconds."""

COMMITS_PER_TABLE = 64
"""Commits after which their objects become one table. A successor reads the commits since then
one by one before it can write."""

FORMAT_KEY = b"\0tierledger"
"""Before all keys, which have no NUL. Its value is the format's version."""
FIRST_KEY = b"\1"
FORMAT_VERSION = 1

KEYS_AT_ONCE = 64
"""Keys that are asked for at the same time."""

ROWS_PER_STEP = 100
"""Rows of a page that are taken in one step of the event loop: 0.6 ms."""

VIEW_S = 120.0
"""The age at which a view is renewed though nothing was written: what it reads may be merged
into other tables meanwhile, and removed a quarter of an hour later."""

VIEW_COSTS = 10.0
"""A view that may be behind serves so many times as long as it took to take it: so beside a
busy writer a command spends a tenth of its time on views, however slow the bucket is."""

NEVER_MS = 10**16
"""After so long SlateDB's reader would look for newer commits by itself. Its first look is at
once unless the time is longer than that since the beginning of its calendar, 264,000 years:
then views changed while they were read."""

CACHE_BYTES = 64 * 1024 * 1024
"""Blocks that a reader keeps."""

_SETTINGS = {
    "flush_interval": "null",  # Each commit says when it is to be durable.
    "manifest_poll_interval": '"2s"',
}


READ_OPTIONS = ReadOptions(
    durability_filter=DurabilityLevel.REMOTE, dirty=False, cache_blocks=True
)


class StoreMoment:
    """The store as of one moment."""

    def __init__(self, place: DatabasePlace, source: DbSnapshot | DbReader) -> None:
        self._place = place
        self._source = source

    async def values(self, keys: Sequence[str]) -> list[bytes | None]:
        found: list[bytes | None] = []
        async with answered(self._place):
            for start in range(0, len(keys), KEYS_AT_ONCE):
                some = keys[start : start + KEYS_AT_ONCE]
                found += await asyncio.gather(*(self._value(key.encode()) for key in some))
        return found

    async def _value(self, key: bytes) -> bytes | None:
        value: bytes | None = await self._source.get_with_options(key, READ_OPTIONS)
        return value

    async def page(self, prefix: str, after: str | None, limit: int) -> list[tuple[str, bytes]]:
        """As `MetadataStorageBackend.get_like`."""
        is_after = after is not None and after >= prefix
        start = after if is_after and after is not None else prefix
        async with answered(self._place):
            return await self._scanned(
                start, not is_after, prefix, limit, IterationOrder.ASCENDING
            )

    async def tails(self, folders: Sequence[str]) -> list[Tail]:
        """The last key that starts with each of `folders`, and with what its value begins."""
        found: list[Tail] = []
        async with answered(self._place):
            for start in range(0, len(folders), KEYS_AT_ONCE):
                some = folders[start : start + KEYS_AT_ONCE]
                found += await asyncio.gather(*map(self._tail, some))
        return found

    async def _tail(self, folder: str) -> Tail:
        last = await self._scanned(folder, True, folder, 1, IterationOrder.DESCENDING)
        return Tail(last[0][0], last[0][1][:FORMER_BYTES]) if last else Tail()

    async def _scanned(
        self, start: str, includes_start: bool, prefix: str, limit: int, order: IterationOrder
    ) -> list[tuple[str, bytes]]:
        end = key_after(prefix)
        if end is not None and start >= end:
            return []
        found = await self._source.scan_with_options(
            _key_range(start, includes_start, end), _scan_options(order)
        )
        page: list[tuple[str, bytes]] = []
        while len(page) < limit:
            some = await found.next_batch(min(limit - len(page), ROWS_PER_STEP))
            page += [(one.key.decode(), one.value) for one in some]
            if not some:
                break
        return page

    async def version(self) -> int | None:
        """The version of the store's format; None: it has no keys at all.

        Raises:
            StoreRefused: It is another program's.
        """
        async with answered(self._place):
            value = await self._value(FORMAT_KEY)
            if value is not None:
                return int(value)
            if await self._scanned("", True, "", 1, IterationOrder.ASCENDING):
                raise StoreRefused(
                    f"{self._place.shown} is not a store of tierledger: it is another "
                    "program's SlateDB database"
                )
        return None


class Database:
    """A database that is open for writing; opening it has fenced whoever wrote it before."""

    def __init__(self, place: DatabasePlace, db: Db) -> None:
        self._place = place
        self._db = db
        self._commits = 0
        self._table: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, place: DatabasePlace) -> Database:
        """The database at `place`, of whatever program; made if there is none.

        Raises:
            StorageUnavailable: The bucket does not answer.
        """
        settings: Settings = Settings.default()
        for name, value in _SETTINGS.items():
            settings.set(name, value)
        builder = DbBuilder(place.name, place.objects())
        builder.with_settings(settings)
        async with answered(place):
            return cls(place, await builder.build())

    async def missing(self, *, is_there: bool) -> dict[bytes, bytes]:
        """What the first commit has to write: the format of a store that is new.

        Raises:
            NoSuchStore: It `is_there`, and is not.
            StoreRefused: It is another program's.
            FormatTooNew: A newer release made it.
            StorageUnavailable: The bucket does not answer.
        """
        version = await (await self.moment()).version()
        if version is not None:
            check_version(self._place, version)
            return {}
        if is_there:
            raise NoSuchStore(f"no such store: {self._place.shown}; it was there before")
        return {FORMAT_KEY: b"%d" % FORMAT_VERSION}

    async def moment(self) -> StoreMoment:
        """The store as of now, after all commits, none of which may be under way.

        Raises:
            WriterReplaced: Another process has opened it for writing.
            StorageUnavailable: It is closed.
        """
        async with answered(self._place):
            return StoreMoment(self._place, await self._db.snapshot())

    async def commit(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Carry out `changes` at once; durable when it returns.

        It has no time limit; the caller must not cancel it, but may stop waiting.

        Raises:
            WriterReplaced: Another process has opened it for writing. Whether the changes are
                there, that process knows.
            StorageUnavailable: Nobody knows whether they are there.
        """
        batch = WriteBatch()
        for key, value in changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        with explained(self._place):
            await self._db.write(batch)
            await self._db.flush_with_options(FlushOptions(flush_type=FlushType.WAL))
        self._commits += 1
        if self._commits % COMMITS_PER_TABLE == 0 and self._table is None:
            self._table = asyncio.create_task(self._make_table())

    @property
    def is_replaced(self) -> bool:
        """Whether SlateDB has noticed that another process opened it for writing."""
        return bool(self._db.status().close_reason == CloseReason.FENCED)

    async def _make_table(self) -> None:
        """Make a table of the commits; if it fails, the next one has more of them."""
        try:
            with suppress(StorageUnavailable, StoreRefused), explained(self._place):
                await self._db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE))
        finally:
            self._table = None

    async def close(self) -> None:
        """Close it. What was committed is durable already, so errors do not matter."""
        with suppress(StorageUnavailable, StoreRefused):
            async with answered(self._place):
                await self._db.shutdown()


class _View:
    """A reader of one moment, and how many calls read it."""

    def __init__(self, place: DatabasePlace, reader: DbReader) -> None:
        self._moment = StoreMoment(place, reader)
        self._reader = reader
        self._reads = 0
        self._is_retired = False

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[StoreMoment]:
        self._reads += 1
        try:
            yield self._moment
        finally:
            self._reads -= 1
            await self._end_if_unused()

    async def retire(self) -> None:
        """End it once nobody reads it: it keeps memory, and a task of SlateDB's, until then."""
        self._is_retired = True
        await self._end_if_unused()

    async def _end_if_unused(self) -> None:
        if self._is_retired and not self._reads:
            await _shut(self._reader)


class Views:
    """Views of a database that another process may write."""

    def __init__(self, place: DatabasePlace, patience_s: float = 0.0) -> None:
        """Views whose first is taken at the first call.

        `patience_s`: a view serves so long, or `VIEW_COSTS` times as long as it took to take
        it, before newer commits are looked for; 0: they are looked for at each call.
        """
        self._place = place
        self._patience_s = patience_s
        self._looked_s = 0.0
        self._took_s = 0.0
        """How long the present view took, its look included."""
        self._listing = Listing(place)
        self._objects: ObjectStore | None = None
        """One for all views, which share its connections."""
        self._cache: DbCache | None = None
        self._newest = 0
        self._view: _View | None = None
        self._opened_s = 0.0
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def moment(self) -> AsyncIterator[StoreMoment]:
        """The store with every commit that had returned before the call, less its patience.

        Raises:
            NoSuchStore: There is none.
            StoreRefused, FormatTooNew, StorageUnavailable: As `Database.missing`.
        """
        async with self._lock:
            view = await self._current()
        async with view.reading() as moment:
            yield moment

    async def _current(self) -> _View:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        patience_s = max(self._patience_s, VIEW_COSTS * self._took_s) if self._patience_s else 0
        if self._view is not None and now_s - self._looked_s < patience_s:
            return self._view
        if self._view is None:
            self._newest = await oldest_commit(self._place)
        newest = await self._listing.newest_commit(self._newest)
        is_old = now_s - self._opened_s > VIEW_S
        if self._view is None or is_old or newest > self._newest:
            before, self._view = self._view, _View(self._place, await self._checked_reader())
            self._newest, self._opened_s = newest, now_s
            self._took_s = loop.time() - now_s
            if before is not None:
                await before.retire()
        self._looked_s = now_s
        return self._view

    async def has_newer(self) -> bool:
        """Whether something was committed since the view was taken."""
        return await self._listing.newest_commit(self._newest) > self._newest

    async def _checked_reader(self) -> DbReader:
        reader = await self._opened_reader()
        if self._view is None:
            try:
                version = await StoreMoment(self._place, reader).version()
                if version is None:
                    raise NoSuchStore(f"no such store: {self._place.shown}")
                check_version(self._place, version)
            except BaseException:
                await _shut(reader)
                raise
        return reader

    async def _opened_reader(self) -> DbReader:
        if self._cache is None:
            options = MokaCacheOptions(
                max_capacity=CACHE_BYTES, time_to_live=None, time_to_idle=None
            )
            self._cache = DbCache.new_moka_cache(options)
        if self._objects is None:
            self._objects = self._place.objects()
        builder = DbReaderBuilder(self._place.name, self._objects)
        # Without a checkpoint of its own, which would be a write.
        builder.with_reader_mode(ReaderMode.FOLLOW_LATEST())
        builder.with_options(
            ReaderOptions(
                manifest_poll_interval_ms=NEVER_MS,  # A view is of one moment.
                checkpoint_lifetime_ms=2 * NEVER_MS,
                max_memtable_bytes=64 * 1024 * 1024,
                skip_wal_replay=False,
            )
        )
        builder.with_db_cache(self._cache, 1)
        async with answered(self._place):
            reader: DbReader = await builder.build()
        return reader

    async def close(self) -> None:
        async with self._lock:
            if self._view is not None:
                await self._view.retire()
                self._view = None


async def oldest_commit(place: DatabasePlace) -> int:
    """The number of the last commit that is in a table; those behind are objects.

    Raises:
        NoSuchStore: There is no database.
    """
    if not await Listing(place).has_database():
        raise NoSuchStore(f"no such store: {place.shown}")
    admin = AdminBuilder(place.name, place.objects()).build()
    async with answered(place):
        manifest = await admin.read_manifest(None)
    return 0 if manifest is None else int(manifest.replay_after_wal_id)


async def _shut(reader: DbReader) -> None:
    with suppress(Error):
        await reader.shutdown()


def check_version(place: DatabasePlace, version: int) -> None:
    """Refuse a format that this release does not know.

    Raises:
        FormatTooNew: A newer release made it.
    """
    if version > FORMAT_VERSION:
        raise FormatTooNew(
            f"{place.shown} has format {version}, and this program knows {FORMAT_VERSION}"
        )


@contextmanager
def explained(place: DatabasePlace) -> Iterator[None]:
    """Convert SlateDB's errors.

    Raises:
        WriterReplaced: Another process has opened the database for writing.
        DataError: It is damaged.
        StorageUnavailable: Any other error.
    """
    try:
        yield
    except Error as error:
        if isinstance(error, Error.Closed) and error.reason == CloseReason.FENCED:
            raise WriterReplaced(
                f"{place.shown}: another process has opened it for writing; this one writes "
                "no more"
            ) from error
        if isinstance(error, Error.Data):
            raise DataError(f"{place.shown} is damaged: {error}") from error
        raise StorageUnavailable(f"{place.shown}: {error}") from error


@asynccontextmanager
async def answered(place: DatabasePlace) -> AsyncIterator[None]:
    """Bound the wait for the bucket, and convert errors as `explained`.

    Raises:
        StorageUnavailable: There was no answer in `ANSWER_S`.
    """
    try:
        async with asyncio.timeout(ANSWER_S):
            with explained(place):
                yield
    except TimeoutError as error:
        raise StorageUnavailable(
            f"{place.shown} does not answer within {ANSWER_S:g} s"
        ) from error


def _key_range(start: str, includes_start: bool, end: str | None) -> KeyRange:
    return KeyRange(
        start=start.encode() or FIRST_KEY,
        start_inclusive=includes_start,
        end=None if end is None else end.encode(),
        end_inclusive=False,
    )


def _scan_options(order: IterationOrder) -> ScanOptions:
    return ScanOptions(
        durability_filter=DurabilityLevel.REMOTE,
        dirty=False,
        read_ahead_bytes=1024 * 1024,
        cache_blocks=True,
        max_fetch_tasks=4,
        order=order,
    )
