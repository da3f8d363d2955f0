"""tierledger's own layout: the log in parts, and all indexes in one object, written last.

    <prefix>/<topic>/<topic id>/<partition>/<start offset>-<segment id>/log.00000
                                                                        log.00001
                                                                        indexes

Rule: a written object is overwritten only by a retry of the same copy, with the same bytes. So
a retry may keep objects that it finds complete (docs/adr/0019-our-own-layout.md).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from tierledger.events.errors import (
    CorruptRemoteData,
    InvalidArgument,
    RemoteResourceNotFound,
    StorageUnavailable,
)
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.ledger.format import (
    LedgerCustomMetadata,
    SegmentHeader,
    crc32c,
    decode_header,
    encode_indexes,
    verified,
)
from tierledger.tiering.layouts.ledger.parts import (
    PartCheck,
    has_whole_part,
    log_pieces,
    part_sizes,
)
from tierledger.tiering.objects.names import segment_name, topic_name
from tierledger.tiering.objects.request_counts import Operation, RequestCounts
from tierledger.tiering.objects.stream import checked_range, read_ahead
from tierledger.tiering.recent import Recent
from tierledger.tiering.remote_storage_manager import LogSegmentData, RemoteStorageManager

if TYPE_CHECKING:
    from tierledger.tiering.objects.store import ObjectStore, StoredObject

INDEXES: Final = "indexes"

HEADERS_KEPT: Final = 1024
"""Headers kept in memory, some hundred bytes each."""


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """How new segments are written. Each segment is read as it was written.

    Raises:
        InvalidArgument: A number is not positive.
    """

    part_bytes: int = 64 * 1024 * 1024
    """Bytes of the log per object. Larger parts need fewer requests; with smaller parts less is
    sent again after a failure."""
    parts_at_once: int = 4
    """Parts of one segment that are sent concurrently; as many are in memory."""

    def __post_init__(self) -> None:
        for name, value in (
            ("part_bytes", self.part_bytes),
            ("parts_at_once", self.parts_at_once),
        ):
            if value < 1:
                raise InvalidArgument(f"expected {name} of 1 or more, got {value}")


class LedgerStorageManager(RemoteStorageManager):
    """Stores segments in tierledger's own layout, and verifies what it fetches.

    A part of the log is verified if it is read from its beginning to its end. A partial read of
    a part cannot be verified here; its reader verifies the checksums of the batches.
    """

    def __init__(
        self, store: ObjectStore, prefix: str = "", settings: LedgerSettings | None = None
    ) -> None:
        """Keep new segments below `prefix` of `store`."""
        self._store = store
        self._prefix = prefix.strip("/")
        self._settings = settings or LedgerSettings()
        self._headers: Recent[RemoteLogSegmentId, SegmentHeader] = Recent(HEADERS_KEPT)

    @property
    def counts(self) -> RequestCounts:
        """Counts of the requests to the store so far."""
        return self._store.counts

    @override
    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, log_segment_data: LogSegmentData
    ) -> CustomMetadata | None:
        place = place_of(metadata, self._prefix)
        source = await asyncio.to_thread(_CopySource.opened, metadata, log_segment_data)
        await self._store.remove_leftovers(place)
        found = await self._store.list(Operation.COPY, place)
        part_size = self._settings.part_bytes
        sizes = dict(part_sizes(place, source.log_size, part_size))
        indexes_name = f"{place}/{INDEXES}"
        strays = sorted(found.keys() - sizes.keys() - {indexes_name})
        # An earlier attempt with another part size left other objects.
        await self._store.delete(Operation.COPY, strays)
        crcs = await self._put_parts(source, sizes, found)
        content = encode_indexes(
            metadata.remote_log_segment_id.id, source.log_size, part_size, crcs, source.indexes
        )
        await self._put(indexes_name, content, found)
        sizes[indexes_name] = len(content)
        await self._store.make_durable(place)
        await self._check_stored(place, sizes)
        custom = LedgerCustomMetadata(part_size, sum(sizes.values()), self._prefix or None)
        return custom.to_custom_metadata()

    async def _put_parts(
        self, source: _CopySource, sizes: dict[str, int], found: dict[str, StoredObject]
    ) -> tuple[int, ...]:
        """Write all parts; return their checksums."""
        room = asyncio.Semaphore(self._settings.parts_at_once)

        async def put_part(number: int, name: str, size: int) -> int:
            async with room:
                start = number * self._settings.part_bytes
                data = await asyncio.to_thread(source.read, start, size)
                await self._put(name, data, found)
                return await asyncio.to_thread(crc32c, data)

        parts = [put_part(number, *part) for number, part in enumerate(sizes.items())]
        return tuple(await _all(parts))

    async def _put(self, name: str, data: bytes, found: dict[str, StoredObject]) -> None:
        """Write `name`, unless `found` has it with the same content."""
        present = found.get(name)
        if present is not None and present.size == len(data):
            if present.e_tag.strip('"') == await asyncio.to_thread(_md5, data):
                return
            # An entity tag that is no MD5 proves nothing. Reading the object instead saves a
            # write, which pays only if the store is near.
            if self._store.is_near and await self._store.get(Operation.COPY, name) == data:
                return
        await self._store.put(Operation.COPY, name, data)

    async def _check_stored(self, place: str, sizes: dict[str, int]) -> None:
        """Compare the store's list with `sizes`: a store may report success and lose data."""
        found = await self._store.list(Operation.COPY, place)
        kept = {name: one.size for name, one in found.items()}
        for name in sorted(sizes.keys() | kept.keys()):
            if sizes.get(name) != kept.get(name):
                raise StorageUnavailable(
                    f"{self._store.name_of(name)}: expected {_bytes(sizes.get(name))} after "
                    f"the copy, the store lists {_bytes(kept.get(name))}"
                )

    @override
    async def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        start, end = checked_range(metadata, start_position, end_position)
        place, custom = self._where(metadata)
        with self.counts.noting_damage(Operation.FETCH_LOG):
            part_size, header = await self._parts(metadata, custom, start, end)
            size = metadata.segment_size_in_bytes
            wanted = log_pieces(place, size, part_size, start, end)
            check = None if header is None else PartCheck(header, self._store, place)
            async with aclosing(read_ahead(self._store, wanted)) as reading:
                async for piece, data in reading:
                    if check is not None:
                        check.pass_on(piece, data)
                    yield data

    async def _parts(
        self,
        metadata: RemoteLogSegmentMetadata,
        custom: LedgerCustomMetadata | None,
        start: int,
        end: int,
    ) -> tuple[int, SegmentHeader | None]:
        """The log's part size, and the header if the read covers a whole part, to verify it."""
        header = self._headers.get(metadata.remote_log_segment_id)
        if custom is None:  # The metadata was not updated after the copy had written its data.
            header = header or (await self._fetch_object(metadata))[0]
            return header.part_size, header
        part_size = custom.part_size
        if header is None and not has_whole_part(
            metadata.segment_size_in_bytes, part_size, start, end
        ):
            return part_size, None
        # A header in memory may be of an earlier attempt with another part size.
        if header is None or header.part_size != part_size:
            header = (await self._fetch_object(metadata))[0]
        if header.part_size != part_size:
            raise CorruptRemoteData(
                f"{metadata.remote_log_segment_id}: expected parts of {part_size} bytes as its "
                f"custom metadata says, its indexes say {header.part_size}"
            )
        return part_size, header

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        header = self._headers.get(metadata.remote_log_segment_id)
        if header is None:
            found = await self.fetch_indexes(metadata, {index_type})
            if index_type in found:
                return found[index_type]
        elif index_type in header.indexes:
            place = header.indexes[index_type]
            name = f"{self._where(metadata)[0]}/{INDEXES}"
            if not place.length:
                return b""
            end = place.start + place.length
            with self.counts.noting_damage(Operation.FETCH_INDEXES):
                data = await self._store.get_range(
                    Operation.FETCH_INDEXES, name, place.start, end, header.size
                )
                return verified(data, place, index_type, self._store.name_of(name))
        raise RemoteResourceNotFound(
            f"{metadata.remote_log_segment_id} has no {index_type.name} index"
        )

    @override
    async def fetch_indexes(
        self, metadata: RemoteLogSegmentMetadata, index_types: AbstractSet[IndexType]
    ) -> dict[IndexType, bytes]:
        name = self._store.name_of(f"{self._where(metadata)[0]}/{INDEXES}")
        with self.counts.noting_damage(Operation.FETCH_INDEXES):
            header, content = await self._fetch_object(metadata)
            return {
                kind: verified(content[at.start : at.start + at.length], at, kind, name)
                for kind, at in header.indexes.items()
                if kind in index_types
            }

    @override
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        place, custom = self._where(metadata)
        self._headers.forget(metadata.remote_log_segment_id)
        names = set(await self._store.list(Operation.DELETE, place))
        if names:
            if custom is not None:  # The list may be incomplete, so add all expected names.
                size = metadata.segment_size_in_bytes
                names.update(name for name, _ in part_sizes(place, size, custom.part_size))
                names.add(f"{place}/{INDEXES}")
            await self._store.delete(Operation.DELETE, sorted(names))
            await self._check_deleted(place)
        await self._store.remove_leftovers(place)
        # Done even if nothing was deleted now: a killed process may have deleted the objects.
        await self._store.make_removal_durable(place)

    async def _check_deleted(self, place: str) -> None:
        """List the place again: a store may report success and keep objects."""
        left = await self._store.list(Operation.DELETE, place)
        if left:
            raise StorageUnavailable(
                f"{self._store.name_of(min(left))}: expected nothing after the deletion, the "
                f"store lists {len(left)} of the segment's objects"
            )

    async def _fetch_object(
        self, metadata: RemoteLogSegmentMetadata
    ) -> tuple[SegmentHeader, bytes]:
        """The verified header, and the whole indexes object."""
        name = f"{self._where(metadata)[0]}/{INDEXES}"
        content = await self._store.get(Operation.FETCH_INDEXES, name)
        header = decode_header(content, self._store.name_of(name))
        expected = (metadata.remote_log_segment_id.id, metadata.segment_size_in_bytes)
        if (header.segment_id, header.log_size) != expected:
            raise CorruptRemoteData(
                f"{self._store.name_of(name)}: expected segment {expected[0].hex()} of "
                f"{expected[1]} bytes, found {header.segment_id.hex()} of {header.log_size}"
            )
        self._headers.put(metadata.remote_log_segment_id, header)
        return header, content

    def _where(
        self, metadata: RemoteLogSegmentMetadata
    ) -> tuple[str, LedgerCustomMetadata | None]:
        """The folder of the segment's objects, and its custom metadata."""
        if metadata.custom_metadata is None:
            return place_of(metadata, self._prefix), None
        segment = metadata.remote_log_segment_id
        custom = LedgerCustomMetadata.of(metadata.custom_metadata, segment)
        return place_of(metadata, custom.prefix or ""), custom


