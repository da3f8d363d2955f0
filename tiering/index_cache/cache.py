"""The index cache of KIP-1002: offset, time and transaction index of remote segments.

In memory over one file per segment, bounded in bytes. What it answers was checked when it came
and has a checksum on the disk; a segment is loaded once, however many wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

import structlog

from tierledger.events.errors import CorruptRemoteData, InvalidArgument, NotReady, StoreRefused
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.index_cache.cleaner import FileCleaner
from tierledger.tiering.index_cache.counts import IndexCacheCounts
from tierledger.tiering.index_cache.entry import (
    IndexEntry,
    fetch_entry,
    rebuilt,
    warn_of_lacking_offsets,
)
from tierledger.tiering.index_cache.eviction import EvictionQueue
from tierledger.tiering.index_cache.files import CacheDirectory, Found, SegmentKey
from tierledger.tiering.index_cache.threads import to_its_end
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

BYTES_MAX: Final = 1 << 30
"""Kafka's default of `remote.log.index.file.cache.total.size.bytes`."""
LOADS_MAX: Final = 32
"""Segments that are loaded at the same time; further ones wait."""
DOWNLOADS_MAX: Final = 2
"""Damaged indexes are fetched once more; damage on the way may be gone by then."""

_log = structlog.get_logger("tierledger.tiering")


class _Slot:
    """A segment that the cache knows: its entry, its file, or both."""

    __slots__ = ("entry", "has_file", "key")

    def __init__(self, key: SegmentKey, entry: IndexEntry | None, *, has_file: bool) -> None:
        self.key = key
        self.entry = entry
        self.has_file = has_file


class _Load:
    """One loader, and the answer that others wait for."""

    __slots__ = ("answer", "is_wanted")

    def __init__(self) -> None:
        self.answer: asyncio.Future[IndexEntry] = asyncio.get_running_loop().create_future()
        self.is_wanted = True
        """Whether what it brings may be kept: not if the segment was removed meanwhile."""


