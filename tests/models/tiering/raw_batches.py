"""Record batches of any bytes with a checksum that fits, as foreign producers send them."""

import struct
from collections.abc import Callable, Sequence

import google_crc32c

NOW_MS = 1_700_000_000_000


def varint(number: int) -> bytes:
    """A signed varint."""
    number = (number << 1 ^ number >> 63) & 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    """Nullable bytes, behind their length."""
    return varint(-1) if data is None else varint(len(data)) + data


def fields(
    delta: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    *,
    time: int = 0,
    attributes: int = 0,
) -> bytes:
    """A record without its length."""
    named = b"".join(sized(name) + sized(content) for name, content in headers)
    start = bytes((attributes,)) + varint(time) + varint(delta)
    return start + sized(key) + sized(value) + varint(len(headers)) + named


def raw_batch(
    base: int,
    records: Sequence[bytes],
    *,
    last_delta: int | None = None,
    codec: int = 0,
    compress: Callable[[bytes], bytes] = bytes,
    attributes: int = 0,
    count: int | None = None,
    max_time: int = NOW_MS,
) -> bytes:
    """A batch of `records`, each in the form of `fields`; its sums and sizes are right."""
    content = compress(b"".join(sized(one) for one in records))
    last = len(records) - 1 if last_delta is None else last_delta
    count = len(records) if count is None else count
    head = (attributes | codec, last, NOW_MS, max_time, -1, -1, -1, count)
    checked = struct.pack(">hiqqqhii", *head) + content
    rest = struct.pack(">ibI", 0, 2, google_crc32c.value(checked)) + checked
    return struct.pack(">qi", base, len(rest)) + rest
