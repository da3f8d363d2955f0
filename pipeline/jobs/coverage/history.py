"""The log of today's leader, derived from its tier: the leader epoch of each offset.

A hole does not make the segments before it orphans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.answers import OFFSET_MAX
from tierledger.events.tables.segment_rows import END, EPOCHS, ID, LOST, SIZE, STATE, unpack_row
from tierledger.pipeline.tables.lineage import History, held_epochs

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


class EpochPiece(NamedTuple):
    """The offsets of one leader epoch that a finished segment holds, both ends inclusive."""

    start: int
    end: int
    segment_id: bytes
    size: int
    """Bytes of the whole segment."""
    offsets: int
    """Offsets of the whole segment."""
    is_lost: bool
    """Whether Kafka's own manager lists the segment under no epoch, so it is never deleted."""

    def cut(self, first: int, last: int) -> EpochPiece:
        """The part within `first` and `last`; if it is empty, its end is before its start."""
        if first <= self.start and self.end <= last:
            return self
        return self._replace(start=max(self.start, first), end=min(self.end, last))


class Held:
    """The finished segments of a partition, as pieces by leader epoch."""

    def __init__(self, rows: Iterable[bytes]) -> None:
        self.pieces: dict[int, list[EpochPiece]] = {}
        """Pieces by leader epoch, ascending."""
        self._history = History()
        self._reach: dict[int, tuple[list[int], list[int]]] = {}
        for row in rows:
            self._take(row)
        for epoch, pieces in self.pieces.items():
            pieces.sort()
            self._reach[epoch] = ([one.start for one in pieces], list(_reach(pieces)))

    def _take(self, row: bytes) -> None:
        fields = unpack_row(row)
        if fields[STATE] != _FINISHED:
            return
        epochs, end = held_epochs(fields), fields[END]
        if not epochs:
            return
        self._history.take(epochs, end)
        starts = list(epochs.items())
        ends = [start - 1 for _, start in starts[1:]] + [end]
        offsets = max(1, end - starts[0][1] + 1)
        is_lost = all(placed == LOST for placed in fields[EPOCHS][2::3])
        for (epoch, start), last in zip(starts, ends, strict=True):
            piece = EpochPiece(start, last, fields[ID], max(0, fields[SIZE]), offsets, is_lost)
            self.pieces.setdefault(epoch, []).append(piece)

    def history(self) -> dict[int, int]:
        """Each leader epoch of the log with its first known offset, ascending; may be empty."""
        return self._history.followed_back(self._holds)

    def _holds(self, epoch: int, offset: int) -> bool:
        starts, reach = self._reach[epoch]
        at = bisect_right(starts, offset)
        return at > 0 and reach[at - 1] >= offset


def ends_of(history: dict[int, int]) -> dict[int, int]:
    """Each leader epoch's last offset; for the newest, `OFFSET_MAX`."""
    last = [*[start - 1 for start in history.values()][1:], OFFSET_MAX]
    return dict(zip(history, last, strict=False))


def _reach(pieces: Iterable[EpochPiece]) -> Iterator[int]:
    """For each piece, the highest end of it and of all pieces before it."""
    furthest: int | None = None
    for piece in pieces:
        furthest = piece.end if furthest is None else max(furthest, piece.end)
        yield furthest