class RemoteIndexCache:
    """Finds positions in remote segments. All calls are of one event loop.

    A hit is answered without waiting for anything. After `close` every call raises `NotReady`.
    """

    def __init__(
        self,
        directory: Path,
        storage: RemoteStorageManager,
        max_bytes: int = BYTES_MAX,
        *,
        files: CacheDirectory | None = None,
    ) -> None:
        """Keep up to `max_bytes` of files in `directory`, which no other cache may use.

        It is opened by `open`, `async with`, or the first call. `storage` stays the caller's.

        Raises:
            InvalidArgument: `max_bytes` is negative.
        """
        self.counts = IndexCacheCounts()
        self._storage = storage
        self._files = files or CacheDirectory(directory)
        self._queue = EvictionQueue(_checked_limit(max_bytes))
        self._slots: dict[bytes, _Slot] = {}
        self._loads: dict[bytes, _Load] = {}
        self._tasks: set[asyncio.Task[IndexEntry]] = set()
        """All loaders, also those whose segment was removed meanwhile."""
        self._removed_early: set[bytes] = set()
        """Removed before it was known what the directory holds."""
        self._loading = asyncio.Semaphore(LOADS_MAX)
        self._cleaner = FileCleaner(self._files, self._count_file_error)
        self._opening: asyncio.Task[None] | None = None
        self._is_open = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except asyncio.CancelledError:
            await self.close()  # What was not entered is not left: nobody else would.
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Take over what an earlier cache left in the directory; a repeat does nothing.

        No file is read: each is checked when it is first asked for. Left-over files are removed
        in the background. One who is cancelled disturbs no other who waits for the same.

        Raises:
            StoreRefused: Another cache uses the directory, or it cannot be made or listed. A
                later call tries again.
            NotReady: The cache is closed.
        """
        self._check_not_closed()
        if self._is_open:
            return
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="remote-log-index-opening")
            self._opening.add_done_callback(_heard)
        await asyncio.shield(self._opening)
        self._check_not_closed()

    async def get(self, metadata: RemoteLogSegmentMetadata) -> IndexEntry:
        """The segment's indexes; the entry stays good after the cache has given it up.

        From memory, from its file, or by one `fetch_indexes`, for all who ask meanwhile.
        Failures are not kept; one who is cancelled disturbs no other.

        Raises:
            RemoteResourceNotFound: Remote storage has no offset or no time index of it.
            CorruptRemoteData: What remote storage gave does not verify, also when asked again.
            StorageUnavailable: Remote storage is away; trying again is safe.
            StoreRefused: As `open`.
            NotReady: The cache is closed.
        """
        slot = self._slots.get(metadata.remote_log_segment_id.id)
        if slot is not None and slot.entry is not None:
            self._queue.asked(slot.key.segment_id)
            self.counts.hits += 1
            return slot.entry
        return await self._miss(metadata)

    async def lookup_offset(self, metadata: RemoteLogSegmentMetadata, offset: int) -> int:
        """The position in the segment from which to read for `offset`; errors as `get`."""
        return (await self.get(metadata)).lookup_offset(offset).position

    async def lookup_timestamp(
        self, metadata: RemoteLogSegmentMetadata, timestamp_ms: int, starting_offset: int
    ) -> int:
        """The position from which to look for the first record of `timestamp_ms` or later.

        That is not before `starting_offset`. Errors as `get`.
        """
        entry = await self.get(metadata)
        return entry.lookup_timestamp(timestamp_ms, starting_offset).position

    def remove(self, segment_ids: Iterable[RemoteLogSegmentId]) -> None:
        """Give up segments that remote storage holds no longer; unknown ones are ignored.

        Nothing of them is kept that is being loaded now. Files go in the background.
        """
        self._check_not_closed()
        for segment_id in segment_ids:
            self.counts.removals += self._give_up(segment_id.id)

    def distrust(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Give up the segment's indexes: the log was not where they said.

        The next who asks gets them from remote storage anew. An unknown segment is ignored.
        """
        self._check_not_closed()
        self.counts.distrusted += self._give_up(metadata.remote_log_segment_id.id)

    def resize(self, max_bytes: int) -> None:
        """Keep up to `max_bytes` from now on; what is too much is given up at once.

        Raises:
            InvalidArgument: `max_bytes` is negative; nothing changed.
            NotReady: The cache is closed.
        """
        self._check_not_closed()
        self._evict(self._queue.resize(_checked_limit(max_bytes)))

    async def close(self) -> None:
        """Let go of the directory and keep its files; a repeat does nothing.

        Callers that wait for a load get `NotReady`. Threads are waited for: nothing touches the
        directory once another cache may use it.
        """
        self._is_closed = True
        if self._opening is not None:
            await asyncio.wait([self._opening])
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cleaner.drain()
        self._slots.clear()
        self._files.release()

    async def _open(self) -> None:
        try:
            self._take_over(await to_its_end(self._files.open))
            self._is_open = True
        except StoreRefused:
            self.counts.refusals += 1
            raise
        finally:
            self._opening = None

    async def _miss(self, metadata: RemoteLogSegmentMetadata) -> IndexEntry:
        self.counts.misses += 1
        if not self._is_open:
            await self.open()
        self._check_not_closed()
        segment_id = metadata.remote_log_segment_id.id
        load = self._loads.get(segment_id)
        if load is None:
            load = self._loads[segment_id] = self._start_load(metadata)
        return await asyncio.shield(load.answer)

    def _start_load(self, metadata: RemoteLogSegmentMetadata) -> _Load:
        load = _Load()
        task = asyncio.create_task(self._load(metadata, load))
        self._tasks.add(task)

        def ended(task: asyncio.Task[IndexEntry]) -> None:
            self._tasks.discard(task)
            segment_id = metadata.remote_log_segment_id.id
            if self._loads.get(segment_id) is load:
                del self._loads[segment_id]
            is_closed = task.cancelled()
            error = NotReady("the index cache was closed") if is_closed else task.exception()
            if error is None:
                load.answer.set_result(task.result())
                return
            self.counts.load_failures += not is_closed
            load.answer.set_exception(error)
            load.answer.exception()  # All who waited may be gone: that is no error.

        task.add_done_callback(ended)
        return load

    async def _load(self, metadata: RemoteLogSegmentMetadata, load: _Load) -> IndexEntry:
        key = SegmentKey(metadata.remote_log_segment_id.id, metadata.start_offset)
        entry = await self._read_back(metadata, key)
        if entry is not None:
            self.counts.empty_offset_indexes += warn_of_lacking_offsets(entry, metadata)
            return entry
        async with self._loading:
            entry = await self._download(metadata)
            self.counts.loads += 1
            self.counts.empty_offset_indexes += warn_of_lacking_offsets(entry, metadata)
            await self._keep(key, entry, load)
        return entry

    async def _read_back(
        self, metadata: RemoteLogSegmentMetadata, key: SegmentKey
    ) -> IndexEntry | None:
        slot = self._slots.get(key.segment_id)
        if slot is None or slot.entry is not None:
            return None if slot is None else slot.entry
        try:
            raw = await to_its_end(self._files.read, key)
        except (OSError, CorruptRemoteData) as error:
            _log.warning("cache file dropped", file=key.file_name, error=str(error))
            if isinstance(error, CorruptRemoteData):
                self.counts.corrupt_files += 1
            else:
                self.counts.file_errors += 1
            if self._slots.get(key.segment_id) is slot:
                self._forget(key.segment_id)
            return None
        slot.entry = rebuilt(metadata, raw)
        self._queue.asked(key.segment_id)
        self.counts.file_hits += 1
        return slot.entry

    async def _download(self, metadata: RemoteLogSegmentMetadata) -> IndexEntry:
        for _ in range(DOWNLOADS_MAX - 1):
            try:
                return await self._fetch(metadata)
            except CorruptRemoteData as error:
                _log.warning("corrupt indexes fetched again", error=str(error))
        return await self._fetch(metadata)

    async def _fetch(self, metadata: RemoteLogSegmentMetadata) -> IndexEntry:
        try:
            return await fetch_entry(self._storage, metadata)
        except CorruptRemoteData:
            self.counts.corrupt_downloads += 1
            raise

    async def _keep(self, key: SegmentKey, entry: IndexEntry, load: _Load) -> None:
        """Keep what was loaded: with a file, or in memory alone if the disk takes none."""
        raw = entry.raw
        if not self._queue.takes(raw.file_size):
            return
        temporary = self._files.temporary(key)
        is_written = True
        try:
            await to_its_end(self._files.write_temporary, temporary, key, raw)
        except OSError as error:
            self._count_file_error(error)
            is_written = False
        except asyncio.CancelledError:
            self._cleaner.add([temporary])
            raise
        # From here on nothing waits: file, slot and queue change together.
        victims = self._queue.add(key.segment_id, raw.file_size) if load.is_wanted else None
        if victims is None:
            self._cleaner.add([temporary])
            return
        self._evict(victims)
        has_file = is_written and self._named(temporary, key)
        self._slots[key.segment_id] = _Slot(key, entry, has_file=has_file)
        self._recount()

    def _named(self, temporary: Path, key: SegmentKey) -> bool:
        try:
            self._files.keep(temporary, key)
        except OSError as error:
            self._count_file_error(error)
            self._cleaner.add([temporary])
            return False
        self._cleaner.spare(key)
        return True

    def _take_over(self, found: Found) -> None:
        self.counts.files_removed_at_start += len(found.leftovers)
        self._cleaner.add(found.leftovers)
        for key, size in found.files:
            self._forget(key.segment_id)  # Of two files for one segment the newer one stays.
            self._slots[key.segment_id] = _Slot(key, None, has_file=True)
            self._queue.add_known(key.segment_id, size)
        for segment_id in self._removed_early:
            self._forget(segment_id)
        self._removed_early.clear()
        self._evict(self._queue.shrink())

    def _evict(self, victims: Iterable[bytes]) -> None:
        for victim in victims:
            self.counts.evictions += 1
            self._drop(victim)
        self._recount()

    def _give_up(self, segment_id: Uuid) -> bool:
        """Whether there was an entry; neither it nor what is being loaded now is kept."""
        load = self._loads.pop(segment_id, None)
        if load is not None:
            load.is_wanted = False
        if not self._is_open:
            self._removed_early.add(segment_id)
        return self._forget(segment_id)

    def _forget(self, segment_id: bytes) -> bool:
        """Whether that segment was known; it is not any more."""
        is_known = self._queue.remove(segment_id)
        if is_known:
            self._drop(segment_id)
            self._recount()
        return is_known

    def _drop(self, segment_id: bytes) -> None:
        slot = self._slots.pop(segment_id)
        if slot.has_file:
            self._cleaner.give_up(slot.key)

    def _recount(self) -> None:
        self.counts.entries = len(self._queue)
        self.counts.bytes = self._queue.weight

    def _count_file_error(self, error: OSError) -> None:
        _log.warning("index cache file", error=str(error))
        self.counts.file_errors += 1

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise NotReady("the index cache is closed")


def _heard(opening: asyncio.Task[None]) -> None:
    """All who waited for a failure may be gone: that is no error."""
    if not opening.cancelled():
        opening.exception()


def _checked_limit(max_bytes: int) -> int:
    if max_bytes < 0:
        raise InvalidArgument(f"expected 0 bytes or more for the index cache, got {max_bytes}")
    return max_bytes
