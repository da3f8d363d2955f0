"""The segments of one partition, each kept as the bytes of its row.

A row is the msgpack array `[id, state, start, end, epochs, size, max_timestamp_ms, broker_id,
event_timestamp_ms, custom_metadata, txn_index_empty, finished_at]`. `epochs` is flat: epoch,
offset, placement, for each leader epoch ascending. Bytes are what storage holds, what the
digest covers, and what the garbage collector never visits: 1,000,000 rows cost 190 bytes each.
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
"""Where an epoch's tables hold a segment: served by Kafka, listed by Kafka, or in neither."""

SHARD_ROWS = 512
"""Rows of a dictionary before it is spread over many, by the next byte of the (random) segment
ids: one of a million rows stalls for 40 ms when it grows, and one of 2,400 takes 0.1 ms to
copy, which after a snapshot the next few hundred changes do with one each."""

ID_BYTES = 16

Row = list[Any]

_packer = msgpack.Packer(autoreset=True)
pack_row: Callable[[Row], bytes] = _packer.pack


unpack_row: Callable[[bytes], Row] = msgpack.unpackb
"""The fields of a row, as a list of one's own."""


def id_of_row(row: bytes) -> bytes:
    """The segment id in `row`: behind the array's header and the id's own (3 bytes)."""
    return row[3:19]


def end_in_epoch(fields: Row, epoch: int) -> int:
    """The last offset of `epoch` in the segment: before the next higher epoch, or its end."""
    epochs = fields[EPOCHS]
    if len(epochs) > 3:
        at = epochs[::3].index(epoch) * 3 + 3
        if at < len(epochs):
            return int(epochs[at + 1]) - 1
    return int(fields[END])


class SegmentRows:
    """A map from segment id to row that can be snapshotted without a pause."""

    __slots__ = ("_count", "_depth", "_owned", "_shards")

    def __init__(self, depth: int = 0) -> None:
        """Of ids that agree in their first `depth` bytes."""
        self._depth = depth
        self._count = 0
        self._shards: dict[int, dict[bytes, bytes] | SegmentRows] = {}
        """By the byte that follows."""
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
        """These rows as they stand; either side copies a shard before it changes it."""
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
        """Let go of all rows, with a break after every few thousand."""
        while self._shards:
            self._pop()
            yield

    def drain(self) -> Iterator[bytes]:
        """All rows, let go of on the way: freed at once, they would take a while."""
        while self._shards:
            shard = self._pop()
            yield from shard.values() if type(shard) is dict else shard

    def _pop(self) -> dict[bytes, bytes] | SegmentRows:
        _, shard = self._shards.popitem()
        self._count -= len(shard)
        return shard

    def __iter__(self) -> Iterator[bytes]:
        """All rows, in no order that means anything. Iterate a snapshot if changes may come."""
        for shard in self._shards.values():
            yield from shard.values() if type(shard) is dict else shard

    def _own(self, at: int) -> dict[bytes, bytes] | SegmentRows:
        """A shard that is shared with nobody, from now on."""
        shard = self._shards.get(at)
        if shard is None:
            shard = {}
        else:
            shard = dict(shard) if type(shard) is dict else shard.snapshot()  # type: ignore[union-attr] # As above.
        self._shards[at] = shard
        self._owned.add(at)
        return shard
