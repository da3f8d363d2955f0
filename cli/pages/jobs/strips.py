"""Marks and bars of the jobs' pages as rows of boxes."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.vocabulary import Look
from tierledger.pages.drawing import Box, Drawing, PlotRow, Text, by_column, percent, placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.pages.drawing import Range

MARKS_MAX = 600
"""Marks of one kind in a strip; more would be too small, and are joined with neighbours."""

BAND_HEIGHT, BAND_STEP = 14, 18


class StripMark(NamedTuple):
    """A stretch of a strip, both ends inclusive."""

    start: int
    end: int
    look: str
    tip: str
    band: int = 0
    """0 is the upper band; marks of a higher band are drawn below."""


class ValueBar(NamedTuple):
    """One line of `bars`."""

    name: str
    """Empty for a further bar of the one before: no line parts the two."""
    note: str
    value: int
    text: str
    """The value as text."""
    look: str = Look.GOOD
    tip: str = ""


class Share(NamedTuple):
    """A part of a bar of `shares`."""

    value: int
    times: int
    """What its width goes by if all values are 0."""
    look: str
    tip: str


def shares(
    name: str, note: str, some: Sequence[Share], height: int, longest: int = 0
) -> PlotRow:
    """A bar of parts behind each other; `longest` is the sum that takes the whole width."""
    if not any(one.value for one in some):
        some = [one._replace(value=one.times) for one in some]
    whole = max(longest, sum(one.value for one in some)) or 1
    boxes, at = [], 0
    for one in some:
        if one.times:
            x, width = percent(at / whole * 100), percent(max(one.value / whole * 100, 0.05))
            boxes.append(Box(one.look, x, width, 1, height, one.tip))
        at += one.value
    return PlotRow(name, note, Drawing(height + 2, f"{name}: {note}", boxes))


def strip(name: str, note: str, marks: Sequence[StripMark], axis: Range) -> PlotRow:
    """A drawing of `marks` along `axis`, higher bands below; each mark has its tooltip.

    Marks come in any order; too many of one look and band are joined with neighbours.
    """
    groups: dict[tuple[int, str], list[StripMark]] = {}
    for mark in marks:
        groups.setdefault((mark.band, mark.look), []).append(mark)
    boxes: list[Box] = []
    for (band, look), some in sorted(groups.items(), key=_gravity):
        thinned = _thinned(sorted(some), axis)
        dense = " dense" if len(thinned) > MARKS_MAX // 2 else ""
        y = 1 + band * BAND_STEP
        boxes += (
            Box(look + dense, *placed(one.start, one.end, axis), y, BAND_HEIGHT, one.tip)
            for one in thinned
        )
    height = (max((band for band, _ in groups), default=0) + 1) * BAND_STEP
    return PlotRow(name, note, Drawing(height, f"{name}: {note}", boxes))


def _gravity(group: tuple[tuple[int, str], list[StripMark]]) -> tuple[int, int]:
    """Where marks come in the order of drawing: the gravest last, so nothing hides them."""
    band, look = group[0]
    return band, _ORDER.index(look)


_ORDER = (Look.IDLE, Look.GOOD, Look.KEPT, Look.LEAVING, Look.OPEN, Look.WARN, Look.BAD)


def _thinned(marks: Sequence[StripMark], axis: Range) -> list[StripMark]:
    """`marks`, ascending; those that begin in one column are joined if there are too many."""
    if len(marks) <= MARKS_MAX:
        return list(marks)
    width = (axis[1] - axis[0]) // MARKS_MAX + 1
    joined: list[StripMark] = []
    for some in by_column(marks, attrgetter("start"), axis[0], width):
        first, end = some[0], max(one.end for one in some)
        more = f"{len(some)} from {first.start} to {end}; the first: {first.tip}"
        joined.append(first if len(some) == 1 else first._replace(end=end, tip=more))
    return joined


def bars(items: Sequence[ValueBar]) -> list[PlotRow]:
    """Horizontal bars on one scale from 0, each followed by its value."""
    longest = max((item.value for item in items), default=0) or 1
    rows = []
    for item in items:
        # The longest bar, too, leaves room for the value behind it.
        width = f"{max(item.value / longest * 80, 0.2 if item.value else 0):.2f}%"
        box = Box(item.look, "0", width, 2, 14, item.tip or item.text)
        label = item.tip or f"{item.name} {item.note}: {item.text}"
        boxes = [box] if item.value else []
        drawing = Drawing(18, label, boxes, [Text("", width, 13, item.text)])
        rows.append(PlotRow(item.name, item.note, drawing, "" if item.name else "more"))
    return rows
