"""The history of a partition's log, derived from its segments without a broker.

A leader knows its leader epochs; a table has only the epochs in the segments' metadata. The
newest finished segment belongs to the newest leader's log, and each leader epoch was written by
a single leader. So the chain is followed back from there: through the epochs of any segment
that holds the oldest epoch known so far, and where that epoch begins with a segment, through
the segment before. Over a hole it goes on with the nearest segment before the hole, because a
leader knows its epochs whatever the tier has lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.lineage import Lineage, without_empty_epochs
from tierledger.events.partition.answers import Snapshot, lookup
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import END, EPOCHS, STATE, Row, unpack_row

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


class TierLineage(NamedTuple):
    """The newest history that a tier holds, and where it ends (exclusive)."""

    leader_epochs: dict[int, int]
    """Each leader epoch's first offset, ascending; for the oldest, the first known offset."""
    log_end_offset: int

    def made(self) -> Lineage:
        """The lineage, which tells whether a segment belongs to it."""
        return Lineage(self.leader_epochs)


class History:
    """The leader epochs of finished segments; `followed_back` derives the log's history."""

    def __init__(self) -> None:
        self.newest: tuple[int, int, dict[int, int]] | None = None
        """The newest segment's highest epoch, last offset, and epochs."""
        self._oldest: dict[int, dict[int, int]] = {}
        """By epoch: the epochs of the segment that holds its lowest offset."""

    def take(self, epochs: dict[int, int], end: int) -> None:
        """Add a finished segment with records of `epochs`, ascending, up to `end`."""
        last = next(reversed(epochs))
        if self.newest is None or (last, end) > self.newest[:2]:
            self.newest = (last, end, epochs)
        for epoch, start in epochs.items():
            known = self._oldest.get(epoch)
            if known is None or (start, -len(epochs)) < (known[epoch], -len(known)):
                self._oldest[epoch] = epochs

    def followed_back(self, holds: Callable[[int, int], bool]) -> dict[int, int]:
        """Each leader epoch of the log with its first known offset, ascending; may be empty.

        It begins with the newest segment: the one with the highest offset of the highest epoch.
        From the oldest epoch so far it goes on to the epochs of a segment that holds this epoch
        from a lower offset; else to the highest older epoch that `holds` the offset before;
        else, over a hole, to the highest older epoch that holds any offset before.
        """
        if self.newest is None:
            return {}
        chain = dict(self.newest[2])
        while True:
            first = min(chain)
            for epoch, start in self._oldest[first].items():
                if epoch < first or (epoch == first and start < chain[epoch]):
                    chain[epoch] = start
            before = min(chain)
            if before < first:
                continue
            found = self._epoch_before(before, chain[before], holds)
            if found is None:
                return _ascending(chain)
            chain[found] = self._oldest[found][found]

    def _epoch_before(
        self, epoch: int, start: int, holds: Callable[[int, int], bool]
    ) -> int | None:
        over_hole: int | None = None
        for older in sorted((one for one in self._oldest if one < epoch), reverse=True):
            if holds(older, start - 1):
                return older
            if over_hole is None and self._oldest[older][older] < start:
                over_hole = older
        return over_hole


def lineage_of(view: PartitionState | Snapshot) -> TierLineage | None:
    """The history of the newest finished segment; none if no segment is finished."""
    history = History()
    for fields in map(unpack_row, view.rows):
        if fields[STATE] == _FINISHED:
            epochs = held_epochs(fields)
            if epochs:
                history.take(epochs, fields[END])
    if history.newest is None:
        return None

    def holds(epoch: int, offset: int) -> bool:
        row = lookup(view, epoch, offset)
        return row is not None and bool(unpack_row(row)[STATE] == _FINISHED)

    return TierLineage(history.followed_back(holds), history.newest[1] + 1)


def _ascending(chain: dict[int, int]) -> dict[int, int]:
    """`chain` without epochs that begin at or behind a newer epoch's start: they are empty."""
    kept: list[tuple[int, int]] = []
    for epoch, start in sorted(chain.items(), reverse=True):
        if not kept or start < kept[-1][1]:
            kept.append((epoch, start))
    return dict(reversed(kept))


def epochs_of(fields: Row) -> dict[int, int]:
    """The leader epochs that have records in a segment, each with its first offset in it."""
    flat = fields[EPOCHS]
    if len(flat) == 3:
        return {flat[0]: flat[1]}
    return without_empty_epochs(dict(zip(flat[::3], flat[1::3], strict=True)))


def held_epochs(fields: Row) -> dict[int, int]:
    """The epochs of `epochs_of` that hold at least one offset, ascending."""
    kept: list[tuple[int, int]] = []
    end = fields[END]
    for epoch, start in reversed(epochs_of(fields).items()):
        if start <= end:
            kept.append((epoch, start))
            end = start - 1
    return dict(reversed(kept))
