"""Reads and writes the primitive types of Kafka's flexible message encoding.

Numbers are big-endian. Lengths and counts are unsigned LEB128 of at most 32 bits ("uvarint"),
stored plus one if the value may be null. Every struct ends with a section of tagged fields.
Readers may skip unknown ones; here they are kept.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from tierledger.events.errors import InvalidArgument, MetadataParseError
from tierledger.events.kafka.tags import Tags

UVARINT_BYTES_MAX: Final = 5
"""Kafka's limit; five groups of seven bits are enough for 32."""

STRING_BYTES_MAX: Final = 32767
"""Kafka's limit for a string, in UTF-8."""


class Reader:
    """A record's bytes, and the index of the next one to read.

    Every method raises `MetadataParseError` if the bytes are not of the type that it reads.
    """

    __slots__ = ("at", "is_odd", "value")

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.at = 0
        self.is_odd = False
        """Whether a part was encoded in another way than `writer` would encode it."""

    def uvarint(self, what: str) -> int:
        """The next number; nearly always it has one byte."""
        at = self.at
        try:
            byte = self.value[at]
        except IndexError:
            raise self.ended(what) from None
        if byte > 0x7F:
            return self._long_uvarint(what)
        self.at = at + 1
        return byte

    def _long_uvarint(self, what: str) -> int:
        at = self.at
        number = 0
        for length, byte in enumerate(self.value[at : at + UVARINT_BYTES_MAX], start=1):
            number |= (byte & 0x7F) << (7 * (length - 1))
            if byte < 0x80:
                if number >> 32:
                    raise self.error(at, f"at most 32 bits for {what}", number)
                self.at = at + length
                self.is_odd |= byte == 0  # A last group of zeros is superfluous.
                return number
        if at + UVARINT_BYTES_MAX > len(self.value):
            raise self.ended(what)
        found = self.value[at : at + UVARINT_BYTES_MAX].hex()
        raise self.error(at, f"{what} to end within {UVARINT_BYTES_MAX} bytes", found)

    def unpack(self, layout: struct.Struct, what: str) -> tuple[Any, ...]:
        """The fields of `layout`, which has a fixed size."""
        at = self.at
        try:
            fields = layout.unpack_from(self.value, at)
        except struct.error:
            raise self.ended(what) from None
        self.at = at + layout.size
        return fields

    def int8(self, what: str) -> int:
        at = self.at
        try:
            byte = self.value[at]
        except IndexError:
            raise self.ended(what) from None
        self.at = at + 1
        return byte if byte < 0x80 else byte - 0x100

    def raw(self, length: int, what: str) -> bytes:
        at = self.at
        end = at + length
        if end > len(self.value):
            raise self.ended(f"{length} bytes of {what}")
        self.at = end
        return self.value[at:end]

    def string(self, what: str) -> str:
        """A text that may be empty, but not null."""
        at = self.at
        length = self.uvarint(what) - 1
        if length < 0:
            raise self.error(at, what, "null")
        if length > STRING_BYTES_MAX:
            raise self.error(at, f"at most {STRING_BYTES_MAX} bytes for {what}", length)
        data = self.raw(length, what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            found = data[:32].hex()
            raise self.error(self.at - length, f"UTF-8 for {what}", found) from None

    def nullable_bytes(self, what: str) -> bytes | None:
        """Bytes, which may be none or empty."""
        length = self.uvarint(what) - 1
        return None if length < 0 else self.raw(length, what)

    def tags(self) -> Tags:
        """The section at the end of a struct, nearly always empty."""
        at = self.at
        if self.value[at : at + 1] == b"\x00":
            self.at = at + 1
            return ()
        count = self.uvarint("the number of tagged fields")
        if 2 * count > len(self.value) - self.at:  # A tag and a size are a byte each at least.
            raise self.error(at, "as many tagged fields as the record has room for", count)
        return tuple(self._tag() for _ in range(count))

    def _tag(self) -> tuple[int, bytes]:
        tag = self.uvarint("a tag")
        size = self.uvarint("the size of a tagged field")
        return tag, self.raw(size, "a tagged field")

    def error(self, at: int, expected: str, found: object) -> MetadataParseError:
        """The error for finding `found` at `at` instead of `expected`."""
        return MetadataParseError(f"position {at}: expected {expected}, found {found}")

    def ended(self, what: str) -> MetadataParseError:
        """The error for a record that ends before `what` is complete."""
        return self.error(self.at, what, f"the record's end after {len(self.value)} bytes")


def uvarint(number: int) -> bytes:
    """`number` in as few bytes as it needs."""
    if number < 0x80:
        return _ONE_BYTE[number]
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))


def compact_string(text: str, what: str) -> bytes:
    """`text` with its length before it.

    Raises:
        InvalidArgument: `text` is too long for Kafka, or cannot be written as UTF-8.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"expected Unicode for {what}, got {text[:64]!r}") from error
    if len(data) > STRING_BYTES_MAX:
        raise InvalidArgument(
            f"expected at most {STRING_BYTES_MAX} bytes for {what}, got {len(data)}"
        )
    return uvarint(len(data) + 1) + data


def compact_nullable_bytes(data: bytes | None) -> bytes:
    """`data` with its length before it; None and empty differ."""
    return b"\x00" if data is None else uvarint(len(data) + 1) + data


def tag_section(tags: Tags) -> bytes:
    """The section that ends a struct, with `tags` in their order."""
    if not tags:
        return b"\x00"
    parts = [uvarint(len(tags))]
    for tag, data in tags:
        parts += (uvarint(tag), uvarint(len(data)), data)
    return b"".join(parts)
