"""The three-object layout of a widely used storage plugin, for reading only.

    <prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>.rsm-manifest
                                                                      .indexes
                                                                      .log

The manifest has the place of each index in the indexes object. It says whether the plugin cut
the log into chunks and compressed or encrypted these, and how. There are no checksums.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

from typing_extensions import override

from tierledger.events.errors import CorruptRemoteData, RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.compression import decompressed_zstd
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.manifest.chunks import Chunk, ChunkIndex
from tierledger.tiering.layouts.manifest.format import (
    Manifest,
    NamedSegment,
    decode_custom_metadata,
    decode_manifest,
)
from tierledger.tiering.layouts.manifest.keys import Cipher, PrivateKeys
from tierledger.tiering.layouts.read_only_storage import ReadOnlyStorageManager
from tierledger.tiering.objects.names import segment_name, topic_name
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.objects.stream import Piece, checked_range, pieces, read_ahead
from tierledger.tiering.recent import Recent

if TYPE_CHECKING:
    from tierledger.tiering.objects.store import ObjectStore

INDEXES: Final = "indexes"
MANIFEST: Final = "rsm-manifest"
BESIDE: Final = (INDEXES, MANIFEST)
"""Suffixes of the objects beside a segment's log."""

MANIFESTS_KEPT: Final = 1024
"""Manifests kept in memory, some hundred bytes each."""


class ManifestStorageManager(ReadOnlyStorageManager):
    """Reads segments of three objects. The first read of a segment also fetches its manifest.

    Every fetch raises `RejectedError` for a segment that was encrypted with a key that is not
    among `keys`.
    """

    layout = "a tier of the three-object layout"

    def __init__(
        self, store: ObjectStore, prefix: str = "", keys: PrivateKeys | None = None
    ) -> None:
        """Read the objects of `store` whose names begin with `prefix`, without a separator.

        `keys` decrypt the segments that the plugin encrypted.
        """
        self._store = store
        self._prefix = prefix
        self._keys = keys or PrivateKeys({})
        self._manifests: Recent[RemoteLogSegmentId, _Opened] = Recent(MANIFESTS_KEPT)

    @override
    async def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        start, end = checked_range(metadata, start_position, end_position)
        path = place_of(metadata, self._prefix)
        with self._store.counts.noting_damage(Operation.FETCH_LOG):
            opened = await self._opened(metadata, path, Operation.FETCH_LOG)
            if opened.manifest.chunks is not None:
                found = self._restored(
                    opened, opened.manifest.chunks, f"{path}.log", start, end
                )
                async with aclosing(found) as restored:
                    async for data in restored:
                        yield data
                return
            size = metadata.segment_size_in_bytes
            wanted = pieces(f"{path}.log", start, end, size)
            async with aclosing(read_ahead(self._store, wanted)) as reading:
                async for _, data in reading:
                    yield data

    async def _restored(
        self, opened: _Opened, chunks: ChunkIndex, name: str, start: int, end: int
    ) -> AsyncGenerator[bytes, None]:
        """The log's bytes, from the chunks in the object `name`."""
        planned = chunks.pieces(name, start, end)
        coming: deque[list[Chunk]] = deque()

        def wanted() -> Iterator[Piece]:
            for piece, held in planned:
                coming.append(held)
                yield piece

        shown = self._store.name_of(name)
        async with aclosing(read_ahead(self._store, wanted())) as reading:
            async for piece, data in reading:
                for chunk in coming.popleft():
                    raw = data[chunk.start - piece.start : chunk.end - piece.start]
                    log = await asyncio.to_thread(opened.log_of, chunk, raw, shown)
                    yield log[max(start - chunk.first, 0) : end - chunk.first]

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        path = place_of(metadata, self._prefix)
        with self._store.counts.noting_damage(Operation.FETCH_INDEXES):
            opened = await self._opened(metadata, path, Operation.FETCH_INDEXES)
            manifest = opened.manifest
            if index_type not in manifest.indexes:
                raise RemoteResourceNotFound(
                    f"{metadata.remote_log_segment_id} has no {index_type.name} index"
                )
            start, end = manifest.indexes[index_type]
            if start == end:
                return b""
            name = f"{path}.indexes"
            data = await self._store.get_range(
                Operation.FETCH_INDEXES, name, start, end, manifest.indexes_size
            )
            return opened.index_of(data, self._store.name_of(name))

    @override
    async def fetch_indexes(
        self, metadata: RemoteLogSegmentMetadata, index_types: AbstractSet[IndexType]
    ) -> dict[IndexType, bytes]:
        path = place_of(metadata, self._prefix)
        with self._store.counts.noting_damage(Operation.FETCH_INDEXES):
            opened = await self._opened(metadata, path, Operation.FETCH_INDEXES)
            data = await self._store.get(Operation.FETCH_INDEXES, f"{path}.indexes")
            expected = opened.manifest.indexes_size
            shown = f"{self._store.name_of(path)}.indexes"
            if len(data) != expected:
                raise CorruptRemoteData(
                    f"{shown}: expected {expected} bytes, found {len(data)}"
                )
            return {
                kind: opened.index_of(data[start:end], shown)
                for kind, (start, end) in opened.manifest.indexes.items()
                if kind in index_types
            }

    async def _opened(
        self, metadata: RemoteLogSegmentMetadata, path: str, operation: Operation
    ) -> _Opened:
        segment = metadata.remote_log_segment_id
        known = self._manifests.get(segment)
        if known is not None:
            return known
        name = f"{path}.{MANIFEST}"
        data = await self._store.get(operation, name)
        manifest = decode_manifest(data, self._store.name_of(name))
        _check_segment(manifest.segment, segment, self._store.name_of(name))
        if manifest.log_size != metadata.segment_size_in_bytes:
            raise CorruptRemoteData(
                f"{self._store.name_of(name)}: expected a log of "
                f"{metadata.segment_size_in_bytes} bytes, found {manifest.log_size}"
            )
        cipher = None
        if manifest.encryption is not None:
            shown = self._store.name_of(name)
            cipher = await asyncio.to_thread(self._keys.cipher, manifest.encryption, shown)
        opened = _Opened(manifest, cipher)
        self._manifests.put(segment, opened)
        return opened


