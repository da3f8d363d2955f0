"""The three-object layout's manifest and custom metadata."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from typing_extensions import override

from tierledger.events.errors import (
    CorruptRemoteData,
    FormatTooNew,
    MetadataParseError,
)
from tierledger.events.kafka.primitives import Reader
from tierledger.events.metadata import CustomMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.manifest.chunks import ChunkIndex, number
from tierledger.tiering.layouts.manifest.keys import Encryption

VERSION: Final = "1"

_KEYS: Final = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}
"""Keys of the manifest's `segmentIndexes`."""

_REMOTE_SIZE: Final = 0
_OBJECT_PREFIX: Final = 1
_OBJECT_KEY: Final = 2
"""Tags of custom metadata."""


_VARLONG_LAST: Final = 0x7F
"""Largest byte without the bit that says that more follow."""


class NamedSegment(NamedTuple):
    """The segment that a manifest names; missing fields are none."""

    topic_id: str | None
    partition: int | None
    segment_id: str | None

    @override
    def __str__(self) -> str:
        return f"{self.topic_id}:{self.partition}/{self.segment_id}"


class Manifest(NamedTuple):
    """The manifest of a segment."""

    segment: NamedSegment
    log_size: int
    """Bytes of the log itself, whatever became of it."""
    indexes: Mapping[IndexType, tuple[int, int]]
    """Start and end (exclusive) of each index in the indexes object."""
    chunks: ChunkIndex | None
    """Where the log's chunks are; none if the log is stored as it is."""
    is_compressed: bool
    """Whether each chunk of the log was compressed, with zstd."""
    encryption: Encryption | None
    """How each chunk of the log, and each index, was encrypted; none if they were not."""

    @property
    def indexes_size(self) -> int:
        """Bytes of the indexes object."""
        return max(end for _, end in self.indexes.values())


def decode_manifest(data: bytes, name: str) -> Manifest:
    """The manifest in `data`; `name` is for errors.

    Raises:
        CorruptRemoteData: `data` is no manifest.
        FormatTooNew: The manifest is of another version.
    """
    try:
        found = json.loads(data)
        version = found["version"]
        if version != VERSION:
            raise FormatTooNew(f"{name}: expected manifest version {VERSION}, found {version}")
        is_compressed, encryption = found["compression"], _encryption(found.get("encryption"))
        if type(is_compressed) is not bool:
            raise ValueError(is_compressed)
        is_transformed = is_compressed or encryption is not None
        log_size = number(found["chunkIndex"]["originalFileSize"])
        listed = found["segmentIndexes"]
        return Manifest(
            _named(found),
            log_size,
            {
                kind: _place(listed[key])
                for kind, key in _KEYS.items()
                # Only the transaction index may be missing; its key is then null or absent.
                if kind != IndexType.TRANSACTION or listed.get(key) is not None
            },
            ChunkIndex(found["chunkIndex"]) if is_transformed and log_size else None,
            is_compressed,
            encryption,
        )
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise CorruptRemoteData(f"{name}: expected a manifest, found {data[:80]!r}") from error


def _encryption(listed: Mapping[str, str] | None) -> Encryption | None:
    if listed is None:
        return None
    key_id, _, wrapped = listed["dataKey"].partition(":")
    return Encryption(
        key_id,
        base64.b64decode(wrapped, validate=True),
        base64.b64decode(listed["aad"], validate=True),
    )


def _named(found: dict[str, Any]) -> NamedSegment:
    metadata = found.get("remoteLogSegmentMetadata") or {}
    segment = metadata.get("remoteLogSegmentId") or {}
    partition = segment.get("topicIdPartition") or {}
    topic = partition.get("topicPartition") or {}
    return NamedSegment(partition.get("topicId"), topic.get("partition"), segment.get("id"))


def _place(listed: dict[str, Any]) -> tuple[int, int]:
    start, size = number(listed["position"]), number(listed["size"])
    return start, start + size


class StoredObjects(NamedTuple):
    """A segment's objects by its custom metadata, which may have any of this."""

    prefix: str | None = None
    key: str | None = None
    """Without the suffix."""
    size: int | None = None
    """Bytes of all three objects."""


def decode_custom_metadata(custom: CustomMetadata | None, segment: object) -> StoredObjects:
    """What `custom` says of the objects; it must be Kafka's tagged fields or empty.

    Raises:
        CorruptRemoteData: `custom` is in another format.
    """
    if custom is None or not custom.value:
        return StoredObjects()
    try:
        reader = Reader(custom.value)
        fields = dict(reader.tags())
        if reader.at != len(custom.value):
            raise reader.error(reader.at, "the end", custom.value[reader.at :].hex())
        return StoredObjects(
            _string(fields.get(_OBJECT_PREFIX), "the object's prefix"),
            _string(fields.get(_OBJECT_KEY), "the object's key"),
            _size(fields.get(_REMOTE_SIZE)),
        )
    except MetadataParseError as error:
        raise CorruptRemoteData(
            f"{segment}: expected custom metadata of the three-object layout, "
            f"found {custom.value[:64].hex()}: {error}"
        ) from error


def _string(field: bytes | None, what: str) -> str | None:
    return None if field is None else Reader(field).string(what)


def _size(field: bytes | None) -> int | None:
    """Kafka's signed varlong in `field`; none if it is no size."""
    if not field or field[-1] > _VARLONG_LAST:
        return None
    groups = (part & _VARLONG_LAST for part in field)
    coded = sum(part << 7 * at for at, part in enumerate(groups))
    return None if coded & 1 else coded >> 1
