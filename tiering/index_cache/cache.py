"""The index cache of KIP-1002: offset, time and transaction index of remote segments.

It is a memory cache backed by one file per segment, bounded in bytes. Indexes are verified when
they are fetched, and their files have checksums. Concurrent calls for one segment share a load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from tierledger.events.errors import CorruptRemoteData, InvalidArgument, NotReady, StoreRefused
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.index_cache.cleaner import FileCleaner
from tierledger.tiering.index_cache.counts import IndexCacheCounts
from tierledger.tiering.index_cache.entry import (
    IndexEntry,
    fetch_entry,
    rebuilt,
    warn_of_lacking_offsets,
)
from tierledger.tiering.index_cache.eviction import EvictionQueue
from tierledger.tiering.index_cache.files import CacheDirectory, CacheFiles, CacheKey
from tierledger.tiering.index_cache.threads import to_its_end
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

BYTES_MAX: Final = 1 << 30
"""Kafka's default of `remote.log.index.file.cache.total.size.bytes`."""
LOADS_MAX: Final = 32
"""Segments that are loaded at the same time; further loads wait."""
DOWNLOADS_MAX: Final = 2
"""Fetches per load: corrupt indexes are fetched once more, in case the transfer broke them."""

_log = ProcessLog("tierledger.tiering")


class _Slot:
    """A segment that the cache knows: its entry, its file, or both."""

    __slots__ = ("entry", "has_file", "key")

    def __init__(self, key: CacheKey, entry: IndexEntry | None, *, has_file: bool) -> None:
        self.key = key
        self.entry = entry
        self.has_file = has_file


class _Load:
    """A running load of one segment, and the future that its callers wait for."""

    __slots__ = ("answer", "is_wanted")

    def __init__(self) -> None:
        self.answer: asyncio.Future[IndexEntry] = asyncio.get_running_loop().create_future()
        self.is_wanted = True
        """Whether the loaded entry may be kept: not if the segment was removed meanwhile."""


class RemoteIndexCache:
    """Finds positions in remote segments. Use it from one event loop only.

    A hit in memory returns without suspending. After `close` every call raises `NotReady`.
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

        `open`, `async with` or the first `get` opens it. The caller keeps and closes `storage`.

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
        """All running loads, also of segments that were removed meanwhile."""
        self._removed_early: set[bytes] = set()
        """Segments removed before the directory was listed."""
        self._loading = asyncio.Semaphore(LOADS_MAX)
        self._cleaner = FileCleaner(self._files, self._count_file_error)
        self._opening: asyncio.Task[None] | None = None
        self._is_open = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except asyncio.CancelledError:
            await self.close()  # A block that was not entered has no `__aexit__` call.
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Lock the directory and take over the files of an earlier cache. Idempotent.

        No file is read yet: each is verified when its segment is first asked for. Left-over
        files are removed in the background. A cancelled caller does not disturb other callers
        that wait for the same opening.

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
            self._opening.add_done_callback(_retrieve_failure)
        await asyncio.shield(self._opening)
        self._check_not_closed()

    async def get(self, metadata: RemoteLogSegmentMetadata) -> IndexEntry:
        """The segment's indexes; the entry stays valid after its eviction.

        It comes from memory, from its file, or from one `fetch_indexes` that concurrent calls
        share. Failures are not cached. A cancelled caller does not disturb the others.

        Raises:
            RemoteResourceNotFound: Remote storage lacks the segment's offset or time index.
            CorruptRemoteData: The indexes do not verify, after a second fetch either.
            StorageUnavailable: Remote storage cannot be reached; a retry is safe.
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
        """The position from which to search for the first record of `timestamp_ms` or later.

        Records before `starting_offset` are not searched for. Errors as `get`.
        """
        entry = await self.get(metadata)
        return entry.lookup_timestamp(timestamp_ms, starting_offset).position

    def remove(self, segment_ids: Iterable[RemoteLogSegmentId]) -> None:
        """Remove segments that remote storage holds no longer; unknown ones are ignored.

        A running load of such a segment is not kept. Files are removed in the background.
        """
        self._check_not_closed()
        for segment_id in segment_ids:
            self.counts.removals += self._give_up(segment_id.id)

    def distrust(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Drop the segment's indexes, since their positions do not match its log.

        The next `get` fetches them from remote storage. An unknown segment is ignored.
        """
        self._check_not_closed()
        self.counts.distrusted += self._give_up(metadata.remote_log_segment_id.id)

    def resize(self, max_bytes: int) -> None:
        """Keep up to `max_bytes` from now on; entries beyond it are evicted at once.

        Raises:
            InvalidArgument: `max_bytes` is negative; nothing changed.
            NotReady: The cache is closed.
        """
        self._check_not_closed()
        self._evict(self._queue.resize(_checked_limit(max_bytes)))

    async def close(self) -> None:
        """Release the directory and keep its files. Idempotent.

        Callers that wait for a load get `NotReady`. All threads are waited for, so that none
        touches the directory once another cache may use it.
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
            load.answer.exception()  # Retrieved here, since all callers may be cancelled.

        task.add_done_callback(ended)
        return load

    async def _load(self, metadata: RemoteLogSegmentMetadata, load: _Load) -> IndexEntry:
        key = CacheKey(metadata.remote_log_segment_id.id, metadata.start_offset)
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
        self, metadata: RemoteLogSegmentMetadata, key: CacheKey
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

    async def _keep(self, key: CacheKey, entry: IndexEntry, load: _Load) -> None:
        """Keep a loaded entry: with a file, or in memory alone if writing the file fails."""
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
        # Nothing is awaited from here on, so that file, slot and queue change together.
        victims = self._queue.add(key.segment_id, raw.file_size) if load.is_wanted else None
        if victims is None:
            self._cleaner.add([temporary])
            return
        self._evict(victims)
        has_file = is_written and self._named(temporary, key)
        self._slots[key.segment_id] = _Slot(key, entry, has_file=has_file)
        self._recount()

    def _named(self, temporary: Path, key: CacheKey) -> bool:
        """Give a written file the segment's name; whether that succeeded."""
        try:
            self._files.keep(temporary, key)
        except OSError as error:
            self._count_file_error(error)
            self._cleaner.add([temporary])
            return False
        self._cleaner.spare(key)
        return True

    def _take_over(self, found: CacheFiles) -> None:
        self.counts.files_removed_at_start += len(found.leftovers)
        self._cleaner.add(found.leftovers)
        for key, size in found.files:
            self._forget(key.segment_id)  # If a segment has two files, the newer one stays.
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
        """Drop the segment's entry and the result of its running load; whether it had one."""
        load = self._loads.pop(segment_id, None)
        if load is not None:
            load.is_wanted = False
        if not self._is_open:
            self._removed_early.add(segment_id)
        return self._forget(segment_id)

    def _forget(self, segment_id: bytes) -> bool:
        """Drop the segment's entry and file; whether it had one."""
        is_known = self._queue.remove(segment_id)
        if is_known:
            self._drop(segment_id)
            self._recount()
        return is_known

    def _drop(self, segment_id: bytes) -> None:
        """Drop entry and file of a segment that has left the queue."""
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


def _retrieve_failure(opening: asyncio.Task[None]) -> None:
    """Retrieve a failure, which asyncio would report if all callers were cancelled."""
    if not opening.cancelled():
        opening.exception()


def _checked_limit(max_bytes: int) -> int:
    if max_bytes < 0:
        raise InvalidArgument(f"expected 0 bytes or more for the index cache, got {max_bytes}")
    return max_bytes
