"""The segments of one partition, each kept as the bytes of its row.

A row is the msgpack array `[id, state, start, end, epochs, size, max_timestamp_ms, broker_id,
event_timestamp_ms, custom_metadata, txn_index_empty, finished_at]`. `epochs` is flat: epoch,
offset, placement, for each leader epoch ascending. Bytes are what storage holds, what the
digest covers, and what the garbage collector never visits: 1,000,000 rows cost 190 bytes each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ID, STATE, START, END, EPOCHS, SIZE, MAX_TIMESTAMP, BROKER, EVENT_TIMESTAMP = range(9)
CUSTOM, TXN_EMPTY, FINISHED_AT = 9, 10, 11

NOT_FINISHED = -1
"""`finished_at` of a segment that never reached COPY_SEGMENT_FINISHED."""

REFERENCED, UNREFERENCED, LOST = 0, 1, 2
"""Where an epoch's tables hold a segment: served by Kafka, listed by Kafka, or in neither."""

SHARDS = 256
"""Dictionaries a partition is spread over, by the first byte of the (random) segment id: one
dictionary of a million entries stalls for 40 ms when it grows, a shard for 0.2 ms."""

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

    __slots__ = ("_owned", "_shards")

    def __init__(self) -> None:
        self._shards: list[dict[bytes, bytes]] = [{} for _ in range(SHARDS)]
        self._owned = [True] * SHARDS

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def get(self, segment_id: bytes) -> bytes | None:
        return self._shards[segment_id[0]].get(segment_id)

    def put(self, segment_id: bytes, row: bytes) -> None:
        at = segment_id[0]
        if not self._owned[at]:
            self._own(at)
        self._shards[at][segment_id] = row

    def drop(self, segment_id: bytes) -> None:
        at = segment_id[0]
        if not self._owned[at]:
            self._own(at)
        self._shards[at].pop(segment_id, None)

    def snapshot(self) -> SegmentRows:
        """These rows as they stand; either side copies a shard before it changes it."""
        copy = SegmentRows.__new__(SegmentRows)
        copy._shards = list(self._shards)
        copy._owned = [False] * SHARDS
        self._owned = [False] * SHARDS
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
        """Let go of all rows, with a break after every 1,000 or so of a million."""
        while self._shards:
            self._shards.pop()
            yield

    def __iter__(self) -> Iterator[bytes]:
        """All rows, in no order that means anything. Iterate a snapshot if changes may come."""
        for shard in self._shards:
            yield from shard.values()

    def _own(self, at: int) -> None:
        self._shards[at] = dict(self._shards[at])
        self._owned[at] = True
