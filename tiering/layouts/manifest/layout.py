"""The three-object layout of a widely used storage plugin, for reading only.

    <prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>.rsm-manifest
                                                                      .indexes
                                                                      .log

The manifest has the place of each index in the indexes object, and whether the plugin
compressed or encrypted the segment, which is not supported here. There are no checksums.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from tierledger.events.errors import CorruptRemoteData, RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.manifest.format import (
    Manifest,
    NamedSegment,
    decode_custom_metadata,
    decode_manifest,
)
from tierledger.tiering.layouts.read_only_storage import ReadOnlyStorageManager
from tierledger.tiering.objects.names import segment_name, topic_name
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.objects.stream import checked_range, pieces, read_ahead
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

    Every fetch raises `RejectedError` for a segment that the plugin compressed or encrypted.
    """

    layout = "a tier of the three-object layout"

    def __init__(self, store: ObjectStore, prefix: str = "") -> None:
        """Read the objects of `store` whose names begin with `prefix`, without a separator."""
        self._store = store
        self._prefix = prefix
        self._manifests: Recent[RemoteLogSegmentId, Manifest] = Recent(MANIFESTS_KEPT)

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
            await self._manifest(metadata, path, Operation.FETCH_LOG)
            size = metadata.segment_size_in_bytes
            wanted = pieces(f"{path}.log", start, end, size)
            async with aclosing(read_ahead(self._store, wanted)) as reading:
                async for _, data in reading:
                    yield data

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        path = place_of(metadata, self._prefix)
        with self._store.counts.noting_damage(Operation.FETCH_INDEXES):
            manifest = await self._manifest(metadata, path, Operation.FETCH_INDEXES)
            if index_type not in manifest.indexes:
                raise RemoteResourceNotFound(
                    f"{metadata.remote_log_segment_id} has no {index_type.name} index"
                )
            start, end = manifest.indexes[index_type]
            if start == end:
                return b""
            name = f"{path}.indexes"
            return await self._store.get_range(
                Operation.FETCH_INDEXES, name, start, end, manifest.indexes_size
            )

    @override
    async def fetch_indexes(
        self, metadata: RemoteLogSegmentMetadata, index_types: AbstractSet[IndexType]
    ) -> dict[IndexType, bytes]:
        path = place_of(metadata, self._prefix)
        with self._store.counts.noting_damage(Operation.FETCH_INDEXES):
            manifest = await self._manifest(metadata, path, Operation.FETCH_INDEXES)
            data = await self._store.get(Operation.FETCH_INDEXES, f"{path}.indexes")
            expected = manifest.indexes_size
            if len(data) != expected:
                raise CorruptRemoteData(
                    f"{self._store.name_of(path)}.indexes: expected {expected} bytes, "
                    f"found {len(data)}"
                )
        return {
            kind: data[start:end]
            for kind, (start, end) in manifest.indexes.items()
            if kind in index_types
        }

    async def _manifest(
        self, metadata: RemoteLogSegmentMetadata, path: str, operation: Operation
    ) -> Manifest:
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
        self._manifests.put(segment, manifest)
        return manifest


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
    partition = metadata.topic_id_partition
    recorded = decode_custom_metadata(metadata.custom_metadata, metadata.remote_log_segment_id)
    if recorded.prefix is not None:
        prefix = recorded.prefix
    if recorded.key is not None:
        return prefix + recorded.key
    folder = f"{topic_name(metadata)}-{partition.topic_id}/{partition.partition}"
    return f"{prefix}{folder}/{segment_name(metadata)}"
