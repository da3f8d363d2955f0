"""Decompresses the records of a batch, as leniently as Kafka's own clients do."""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

import cramjam

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the codecs, by their numbers in a batch's attributes."""

ZSTD: Final = CODECS.index("zstd")

_GZIP_WBITS: Final = 31

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_LENGTH: Final = Struct(">i")

_LZ4_FLAGS_AT, _LZ4_DESCRIPTOR_BYTES = 4, 2
_LZ4_HAS_CONTENT_SIZE, _LZ4_HAS_DICTIONARY = 0x08, 0x01


def decompressed(codec: int, data: bytes) -> bytes:
    """The content of `data`; any exception means that `data` is not of this codec."""
    match CODECS[codec]:
        case "gzip":
            return _gunzipped(data)
        case "snappy":
            return _unsnapped(data)
        case "lz4":
            return _unlz4ed(data)
        case "zstd":
            return bytes(cramjam.zstd.decompress(data))
        case _:
            return data


def decompressed_zstd(data: bytes, size: int) -> bytes:
    """The `size` bytes in `data`, and never more; any exception means that it has others."""
    content = bytearray(size)
    found = cramjam.zstd.decompress_into(data, content)
    if found != size:
        raise ValueError(found)
    return bytes(content)


def _gunzipped(data: bytes) -> bytes:
    """All members of a gzip stream. As in Java, what follows the last one is ignored."""
    parts: list[bytes] = []
    while data:
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            part = member.decompress(data)
        except zlib.error:
            if not parts:
                raise
            break
        if not member.eof:
            raise EOFError("the gzip stream ends too early")
        parts.append(part)
        data = member.unused_data
    return b"".join(parts)


def _unsnapped(data: bytes) -> bytes:
    """A raw snappy block, or xerial's blocks, whose version numbers vary by writer."""
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks, at = [], 0
    while at < len(data):
        if data.startswith(_XERIAL_MAGIC, at):  # Streams may follow one another.
            at += _XERIAL_HEADER_BYTES
            continue
        (length,) = _BLOCK_LENGTH.unpack_from(data, at)
        at += _BLOCK_LENGTH.size
        if not 0 <= length <= len(data) - at:
            raise ValueError(
                f"snappy: expected a block of up to {len(data) - at}, got {length}"
            )
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[at : at + length])))
        at += length
    return b"".join(blocks)


def _unlz4ed(data: bytes) -> bytes:
    """Frames of lz4, also with the header's checksum that old clients computed wrongly."""
    try:
        return bytes(cramjam.lz4.decompress(data))
    except cramjam.DecompressionError:
        at = _lz4_checksum_at(data)
        for checksum in range(256):
            try:
                return bytes(
                    cramjam.lz4.decompress(b"%b%c%b" % (data[:at], checksum, data[at + 1 :]))
                )
            except cramjam.DecompressionError:
                continue
        raise


def _lz4_checksum_at(data: bytes) -> int:
    flags = data[_LZ4_FLAGS_AT]
    at = _LZ4_FLAGS_AT + _LZ4_DESCRIPTOR_BYTES
    if flags & _LZ4_HAS_CONTENT_SIZE:
        at += 8
    if flags & _LZ4_HAS_DICTIONARY:
        at += 4
    return at
