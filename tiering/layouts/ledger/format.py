"""The indexes object and the custom metadata of tierledger's own layout.

    indexes object = head | header | crc32c of both | the indexes, one behind the other
    head           = "tlix" | version, 1 byte | length of the header, 4 bytes

Numbers are big-endian. The header is msgpack: the segment's id, the log's size, the size and
checksums of its parts, and place and checksum of each index. Every byte is under a checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import google_crc32c
import msgpack

from tierledger.events.errors import CorruptRemoteData, FormatTooNew
from tierledger.events.metadata import CustomMetadata
from tierledger.tiering.formats.index_type import IndexType

MAGIC: Final = b"tlix"
VERSION: Final = 1

_HEAD: Final = struct.Struct(">4sBI")
_CRC: Final = struct.Struct(">I")


class StoredIndex(NamedTuple):
    """The place of an index in the indexes object, and its checksum."""

    start: int
    length: int
    crc: int


class SegmentHeader(NamedTuple):
    """The header of an indexes object."""

    segment_id: bytes
    log_size: int
    part_size: int
    part_crcs: tuple[int, ...]
    """crc32c of each part of the log."""
    indexes: Mapping[IndexType, StoredIndex]
    size: int
    """Bytes of the whole indexes object."""


def crc32c(data: bytes) -> int:
    return int(google_crc32c.value(data))


def extend_crc32c(crc: int, data: bytes) -> int:
    """The checksum of bytes with the checksum `crc`, followed by `data`."""
    return int(google_crc32c.extend(crc, data))


def encode_indexes(
    segment_id: bytes,
    log_size: int,
    part_size: int,
    part_crcs: tuple[int, ...],
    indexes: Mapping[IndexType, bytes],
) -> bytes:
    """The indexes object; the same arguments give the same bytes."""
    places = []
    at = 0
    ordered = sorted(indexes.items(), key=lambda item: item[0].value)
    for index_type, data in ordered:
        places.append([index_type.value, at, len(data), crc32c(data)])
        at += len(data)
    header = {
        "segment": segment_id,
        "log_size": log_size,
        "part_size": part_size,
        "part_crcs": list(part_crcs),
        "indexes": places,
    }
    packed = msgpack.packb(header)
    head = _HEAD.pack(MAGIC, VERSION, len(packed)) + packed
    return b"".join((head, _CRC.pack(crc32c(head)), *(data for _, data in ordered)))


def decode_header(data: bytes, name: str) -> SegmentHeader:
    """The verified header of a whole indexes object; `name` is for errors.

    Raises:
        CorruptRemoteData: `data` is no indexes object, or is damaged.
        FormatTooNew: A newer program wrote the object.
    """
    if len(data) < _HEAD.size + _CRC.size or data[:4] != MAGIC:
        raise _corrupt(name, f"an indexes object that begins with {MAGIC!r}", data[:16])
    _, version, length = _HEAD.unpack_from(data)
    if version > VERSION:
        raise FormatTooNew(f"{name}: expected version {VERSION} or older, found {version}")
    end = _HEAD.size + length
    if len(data) < end + _CRC.size:
        raise _corrupt(name, f"at least {end + _CRC.size} bytes", len(data))
    (stored,) = _CRC.unpack_from(data, end)
    if crc32c(data[:end]) != stored:
        raise _corrupt(name, f"crc32c {stored:08x} of the header", f"{crc32c(data[:end]):08x}")
    header = _parsed(data[_HEAD.size : end], end + _CRC.size, name)
    if len(data) != header.size:
        raise _corrupt(name, f"{header.size} bytes", len(data))
    return header


def verified(data: bytes, place: StoredIndex, index_type: IndexType, name: str) -> bytes:
    """`data`, after a check that it is the index at `place`.

    Raises:
        CorruptRemoteData: The checksum is wrong.
    """
    if crc32c(data) != place.crc:
        expected = f"crc32c {place.crc:08x} of the {index_type.name} index"
        raise _corrupt(name, expected, f"{crc32c(data):08x}")
    return data


def _parsed(packed: bytes, base: int, name: str) -> SegmentHeader:
    try:
        header = msgpack.unpackb(packed)
        indexes = {
            IndexType(suffix): StoredIndex(base + start, length, crc)
            for suffix, start, length, crc in header["indexes"]
        }
        return SegmentHeader(
            header["segment"],
            header["log_size"],
            header["part_size"],
            tuple(header["part_crcs"]),
            indexes,
            base + sum(one.length for one in indexes.values()),
        )
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise _corrupt(name, "a header of this version", repr(error)) from error


def _corrupt(name: str, expected: str, found: object) -> CorruptRemoteData:
    return CorruptRemoteData(f"{name}: expected {expected}, found {found}")


class LedgerCustomMetadata(NamedTuple):
    """The custom metadata of a copied segment (KIP-917): some 15 bytes and a prefix.

    It tells where the segment was written, even if prefix and part size have changed since. So
    a part of the log is read without any other request first.
    """

    part_size: int
    weight: int
    """Bytes of all the segment's objects."""
    prefix: str | None
    """Prefix of the segment's objects; none if they are at the store's root."""

    def to_custom_metadata(self) -> CustomMetadata:
        """These fields as Kafka's custom metadata."""
        return CustomMetadata(bytes((VERSION,)) + msgpack.packb(list(self)))

    @staticmethod
    def of(custom: CustomMetadata, segment: object) -> LedgerCustomMetadata:
        """The fields in `custom`; `segment` is for errors.

        Raises:
            CorruptRemoteData: `custom` was not written by this layout.
            FormatTooNew: A newer program wrote `custom`.
        """
        value = custom.value
        if value[:1] > bytes((VERSION,)) and len(value) > 1:
            raise FormatTooNew(
                f"{segment}: expected custom metadata of version {VERSION}, found {value[0]}"
            )
        try:
            part_size, weight, prefix = _plain_list(value)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise CorruptRemoteData(
                f"{segment}: expected custom metadata of tierledger's layout, "
                f"found {value[:64].hex() or 'nothing'}"
            ) from error
        return LedgerCustomMetadata(part_size, weight, prefix)


def _plain_list(value: bytes) -> tuple[int, int, str | None]:
    if value[:1] != bytes((VERSION,)):
        raise ValueError(value[:1])
    part_size, weight, prefix = msgpack.unpackb(value[1:])
    is_plain = type(part_size) is int and type(weight) is int and part_size > 0 <= weight
    if not is_plain or not isinstance(prefix, str | None):
        raise ValueError(part_size, weight, prefix)
    return part_size, weight, prefix


def weight_of(custom: CustomMetadata) -> int:
    """The bytes of all objects of a segment with this custom metadata.

    Raises:
        CorruptRemoteData: `custom` was not written by this layout.
    """
    return LedgerCustomMetadata.of(custom, "custom metadata").weight
