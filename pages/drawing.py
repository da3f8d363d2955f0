"""Drawings as data: templates/drawing.html makes SVG of them.

Widths are percentages, heights are pixels: a drawing fits any screen, and text stays readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Range = tuple[int, int]
"""First and last, both inclusive."""


class Box(NamedTuple):
    """A rectangle."""

    look: str
    """Its class in the style sheet."""
    x: str
    width: str
    y: int
    height: int
    tip: str = ""
    """What is told when somebody points at it."""
    detail: int | None = None
    """In place of `tip`: the number of what the page's data tell of it."""


class Words(NamedTuple):
    """Text in a drawing; its line stands at `y`."""

    look: str
    x: str
    y: int
    text: str


class Drawing(NamedTuple):
    """What stands in one line of a plot.

    Attributes:
        label: What it shows, for those who do not see it; makes it a stop for the keyboard.
        disputes: Where the mark of a dispute stands.
        has_grid: Whether lines go through it where the scale has its ticks.
    """

    height: int
    label: str
    boxes: Sequence[Box]
    words: Sequence[Words] = ()
    disputes: Sequence[str] = ()
    look: str = ""
    has_grid: bool = False


class Row(NamedTuple):
    """A line of a plot: what it is, on the left, and its drawing."""

    title: str
    note: str
    drawing: Drawing
    look: str = ""


def placed(start: int, end: int, axis: Range) -> tuple[str, str]:
    """Left edge and width of a box from `start` to `end` of `axis`, both inclusive."""
    span = axis[1] - axis[0] + 1
    width = max((end - start + 1) / span * 100, 0.05)
    x = max(min((start - axis[0]) / span * 100, 100 - width), 0)
    return percent(x), percent(width)


def percent(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"
