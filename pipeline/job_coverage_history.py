"""The log that a leader has today, as its tier tells it: which leader epoch each offset is of.

It is found as in `table_lineage`, from the pieces that are sorted here anyway. What lies before
a hole is not orphaned by it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.answers import OFFSET_MAX
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.segment_rows import END, EPOCHS, ID, LOST, SIZE, STATE, unpack_row
from tierledger.pipeline.table_lineage import ascending, epochs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        self._oldest: dict[int, dict[int, int]] = {}
        """Of each epoch, the epochs of the segment that holds it from furthest back."""
        self._newest: tuple[int, int, dict[int, int]] | None = None
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
        epochs, end = epochs_of(fields), fields[END]
        starts = sorted(epochs.items())
        ends = [start - 1 for _, start in starts[1:]] + [end]
        offsets = max(1, end - starts[0][1] + 1)
        is_lost = all(placed == LOST for placed in fields[EPOCHS][2::3])
        for (epoch, start), last in zip(starts, ends, strict=True):
            if last < start:
                continue
            piece = Piece(start, last, fields[ID], max(0, fields[SIZE]), offsets, is_lost)
            self.pieces.setdefault(epoch, []).append(piece)
            known = self._oldest.get(epoch)
            if known is None or (start, -len(epochs)) < (known[epoch], -len(known)):
                self._oldest[epoch] = epochs
            if self._newest is None or (epoch, end) > self._newest[:2]:
                self._newest = (epoch, end, epochs)

    def history(self) -> dict[int, int]:
        """Each leader epoch of the log with its first known offset, ascending; may be empty.

        It begins with the newest segment: that of the highest epoch, and there of the highest
        offset. From its oldest epoch it goes on to the epochs of whatever segment holds that
        from further back, else to the highest older epoch that holds the offset before, else,
        over a hole, to the highest older epoch that holds any offset before.
        """
        if self._newest is None:
            return {}
        chain = {epoch: at for epoch, at in self._newest[2].items() if epoch in self.pieces}
        while True:
            first = min(chain)
            for epoch, start in self._oldest[first].items():
                if epoch in self.pieces and (
                    epoch < first or (epoch == first and start < chain[epoch])
                ):
                    chain[epoch] = start
            before = min(chain)
            if before < first:
                continue
            found = self._epoch_before(before, chain[before])
            if found is None:
                return ascending(chain)
            chain[found] = self._oldest[found][found]

    def _epoch_before(self, epoch: int, start: int) -> int | None:
        over_hole: int | None = None
        for older in sorted((one for one in self.pieces if one < epoch), reverse=True):
            if self._holds(older, start - 1):
                return older
            if over_hole is None and self._oldest[older][older] < start:
                over_hole = older
        return over_hole

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
