"""Serialization of stored values, with checksums by which damaged bytes are noticed."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import msgpack
from typing_extensions import override

from tierledger.events.errors import CorruptCheckpoint, FormatTooNew, InvalidArgument

Plain: TypeAlias = Any
"""None, a bool, int (64 bits), str or bytes, or a list of such. It is `Any`, because code that
reads a value knows each field's type and has to check it anyway."""

KINDS = {
    "segment": b"S",
    "epoch": b"E",
    "page": b"G",
    "partition": b"P",
    "batch": b"B",
    "service": b"V",
    "closed": b"C",
}
"""The kinds of stored values, each with the letter that enters its checksum."""

VERSIONS = {**dict.fromkeys(KINDS, 1), "partition": 2}
"""The version in which each kind is written."""

Upcaster: TypeAlias = "Callable[[list[Plain]], list[Plain]]"


def _with_dispute_run(fields: list[Plain]) -> list[Plain]:
    """A partition's fields in version 2, which counts disputes in a row; version 1 did not."""
    head_at = 8
    fields[head_at] = [*fields[head_at], None]
    return fields


UPCASTERS: dict[tuple[str, int], Upcaster] = {("partition", 1): _with_dispute_run}
"""(kind, version) to a function from that version's fields to the next version's."""

HEADER_BYTES = 5

_pack = msgpack.Packer(autoreset=True).pack
"""Does what `msgpack.packb` does, without creating a packer for each call."""


class MetadataSerDe(ABC):
    """Turns the fields of a stored value into bytes and back.

    `kind` is one of `KINDS`. `deserialize` returns fields equal to those that `serialize` got;
    their number and types are up to the code that stores them.
    """

    @abstractmethod
    def serialize(self, kind: str, fields: Sequence[Plain]) -> bytes:
        """The bytes to store for `fields`.

        Raises:
            InvalidArgument: There is no such kind, or a field is not plain.
        """

    @abstractmethod
    def deserialize(self, kind: str, data: bytes) -> list[Plain]:
        """The fields from which `serialize` made `data`.

        Raises:
            CorruptCheckpoint: `data` is damaged, or of another kind.
            FormatTooNew: A newer program made it.
            InvalidArgument: There is no such kind.
        """

    def first_fields(self, kind: str, data: bytes, count: int) -> list[Plain]:
        """The first `count` of the fields, or all if there are fewer.

        Raises as `deserialize` does; override it where the others need not be looked at.
        """
        return self.deserialize(kind, data)[:count]

    def serialize_row(self, row: bytes) -> bytes:
        """The bytes to store for a segment whose fields are packed as the msgpack `row`.

        Equal to `serialize("segment", fields)`; override it where packed rows need not be
        unpacked.
        """
        return self.serialize("segment", msgpack.unpackb(row))

    def deserialize_row(self, data: bytes) -> bytes:
        """The packed fields of a stored segment. Raises as `deserialize` does."""
        row: bytes = msgpack.packb(self.deserialize("segment", data))
        return row


class MsgpackSerDe(MetadataSerDe):
    """One byte of version, four of checksum, then the fields in msgpack.

    The checksum covers version, kind and fields, so a value under the key of another kind is
    noticed. Version and checksum keep their places and meaning in every version, so a newer
    value can be told from a damaged one. Values of older versions are upgraded when read.
    """

    @override
    def serialize(self, kind: str, fields: Sequence[Plain]) -> bytes:
        _known(kind)
        try:
            payload = _pack(list(fields))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(
                f"a {kind} with a field that is not plain: {error}"
            ) from error
        return _framed(VERSIONS[kind], _seed(kind, VERSIONS[kind]), payload)

    @override
    def deserialize(self, kind: str, data: bytes) -> list[Plain]:
        _known(kind)
        _check(kind, data)
        try:
            fields = msgpack.unpackb(memoryview(data)[HEADER_BYTES:])
        except (ValueError, msgpack.UnpackException) as error:
            raise CorruptCheckpoint(f"a {kind} that is not msgpack: {error}") from error
        if not isinstance(fields, list):
            raise CorruptCheckpoint(
                f"expected a {kind} with a list of fields, got {fields!r:.64}"
            )
        return _risen(kind, data[0], fields)

    @override
    def first_fields(self, kind: str, data: bytes, count: int) -> list[Plain]:
        _known(kind)
        _check(kind, data)
        if data[0] != VERSIONS[kind]:  # Who reads older fields may need all of them.
            return super().first_fields(kind, data, count)
        reader = msgpack.Unpacker(max_buffer_size=len(data))
        reader.feed(memoryview(data)[HEADER_BYTES:])
        try:
            there = reader.read_array_header()
            return [reader.unpack() for _ in range(min(count, there))]
        except (ValueError, msgpack.UnpackException) as error:
            raise CorruptCheckpoint(f"a {kind} that is not msgpack: {error}") from error

    @override
    def serialize_row(self, row: bytes) -> bytes:
        return _framed(_SEGMENT_VERSION, _SEGMENT_SEED, row)

    @override
    def deserialize_row(self, data: bytes) -> bytes:
        row = data[HEADER_BYTES:]
        if data[:HEADER_BYTES] != _header(_SEGMENT_VERSION, _SEGMENT_SEED, row):
            _check("segment", data)
        return row


@cache
def _seed(kind: str, version: int) -> int:
    """The checksum of version and kind, with which that of the fields begins."""
    return zlib.crc32(bytes((version,)) + KINDS[kind])


_SEGMENT_VERSION = VERSIONS["segment"]
_SEGMENT_SEED = _seed("segment", _SEGMENT_VERSION)


def _header(version: int, seed: int, payload: bytes) -> bytes:
    return bytes((version,)) + zlib.crc32(payload, seed).to_bytes(4, "big")


def _framed(version: int, seed: int, payload: bytes) -> bytes:
    return _header(version, seed, payload) + payload


def _known(kind: str) -> None:
    if kind not in KINDS:
        raise InvalidArgument(f"expected one of {', '.join(KINDS)}, got {kind!r}")


def _risen(kind: str, version: int, fields: list[Plain]) -> list[Plain]:
    """The fields, upgraded to the newest version."""
    try:
        for step in range(version, VERSIONS[kind]):
            fields = UPCASTERS[kind, step](fields)
    except (LookupError, TypeError) as error:
        raise CorruptCheckpoint(
            f"a {kind} in format {version} whose fields do not fit it: {error}"
        ) from error
    return fields


def _check(kind: str, data: bytes) -> None:
    """Refuse `data` unless its checksum is right and its version is known."""
    if len(data) <= HEADER_BYTES:
        raise CorruptCheckpoint(f"a {kind} of {len(data)} bytes")
    version = data[0]
    found = int.from_bytes(data[1:HEADER_BYTES], "big")
    expected = zlib.crc32(memoryview(data)[HEADER_BYTES:], _seed(kind, version))
    if found != expected:
        raise CorruptCheckpoint(
            f"a {kind} whose checksum is {found:#010x}, expected {expected:#010x}"
        )
    if version > VERSIONS[kind]:
        raise FormatTooNew(
            f"a {kind} in format {version}, and this program knows {VERSIONS[kind]}"
        )
    if version < 1:
        raise CorruptCheckpoint(f"a {kind} in format {version}, which there never was")