class _Opened(NamedTuple):
    """A segment's manifest, and what decrypts the segment, if it is encrypted."""

    manifest: Manifest
    cipher: Cipher | None

    def index_of(self, data: bytes, name: str) -> bytes:
        """An index, from what the indexes object `name` has of it."""
        return data if self.cipher is None or not data else self.cipher.decrypted(data, name)

    def log_of(self, chunk: Chunk, data: bytes, name: str) -> bytes:
        """A chunk of the log, from what the object `name` has of it.

        Raises:
            CorruptRemoteData: It is not what was stored there.
        """
        size = chunk.last - chunk.first
        if self.cipher is not None:
            data = self.cipher.decrypted(data, f"{name} at {chunk.start}")
        if self.manifest.is_compressed:
            try:
                data = decompressed_zstd(data, size)
            except Exception as error:  # The codec's library raises many.
                raise CorruptRemoteData(
                    f"{name} at {chunk.start}: expected {size} bytes of log in zstd, found "
                    f"{len(data)} other bytes"
                ) from error
        if len(data) != size:
            raise CorruptRemoteData(
                f"{name} at {chunk.start}: expected {size} bytes of log, found {len(data)}"
            )
        return data


def _check_segment(found: NamedSegment, segment: RemoteLogSegmentId, name: str) -> None:
    partition = segment.topic_id_partition
    expected = NamedSegment(str(partition.topic_id), partition.partition, str(segment.id))
    pairs = zip(found, expected, strict=True)
    if any(theirs is not None and theirs != ours for theirs, ours in pairs):
        raise CorruptRemoteData(f"{name}: expected the manifest of {expected}, found {found}")


def place_of(metadata: RemoteLogSegmentMetadata, prefix: str) -> str:
    """The prefix of the names of the segment's objects.

    Raises:
        CorruptRemoteData: Its custom metadata is not this layout's.
    """
    return stored_at(metadata, prefix)[0]


def stored_at(metadata: RemoteLogSegmentMetadata, prefix: str) -> tuple[str, int | None]:
    """`place_of`, and the bytes of all objects if the custom metadata has them."""
    partition = metadata.topic_id_partition
    recorded = decode_custom_metadata(metadata.custom_metadata, metadata.remote_log_segment_id)
    if recorded.prefix is not None:
        prefix = recorded.prefix
    if recorded.key is not None:
        return prefix + recorded.key, recorded.size
    folder = f"{topic_name(metadata)}-{partition.topic_id}/{partition.partition}"
    return f"{prefix}{folder}/{segment_name(metadata)}", recorded.size