class _CopySource:
    """The data of a segment that is being copied."""

    def __init__(self, log: Path, log_size: int, indexes: dict[IndexType, bytes]) -> None:
        self._log = log
        self.log_size = log_size
        self.indexes = indexes

    @staticmethod
    def opened(metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> _CopySource:
        """The files of `data`, after a check against `metadata`."""
        paths = {
            IndexType.OFFSET: data.offset_index,
            IndexType.TIMESTAMP: data.time_index,
        }
        if data.transaction_index is not None:
            paths[IndexType.TRANSACTION] = data.transaction_index
        segment = metadata.remote_log_segment_id
        try:
            indexes = {kind: path.read_bytes() for kind, path in paths.items()}
            size = data.log_segment.stat().st_size
        except FileNotFoundError as error:
            raise InvalidArgument(f"{segment}: {error.filename} is missing") from error
        if size != metadata.segment_size_in_bytes:
            expected = metadata.segment_size_in_bytes
            raise InvalidArgument(
                f"{segment}: expected {expected} bytes in {data.log_segment}, found {size}"
            )
        indexes[IndexType.PRODUCER_SNAPSHOT] = data.producer_snapshot_index
        indexes[IndexType.LEADER_EPOCH] = data.leader_epoch_index
        return _CopySource(data.log_segment, size, indexes)

    def read(self, start: int, size: int) -> bytes:
        """`size` bytes of the log from `start` on."""
        try:
            with self._log.open("rb") as file:
                file.seek(start)
                data = file.read(size)
        except FileNotFoundError as error:
            raise InvalidArgument(f"{self._log} is missing") from error
        if len(data) != size:
            expected = f"{size} bytes from {start} on"
            raise InvalidArgument(f"{self._log}: expected {expected}, found {len(data)}")
        return data


def place_of(metadata: RemoteLogSegmentMetadata, prefix: str) -> str:
    partition = metadata.topic_id_partition
    # The topic's id has its own folder, since a folder's name has at most 255 bytes.
    below = f"{topic_name(metadata)}/{partition.topic_id}/{partition.partition}"
    place = f"{below}/{segment_name(metadata)}"
    return f"{prefix}/{place}" if prefix else place


async def _all(jobs: Sequence[Awaitable[int]]) -> list[int]:
    """All results; or the first error, raised after all other jobs have ended."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _bytes(size: int | None) -> str:
    return "nothing" if size is None else f"{size} bytes"
