"""Reads and verifies every object that must be in a tier according to a store's metadata.

Rule 1: an object that is damaged or cannot be read never hides another fault.
Rule 2: a segment that was deleted meanwhile is no damage. Findings on a segment are dropped
if the metadata no longer has it as finished.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tierledger.events.errors import (
    CorruptRemoteData,
    DataError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.closing import closing
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.record_batches import BatchSplitter
from tierledger.tiering.scrub.log_check import LogCheck, SegmentFault
from tierledger.tiering.scrub.pace import LoopClock, Pace, PaceClock
from tierledger.tiering.scrub.progress import Cursor, DamagedObject, Progress, UnreadSegment
from tierledger.tiering.scrub.segment_source import SegmentSource

if TYPE_CHECKING:
    from tierledger.tiering.layouts.listed_objects import (
        ExpectedObjects,
        LayoutNames,
        LogObject,
    )
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager

_DAMAGE: Final = (CorruptRemoteData, RemoteResourceNotFound)


_Finding = TypeVar("_Finding", DamagedObject, UnreadSegment)


class _Place(NamedTuple):
    """A segment, and the objects that it must have."""

    metadata: RemoteLogSegmentMetadata
    must: ExpectedObjects


class Scrubber:
    """Verifies a tier; memory is bounded by one segment's indexes and a few pieces of its log.

    Every segment is read once, as a whole. Checksums of the layout and of the log's batches are
    verified, and all indexes are compared with the log.
    """

    def __init__(
        self,
        source: SegmentSource,
        storage: RemoteStorageManager,
        names: LayoutNames,
        progress: Progress,
        *,
        bytes_per_second: int | None,
        clock: PaceClock | None = None,
    ) -> None:
        """Continue after `progress`, which is kept up to date.

        Args:
            source: The segments that must be in the tier.
            storage: The tier's storage manager.
            names: How the tier names its objects.
            progress: The progress of an earlier run, or a new one.
            bytes_per_second: The highest rate of reading; none: no limit.
            clock: The clock for the rate; none: the event loop's.

        Raises:
            InvalidArgument: The rate is not positive.
        """
        self._source = source
        self._storage = storage
        self._names = names
        self.progress = progress
        self._rate = bytes_per_second
        self._clock = clock or LoopClock()
        self._pace: Pace | None = None
        self._begun_s = 0.0
        self._seconds_before = progress.seconds

    async def run(self) -> AsyncIterator[int]:
        """Verify the remaining segments one by one; yield the bytes read for each.

        When a segment is yielded, `progress` includes it and its findings. Segments that could
        not be read in an earlier run are tried again.

        Raises:
            RetryableError: The metadata cannot be read now.
        """
        self._pace = Pace(self._rate, self._clock)
        self._begun_s, self._seconds_before = self._clock.now_s(), self.progress.seconds
        progress = self.progress
        again = {(one.topic_id, one.partition, one.segment_id) for one in progress.unread}
        if progress.is_complete and not again:
            return
        progress.is_complete = False
        progress.damaged_logs.clear()
        previous = ("", -1)
        async for tip in self._source.partitions():
            wanted = str(tip.topic_id), tip.partition
            assert previous < _key(tip), "one order for every run"
            previous = _key(tip)
            is_behind = progress.cursor is None or previous >= progress.cursor[:2]
            if not is_behind and not any(one[:2] == wanted for one in again):
                continue
            try:
                segments, known_epochs = await self._source.segments(tip)
            except DataError as error:
                progress.damaged_logs.append(f"{tip}: {error}")
                continue
            except RemoteResourceNotFound:
                continue  # The partition was forgotten meanwhile.
            for metadata in segments:
                known = (*wanted, str(metadata.remote_log_segment_id.id))
                cursor = _cursor(metadata)
                is_new = progress.cursor is None or cursor > progress.cursor
                if is_new or known in again:
                    size = await self._verified(metadata, known_epochs, is_new=is_new)
                    if is_new:
                        progress.cursor = cursor
                    yield size
        progress.is_complete = True

    async def _verified(
        self,
        metadata: RemoteLogSegmentMetadata,
        known_epochs: Mapping[int, int],
        *,
        is_new: bool,
    ) -> int:
        """Verify a segment, add its findings to `progress`, and return the bytes read."""
        progress, size = self.progress, 0
        findings: list[DamagedObject] = []
        unread: list[UnreadSegment] = []
        try:
            async for found in self._checked(metadata, known_epochs):
                if isinstance(found, int):
                    size += found
                    await self._spend(found)
                else:
                    findings.append(found)
        except RemoteStorageError as error:
            unread.append(_unread(metadata, error))
        segment = metadata.remote_log_segment_id
        if (findings or unread) and not await self._source.is_finished(segment):
            findings, unread = [], []
        if is_new:
            progress.segments += 1
        else:
            progress.findings = _without(progress.findings, str(segment.id))
            progress.unread = _without(progress.unread, str(segment.id))
        progress.findings += findings
        progress.unread += unread
        progress.bytes += size
        progress.seconds = self._seconds_before + self._clock.now_s() - self._begun_s
        return size

    async def _checked(
        self, metadata: RemoteLogSegmentMetadata, known_epochs: Mapping[int, int]
    ) -> AsyncIterator[int | DamagedObject]:
        """The number of bytes of each read, and the findings."""
        try:
            place = _Place(metadata, self._names.expected(metadata))
        except DataError as error:
            name = f"custom metadata of {metadata.remote_log_segment_id}"
            yield _finding(metadata, name, None, str(error))
            return
        known: set[str] = set()
        indexes: Mapping[IndexType, bytes] | None = None
        try:
            indexes = await self._storage.fetch_all_indexes(metadata)
            yield sum(map(len, indexes.values()))
        except _DAMAGE as error:
            found = self._unfetched(place, self._names.index_object(place.must), error)
            known.add(found.object)
            yield found
        check = LogCheck(metadata, indexes or {}, known_epochs)
        if indexes is not None:
            for damage in check.begin():
                yield self._finding_at(place, damage)
        async for one in self._log(place, check, with_checksums=indexes is not None):
            if isinstance(one, int) or one.object not in known:
                yield one
        for damage in check.finish():
            yield self._finding_at(place, damage)

    async def _log(
        self, place: _Place, check: LogCheck, *, with_checksums: bool
    ) -> AsyncIterator[int | DamagedObject]:
        """As `_checked`, for the log. Every object is read, even if one before is damaged."""
        metadata = place.metadata
        name = str(metadata.remote_log_segment_id)
        splitter: BatchSplitter | None
        splitter = BatchSplitter(name, 0, metadata.segment_size_in_bytes)
        for one in self._names.log_objects(place.must):
            damaged = False
            for first, last in _ranges(one, is_whole=with_checksums):
                try:
                    pieces = self._storage.fetch_log_segment(metadata, first, last)
                    async with closing(pieces) as reading:
                        async for piece in reading:
                            yield len(piece)
                            if splitter is not None:
                                for damage in _batches(splitter, check, piece):
                                    if damage.index_type is None:
                                        damaged, splitter = True, None
                                    yield self._finding_at(place, damage)
                except _DAMAGE as error:
                    splitter = None
                    list(check.report_log(None, ""))
                    if not damaged:
                        damaged = True
                        yield self._unfetched(place, one.name, error)
        if splitter is not None:
            try:
                splitter.finish()
            except CorruptRemoteData as error:
                for damage in check.report_log(splitter.position, str(error)):
                    yield self._finding_at(place, damage)

    def _unfetched(self, place: _Place, name: str, error: RemoteStorageError) -> DamagedObject:
        named = self._names.object_in(place.must, str(error))
        return _finding(place.metadata, named or name, None, str(error))

    def _finding_at(self, place: _Place, damage: SegmentFault) -> DamagedObject:
        metadata = place.metadata
        if damage.index_type is not None:
            name = self._names.index_object(place.must, damage.index_type)
            return _finding(metadata, name, damage.position, damage.message)
        position = damage.position or 0
        objects = self._names.log_objects(place.must)
        one = next((one for one in objects if one.start <= position < one.end), None)
        if one is None:
            return _finding(metadata, place.must.place, damage.position, damage.message)
        return _finding(metadata, one.name, position - one.start, damage.message)

    async def _spend(self, size: int) -> None:
        assert self._pace is not None, "only while it runs"
        await self._pace.spend(size)


def _batches(splitter: BatchSplitter, check: LogCheck, piece: bytes) -> Iterator[SegmentFault]:
    """The damages of log and indexes that show with the batches in `piece`."""
    batches = splitter.feed(piece)
    while True:
        position = splitter.position
        try:
            batch = next(batches, None)
        except CorruptRemoteData as error:
            yield from check.report_log(splitter.position, str(error))
            return
        if batch is None:
            return
        yield from check.take(batch, position)


def _ranges(one: LogObject, *, is_whole: bool) -> Iterator[tuple[int, int]]:
    """The ranges of the log to read for a whole object, both ends inclusive.

    If the indexes object cannot be read, there is no checksum of the whole part. Reading the
    part in two ranges avoids that check.
    """
    middle = one.start if is_whole else (one.start + one.end) // 2
    if middle > one.start:
        yield one.start, middle - 1
    if middle < one.end:
        yield middle, one.end - 1


def _without(known: Sequence[_Finding], segment_id: str) -> list[_Finding]:
    return [one for one in known if one.segment_id != segment_id]


def _key(tip: TopicIdPartition) -> tuple[str, int]:
    return str(tip.topic_id), tip.partition


def _cursor(metadata: RemoteLogSegmentMetadata) -> Cursor:
    segment = metadata.remote_log_segment_id
    return Cursor(*_key(segment.topic_id_partition), metadata.start_offset, segment.id.hex())


def _finding(
    metadata: RemoteLogSegmentMetadata, name: str, position: int | None, message: str
) -> DamagedObject:
    segment = metadata.remote_log_segment_id
    tip = segment.topic_id_partition
    return DamagedObject(
        tip.topic,
        str(tip.topic_id),
        tip.partition,
        str(segment.id),
        metadata.start_offset,
        metadata.end_offset,
        name,
        position,
        message,
    )


def _unread(metadata: RemoteLogSegmentMetadata, error: RemoteStorageError) -> UnreadSegment:
    segment = metadata.remote_log_segment_id
    tip = segment.topic_id_partition
    return UnreadSegment(
        tip.topic, str(tip.topic_id), tip.partition, str(segment.id), str(error)
    )
