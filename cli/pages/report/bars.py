"""Parts of a lane as bars in rows: overlaps are stacked, crowded bars are joined."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from tierledger.cli.pages.report.model import SegmentKind
from tierledger.pages.drawing import by_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tierledger.cli.pages.report.model import Lane, Part
    from tierledger.pages.drawing import Range

LANE_BARS_MAX = 2000
"""Bars of one lane that are drawn singly: two or three per pixel of a wide screen."""
PAGE_BARS_MAX = 30_000
"""Bars of the whole page; at about 150 bytes each, with their segments, below 5 MB."""
LANE_BARS_MIN = 64
"""The least number of bars per lane, even on a crowded page."""
ROWS_MAX = 16
"""Rows for stacked parts; parts that need more are drawn over the last row."""
DELETED_ROWS_MAX = 5


class Bar(NamedTuple):
    """One rectangle: a part (`segment` >= 0), or `parts` of them of one kind drawn as one."""

    start: int
    end: int
    kind: SegmentKind
    segment: int
    parts: int


class LaneBars(NamedTuple):
    """A lane's bars: present ones, and below them deleted ones."""

    live: Sequence[Sequence[Bar]]
    deleted: Sequence[Sequence[Bar]]

    @property
    def bars(self) -> int:
        return sum(len(row) for rows in self for row in rows)

    @property
    def is_dense(self) -> bool:
        """Whether lines between bars would hide the bars."""
        return max(map(len, (*self.live, *self.deleted)), default=0) > 250


def lane_limit(lanes: Iterable[Lane]) -> int:
    """How many bars each lane of a page may have."""
    sizes = [len(lane.parts) for lane in lanes]
    if sum(min(size, LANE_BARS_MAX) for size in sizes) <= PAGE_BARS_MAX:
        return LANE_BARS_MAX
    return max(LANE_BARS_MIN, min(LANE_BARS_MAX, PAGE_BARS_MAX // len(sizes)))


def rows_of(lane: Lane, limit: int) -> LaneBars:
    """The bars of `lane`, about `limit` at most.

    Only rows with too many bars are joined, kind by kind, so that rare kinds stay visible.
    """
    live = _stacked(
        (one for one in lane.parts if one.kind is not SegmentKind.DELETED), ROWS_MAX
    )
    gone = (one for one in lane.parts if one.kind is SegmentKind.DELETED)
    deleted = _stacked(gone, DELETED_ROWS_MAX)
    if len(lane.parts) <= limit:
        return LaneBars(live, deleted)
    budget = limit // (len(live) + len(deleted))
    return LaneBars(
        [_fitted(row, budget) for row in live], [_fitted(row, budget) for row in deleted]
    )


def thinned(ranges: Sequence[Range], axis: Range, columns: int) -> list[tuple[Range, int]]:
    """`ranges`, ascending, joined per column; each with the number of ranges in it."""
    if len(ranges) <= columns:
        return [(one, 1) for one in ranges]
    width = (axis[1] - axis[0]) // columns + 1
    return [
        ((some[0][0], some[-1][1]), len(some))
        for some in by_column(ranges, itemgetter(0), axis[0], width)
    ]


def _stacked(parts: Iterable[Part], rows_max: int) -> list[list[Bar]]:
    """Each part in the first row where it overlaps nothing; `parts` ascend by start."""
    rows: list[list[Bar]] = []
    for part in parts:
        bar = Bar(part.start, part.end, part.kind, part.segment, 1)
        for row in rows:
            if row[-1].end < part.start:
                row.append(bar)
                break
        else:
            if len(rows) < rows_max:
                rows.append([bar])
            else:
                rows[-1].append(bar)
    return rows


def _fitted(row: Sequence[Bar], budget: int) -> Sequence[Bar]:
    """`row`, joined until it has about `budget` bars, the rare kinds on top."""
    columns = budget
    fitted = row
    while len(fitted) > budget and columns > 4:
        fitted = [
            bar
            for kind in _RARE_LAST
            for bar in _joined([bar for bar in row if bar.kind is kind], columns)
        ]
        columns //= 2
    return fitted


def _joined(bars: Sequence[Bar], columns: int) -> list[Bar]:
    """Bars that begin in one column of their common range, as one bar."""
    if not bars:
        return []
    width = (bars[-1].start - bars[0].start) // columns + 1
    return [
        some[0]
        if len(some) == 1
        else Bar(some[0].start, max(one.end for one in some), some[0].kind, -1, len(some))
        for some in by_column(bars, attrgetter("start"), bars[0].start, width)
    ]


_RARE_LAST = (
    SegmentKind.SERVED,
    SegmentKind.DELETED,
    SegmentKind.SUPERSEDED,
    SegmentKind.DELETING,
    SegmentKind.COPYING,
    SegmentKind.RECOVERED,
)
"""The order in which joined bars are drawn over each other."""
