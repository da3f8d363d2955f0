"""The three-object layout's manifest and custom metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from typing_extensions import override

from tierledger.events.errors import (
    CorruptRemoteData,
    FormatTooNew,
    MetadataParseError,
    RejectedError,
)
from tierledger.events.kafka.primitives import Reader
from tierledger.events.metadata import CustomMetadata
from tierledger.tiering.formats.index_type import IndexType

VERSION: Final = "1"

_KEYS: Final = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}
"""Keys of the manifest's `segmentIndexes`."""

_OBJECT_PREFIX: Final = 1
_OBJECT_KEY: Final = 2
"""Tags of custom metadata; tag 0 is the size, which is not read."""


class NamedSegment(NamedTuple):
    """The segment that a manifest names; missing fields are none."""

    topic_id: str | None
    partition: int | None
    segment_id: str | None

    @override
    def __str__(self) -> str:
        return f"{self.topic_id}:{self.partition}/{self.segment_id}"


class Manifest(NamedTuple):
    """The manifest of a segment that is neither compressed nor encrypted by the plugin."""

    segment: NamedSegment
    log_size: int
    indexes: Mapping[IndexType, tuple[int, int]]
    """Start and end (exclusive) of each index in the indexes object."""

    @property
    def indexes_size(self) -> int:
        """Bytes of the indexes object."""
        return max(end for _, end in self.indexes.values())


def decode_manifest(data: bytes, name: str) -> Manifest:
    """The manifest in `data`; `name` is for errors.

    Raises:
        CorruptRemoteData: `data` is no manifest.
        FormatTooNew: The manifest is of another version.
        RejectedError: The plugin compressed or encrypted the segment; the message tells which.
    """
    try:
        found = json.loads(data)
        version = found["version"]
        if version != VERSION:
            raise FormatTooNew(f"{name}: expected manifest version {VERSION}, found {version}")
        _refuse_transformed(found, name)
        log_size = _number(found["chunkIndex"]["originalFileSize"])
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
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptRemoteData(f"{name}: expected a manifest, found {data[:80]!r}") from error


def _refuse_transformed(found: dict[str, Any], name: str) -> None:
    transformed = []
    if found["compression"]:
        transformed.append("compressed")
    if found.get("encryption") is not None:
        transformed.append("encrypted")
    if transformed:
        raise RejectedError(
            f"{name}: the segment was {' and '.join(transformed)} by the plugin that copied "
            "it, which tierledger does not read"
        )


def _named(found: dict[str, Any]) -> NamedSegment:
    metadata = found.get("remoteLogSegmentMetadata") or {}
    segment = metadata.get("remoteLogSegmentId") or {}
    partition = segment.get("topicIdPartition") or {}
    topic = partition.get("topicPartition") or {}
    return NamedSegment(partition.get("topicId"), topic.get("partition"), segment.get("id"))


def _place(listed: dict[str, Any]) -> tuple[int, int]:
    start, size = _number(listed["position"]), _number(listed["size"])
    return start, start + size


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


class ObjectPath(NamedTuple):
    """The location of a segment's objects by its custom metadata."""

    prefix: str | None
    key: str | None
    """Without the suffix."""


def decode_custom_metadata(custom: CustomMetadata | None, segment: object) -> ObjectPath:
    """The object path in `custom`, which must be Kafka's tagged fields or empty.

    Raises:
        CorruptRemoteData: `custom` is in another format.
    """
    if custom is None or not custom.value:
        return ObjectPath(None, None)
    try:
        reader = Reader(custom.value)
        fields = dict(reader.tags())
        if reader.at != len(custom.value):
            raise reader.error(reader.at, "the end", custom.value[reader.at :].hex())
        return ObjectPath(
            _string(fields.get(_OBJECT_PREFIX), "the object's prefix"),
            _string(fields.get(_OBJECT_KEY), "the object's key"),
        )
    except MetadataParseError as error:
        raise CorruptRemoteData(
            f"{segment}: expected custom metadata of the three-object layout, "
            f"found {custom.value[:64].hex()}: {error}"
        ) from error


def _string(field: bytes | None, what: str) -> str | None:
    return None if field is None else Reader(field).string(what)
