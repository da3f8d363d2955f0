"""The segments of one partition, each kept as the bytes of its row.

A row is the msgpack array `[id, state, start, end, epochs, size, max_timestamp_ms, broker_id,
event_timestamp_ms, custom_metadata, txn_index_empty, finished_at]`. `epochs` is flat: epoch,
offset and placement for each leader epoch, ascending. The same bytes are stored and hashed for
the digest, and the garbage collector never traverses them. A row of a million takes 190 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgpack

ID, STATE, START, END, EPOCHS, SIZE, MAX_TIMESTAMP, BROKER, EVENT_TIMESTAMP = range(9)
CUSTOM, TXN_EMPTY, FINISHED_AT = 9, 10, 11

NOT_FINISHED = -1
"""`finished_at` of a segment that never reached COPY_SEGMENT_FINISHED."""

REFERENCED, UNREFERENCED, LOST = 0, 1, 2
"""A segment's placement in an epoch: served by Kafka, only listed by Kafka, or lost by it."""

SHARD_ROWS = 512
"""Rows of a dictionary at which it is split by the next byte of the (random) segment ids. One
of a million rows would stall for 40 ms when it grows. One of 2,400 takes 0.1 ms to copy, and
after a snapshot each of the next few hundred changes copies one."""

ID_BYTES = 16

Row = list[Any]

_packer = msgpack.Packer(autoreset=True)
pack_row: Callable[[Row], bytes] = _packer.pack


unpack_row: Callable[[bytes], Row] = msgpack.unpackb
"""The fields of a row, as a new list."""


def id_of_row(row: bytes) -> bytes:
    """The segment id in `row`: after the array's header and the id's own (3 bytes)."""
    return row[3:19]


def state_of_row(row: bytes) -> int:
    """The state in `row`: one byte behind the id."""
    return row[19]


def end_in_epoch(fields: Row, epoch: int) -> int:
    """The last offset of `epoch` in the segment: before the next epoch, or its end."""
    epochs = fields[EPOCHS]
    if len(epochs) > 3:
        at = epochs[::3].index(epoch) * 3 + 3
        if at < len(epochs):
            return int(epochs[at + 1]) - 1
    return int(fields[END])


class SegmentRows:
    """A map from segment id to row, with snapshots that take no pause."""

    __slots__ = ("_count", "_depth", "_owned", "_shards")

    def __init__(self, depth: int = 0) -> None:
        """A map for ids that are equal in their first `depth` bytes."""
        self._depth = depth
        self._count = 0
        self._shards: dict[int, dict[bytes, bytes] | SegmentRows] = {}
        """Shards by the byte of the id after those."""
        self._owned: set[int] = set()

    def __len__(self) -> int:
        return self._count

    def get(self, segment_id: bytes) -> bytes | None:
        shard = self._shards.get(segment_id[self._depth])
        return None if shard is None else shard.get(segment_id)

    def put(self, segment_id: bytes, row: bytes) -> None:
        at = segment_id[self._depth]
        shard = self._shards[at] if at in self._owned else self._own(at)
        before = len(shard)
        if type(shard) is not dict:
            shard.put(segment_id, row)  # type: ignore[union-attr] # It is not a dictionary.
            self._count += len(shard) - before
            return
        shard[segment_id] = row
        self._count += len(shard) - before
        if len(shard) > SHARD_ROWS and self._depth + 1 < ID_BYTES:
            spread = self._shards[at] = SegmentRows(self._depth + 1)
            for one, its_row in shard.items():
                spread.put(one, its_row)

    def drop(self, segment_id: bytes) -> None:
        at = segment_id[self._depth]
        shard = self._shards[at] if at in self._owned else self._own(at)
        before = len(shard)
        if type(shard) is dict:
            shard.pop(segment_id, None)
        else:
            shard.drop(segment_id)  # type: ignore[union-attr] # As above.
        self._count += len(shard) - before

    def snapshot(self) -> SegmentRows:
        """A copy of the present rows; either map copies a shard before it changes it."""
        copy = SegmentRows(self._depth)
        copy._shards, copy._count = dict(self._shards), self._count
        self._owned = set()
        return copy

    def only(self, segment_ids: Iterable[bytes]) -> SegmentRows:
        """A copy of those of `segment_ids` that are here."""
        copy = SegmentRows()
        for segment_id in segment_ids:
            row = self.get(segment_id)
            if row is not None:
                copy.put(segment_id, row)
        return copy

    def dismantle(self) -> Iterator[None]:
        """Free all rows, with a yield after at most a few thousand."""
        while self._shards:
            self._pop()
            yield

    def drain(self) -> Iterator[bytes]:
        """All rows, each shard freed after it was read: freeing all at once takes long."""
        while self._shards:
            shard = self._pop()
            yield from shard.values() if type(shard) is dict else shard

    def _pop(self) -> dict[bytes, bytes] | SegmentRows:
        _, shard = self._shards.popitem()
        self._count -= len(shard)
        return shard

    def __iter__(self) -> Iterator[bytes]:
        """All rows, in no order. Iterate a snapshot if rows may change meanwhile."""
        for shard in self._shards.values():
            yield from shard.values() if type(shard) is dict else shard

    def _own(self, at: int) -> dict[bytes, bytes] | SegmentRows:
        """The shard at `at`, copied if it is shared with a snapshot."""
        shard = self._shards.get(at)
        if shard is None:
            shard = {}
        else:
            shard = dict(shard) if type(shard) is dict else shard.snapshot()  # type: ignore[union-attr] # As above.
        self._shards[at] = shard
        self._owned.add(at)
        return shard
