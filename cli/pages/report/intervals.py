"""Ranges of offsets, both ends inclusive: unions, gaps, overlaps, and who owns which part."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tierledger.pages.drawing import Range


class Claim(NamedTuple):
    """A range that `owner` claims; where claims meet, the higher `rank` has it."""

    start: int
    end: int
    rank: tuple[int, int]
    owner: int


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


def owned(claims: Iterable[Claim]) -> Iterator[Claim]:
    """For each stretch of claimed offsets, ascending, the claim that has it."""
    ahead = sorted(claims, key=lambda claim: claim.start, reverse=True)
    standing: list[tuple[tuple[int, int], int, Claim]] = []
    at = 0
    while ahead or standing:
        if not standing:
            at = max(at, ahead[-1].start)
        while ahead and ahead[-1].start <= at:
            claim = ahead.pop()
            order = (-claim.rank[0], -claim.rank[1])
            heapq.heappush(standing, (order, claim.owner, claim))
        while standing and standing[0][2].end < at:
            heapq.heappop(standing)
        if not standing:
            continue
        claim = standing[0][2]
        until = min(claim.end, ahead[-1].start - 1) if ahead else claim.end
        yield claim._replace(start=at, end=until)
        at = until + 1
