"""Ranges of offsets, both ends inclusive: unions, and what two of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tierledger.pages.drawing import Range


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The union of `ranges`, ascending; neighbours without a gap are one."""
    union: list[Range] = []
    for start, end in sorted(ranges):
        if union and start <= union[-1][1] + 1:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def length(ranges: Iterable[Range]) -> int:
    """Offsets in disjoint `ranges`."""
    return sum(end - start + 1 for start, end in ranges)


def common(ours: Sequence[Range], theirs: Sequence[Range]) -> int:
    """How many offsets two `merged` unions share."""
    shared, at = 0, 0
    for start, end in ours:
        while at < len(theirs) and theirs[at][1] < start:
            at += 1
        ahead = at
        while ahead < len(theirs) and theirs[ahead][0] <= end:
            shared += min(end, theirs[ahead][1]) - max(start, theirs[ahead][0]) + 1
            ahead += 1
    return shared
