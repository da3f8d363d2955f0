"""The log that a leader has today, as its tier tells it: which leader epoch each offset is of.

What lies before a hole is not orphaned by it.
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


class Piece(NamedTuple):
    """What a finished segment holds of one leader epoch, both ends inclusive."""

    start: int
    end: int
    segment_id: bytes
    size: int
    """Bytes of the whole segment."""
    offsets: int
    """Offsets of the whole segment."""
    is_lost: bool
    """Kafka's own manager lists the whole segment nowhere, so a broker never deletes it."""

    def cut(self, first: int, last: int) -> Piece:
        """The part within `first` and `last`; its end is before its start if there is none."""
        if first <= self.start and self.end <= last:
            return self
        return self._replace(start=max(self.start, first), end=min(self.end, last))


class Held:
    """The finished segments of a partition, piece by piece under their leader epochs."""

    def __init__(self, rows: Iterable[bytes]) -> None:
        self.pieces: dict[int, list[Piece]] = {}
        """By leader epoch, ascending."""
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
            piece = Piece(start, last, fields[ID], max(0, fields[SIZE]), offsets, is_lost)
            self.pieces.setdefault(epoch, []).append(piece)

    def history(self) -> dict[int, int]:
        """Each leader epoch of the log with its first known offset, ascending; may be empty."""
        return self._history.followed_back(self._holds)

    def _holds(self, epoch: int, offset: int) -> bool:
        starts, reach = self._reach[epoch]
        at = bisect_right(starts, offset)
        return at > 0 and reach[at - 1] >= offset


def ends_of(history: dict[int, int]) -> dict[int, int]:
    """Each leader epoch's last offset: before the next begins; the newest has no end."""
    last = [*[start - 1 for start in history.values()][1:], OFFSET_MAX]
    return dict(zip(history, last, strict=False))


def _reach(pieces: Iterable[Piece]) -> Iterator[int]:
    """How far each piece or one before it reaches."""
    furthest: int | None = None
    for piece in pieces:
        furthest = piece.end if furthest is None else max(furthest, piece.end)
        yield furthest
