"""A replica's rows, indexed by their placements, and queries on them; no lifecycle rules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from typing import NamedTuple

from tierledger.actors.feed.checksum import share_of_epoch, share_of_strays
from tierledger.actors.feed.frames import Contents, EpochNumbers, Strays
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.answers import OFFSET_MAX
from tierledger.events.partition.state import hash_of
from tierledger.events.tables.segment_rows import (
    END,
    EPOCHS,
    FINISHED_AT,
    LOST,
    REFERENCED,
    START,
    STATE,
    TXN_EMPTY,
    UNREFERENCED,
    end_in_epoch,
    id_of_row,
    unpack_row,
)

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


class _Placed(NamedTuple):
    """A segment in one epoch."""

    segment_id: bytes
    placement: int
    start: int
    begins: int
    """First offset of the epoch in the segment, and (`ends`) the last."""
    ends: int
    finished_at: int | None


class _Epoch(NamedTuple):
    """An epoch's segments, sorted."""

    begins: list[int]
    referenced: list[_Placed]
    """Sorted by `begins`; the list of that name has their values in the same order."""
    finished: list[_Placed]
    """The segment that finished last comes first."""
    listed: list[_Placed]


class ReplicaRows:
    """Rows with their placements in all epochs."""

    def __init__(self) -> None:
        self.shares = 0
        """The sum of all elements' shares of the checksum."""
        self._rows: dict[bytes, bytes] = {}
        self._strays: dict[bytes, Strays] = {}
        self._numbers: dict[int, EpochNumbers] = {}
        self._placed: dict[int, dict[bytes, _Placed]] = {}
        self._sorted: dict[int, _Epoch] = {}

    # Placing.

    def put(self, contents: Contents, but: Container[bytes | int] = ()) -> None:
        """Replace rows and numbers by those in `contents`, except ids and epochs in `but`."""
        strays = {one.segment_id: one for one in contents.strays}
        for segment_id in contents.gone:
            self._remove(segment_id)
        for row in contents.rows:
            segment_id = id_of_row(row)
            if segment_id not in but:
                self._remove(segment_id)
                self._add(segment_id, row, strays.get(segment_id))
        for numbers in contents.epochs:
            if numbers.epoch not in but:
                before = self._numbers.get(numbers.epoch)
                self.shares += share_of_epoch(numbers)
                self.shares -= share_of_epoch(before) if before is not None else 0
                self._numbers[numbers.epoch] = numbers

    def _add(self, segment_id: bytes, row: bytes, strays: Strays | None) -> None:
        fields = unpack_row(row)
        epochs, finished_at = fields[EPOCHS], None
        if fields[STATE] == _FINISHED:
            finished_at = fields[FINISHED_AT]
        for epoch, begins, placement in zip(
            epochs[::3], epochs[1::3], epochs[2::3], strict=True
        ):
            ends = end_in_epoch(fields, epoch)
            placed = _Placed(segment_id, placement, fields[START], begins, ends, finished_at)
            self._placed.setdefault(epoch, {})[segment_id] = placed
            self._sorted.pop(epoch, None)
        self._rows[segment_id] = row
        self.shares += hash_of(row)
        if strays is not None:
            stray = _Placed(segment_id, UNREFERENCED, fields[START], 0, -1, None)
            for epoch in strays.epochs:
                self._placed.setdefault(epoch, {})[segment_id] = stray
                self._sorted.pop(epoch, None)
            self._strays[segment_id] = strays
            self.shares += share_of_strays(strays)

    def _remove(self, segment_id: bytes) -> None:
        row = self._rows.pop(segment_id, None)
        if row is None:
            return
        strays = self._strays.pop(segment_id, None)
        self.shares -= hash_of(row) + (share_of_strays(strays) if strays is not None else 0)
        for epoch in (*unpack_row(row)[EPOCHS][::3], *(strays.epochs if strays else ())):
            self._placed[epoch].pop(segment_id, None)
            self._sorted.pop(epoch, None)

    def _epoch(self, epoch: int) -> _Epoch:
        found = self._sorted.get(epoch)
        if found is None:
            placed = sorted(self._placed.get(epoch, {}).values())  # By id.
            of = [[one for one in placed if one.placement == rank] for rank in range(LOST + 1)]
            of[REFERENCED].sort(key=lambda one: one.begins)
            finished = [one for one in placed if one.finished_at is not None]
            found = self._sorted[epoch] = _Epoch(
                [one.begins for one in of[REFERENCED]],
                of[REFERENCED],
                sorted(finished, key=lambda one: -(one.finished_at or 0)),
                _listed(*of),
            )
        return found

    # Answers.

    def lookup(self, epoch: int, offset: int) -> bytes | None:
        """The row of the segment that serves `offset`."""
        of = self._epoch(epoch)
        at = bisect_right(of.begins, offset) - 1
        if at >= 0 and offset <= of.referenced[at].ends:
            return self._rows[of.referenced[at].segment_id]
        for one in of.finished:
            if one.begins <= offset <= one.ends:
                return self._rows[one.segment_id]
        return None

    def next_with_txn_index(self, epoch: int, offset: int) -> bytes | None:
        """The row of the first segment from `offset` on that may have a transaction index."""
        while offset <= OFFSET_MAX and (row := self.lookup(epoch, offset)) is not None:
            fields = unpack_row(row)
            if not fields[TXN_EMPTY]:
                return row
            if fields[END] < offset:
                return None
            offset = fields[END] + 1
        return None

    def list_all(self) -> list[bytes]:
        """All rows, in no order."""
        return list(self._rows.values())

    def list_epoch(self, epoch: int) -> list[bytes]:
        """The epoch's rows in Kafka's order; rows that Kafka lost come last at their offset."""
        return [self._rows[one.segment_id] for one in self._epoch(epoch).listed]

    def highest(self, epoch: int) -> int | None:
        """The highest offset that ever finished in the epoch."""
        return self._numbers[epoch].highest if epoch in self._numbers else None

    def size(self, epoch: int) -> int:
        """Bytes over `list_epoch`."""
        return self._numbers[epoch].size if epoch in self._numbers else 0


def _listed(
    referenced: list[_Placed], unreferenced: list[_Placed], lost: list[_Placed]
) -> list[_Placed]:
    """The rows in Kafka's order: sorted (stably) by start offset if any is unreferenced."""
    kafka = referenced
    if unreferenced:
        kafka = sorted(referenced + unreferenced, key=lambda one: one.start)
    late = sorted(lost, key=lambda one: one.start)[::-1]
    listed: list[_Placed] = []
    for one in kafka:
        while late and late[-1].start < one.start:
            listed.append(late.pop())
        listed.append(one)
    return listed + late[::-1]
