"""Kafka's producer snapshot: the state of each producer at an offset."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

import google_crc32c

from tierledger.events.errors import CorruptRemoteData

SNAPSHOT_VERSION: Final = 1

NOT_IN_TRANSACTION: Final = -1
"""The first offset of a transaction if none is open."""

_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = _HEADER.size
_ENTRIES_FROM = _HEADER.size + _COUNT.size

SNAPSHOT_HEAD_SIZE: Final = _ENTRIES_FROM
"""Bytes of a snapshot without producers."""
SNAPSHOT_ENTRY_SIZE: Final = _ENTRY.size
"""Bytes per producer."""


class ProducerState(NamedTuple):
    """One producer's last batch, and its open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int
    """`NOT_IN_TRANSACTION` if no transaction is open."""


def parse_producer_snapshot(data: bytes, name: str) -> list[ProducerState]:
    """The producers in `data`, in the file's order; `name` is for errors.

    Raises:
        CorruptRemoteData: `data` is no snapshot of version 1, or its checksum is wrong.
    """
    if len(data) < _ENTRIES_FROM:
        raise _corrupt(name, f"{_ENTRIES_FROM} bytes or more", f"{len(data)} bytes")
    version, crc = _HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise _corrupt(name, f"version {SNAPSHOT_VERSION}", str(version))
    actual = google_crc32c.value(data[_CRC_FROM:])
    if actual != crc:
        raise _corrupt(name, f"a checksum of {crc:#010x}", f"{actual:#010x}")
    (count,) = _COUNT.unpack_from(data, _CRC_FROM)
    size = _ENTRIES_FROM + count * _ENTRY.size
    if count < 0 or len(data) != size:
        raise _corrupt(name, f"{size} bytes for {count} producers", f"{len(data)} bytes")
    return [ProducerState(*one) for one in _ENTRY.iter_unpack(data[_ENTRIES_FROM:])]


def open_transactions(producers: Iterable[ProducerState]) -> dict[int, int]:
    """By producer, the offset at which its open transaction begins."""
    firsts = {one.producer_id: one.current_txn_first_offset for one in producers}
    return {producer: first for producer, first in firsts.items() if first >= 0}


def format_producer_snapshot(producers: Iterable[ProducerState]) -> bytes:
    """The snapshot that Kafka would write for `producers`."""
    entries = [_ENTRY.pack(*one) for one in producers]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEADER.pack(SNAPSHOT_VERSION, google_crc32c.value(body)) + body


def _corrupt(name: str, expected: str, got: str) -> CorruptRemoteData:
    return CorruptRemoteData(f"{name}: expected {expected}, got {got}")
