"""Amounts over time as rows of columns, on one axis of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.vocabulary import Look
from tierledger.pages.drawing import Box, Drawing, PlotRow, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

HEIGHT = 26
"""Of the highest column, in pixels."""


class TimeColumn(NamedTuple):
    """What a stretch of time has of two amounts: one is drawn upwards, the other downwards."""

    up: int
    down: int
    tip: str


def columns_row(
    name: str, note: str, columns: Sequence[TimeColumn], *, has_down: bool = True
) -> PlotRow:
    """Columns of equal width, the highest as high as there is room.

    Without `has_down` there is no room below the line.
    """
    highest = max((max(one.up, one.down) for one in columns), default=0) or 1
    width = 100 / max(len(columns), 1)
    boxes: list[Box] = []
    for at, one in enumerate(columns):
        x, across = percent(at * width), percent(width)
        if one.up:
            height = _height(one.up, highest)
            boxes.append(Box(Look.GOOD, x, across, HEIGHT - height, height, one.tip))
        if one.down:
            height = _height(one.down, highest)
            boxes.append(Box(Look.LEAVING, x, across, HEIGHT + 1, height, one.tip))
    height = 2 * HEIGHT + 2 if has_down else HEIGHT
    return PlotRow(name, note, Drawing(height, f"{name}: {note}", boxes, has_grid=True))


def _height(value: int, highest: int) -> int:
    """In pixels; what is not nothing is seen."""
    return max(round(HEIGHT * value / highest), 1)
