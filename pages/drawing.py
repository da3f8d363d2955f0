"""Drawings as data, which templates/drawing.html turns into SVG.

Widths are percentages, heights are pixels: a drawing fits any screen, and text stays readable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

T = TypeVar("T")

Range = tuple[int, int]
"""The first and the last value, both inclusive."""


THIN_PERCENT = 1.2
"""Boxes that are narrower get a least width: 4 pixels of 330, which a phone has."""

DENSE_MIN = 200
"""Boxes of a drawing from which on thin ones get less, so as not to hide each other."""


class Box(NamedTuple):
    """A rectangle."""

    look: str
    """Its class in the style sheet."""
    x: str
    width: str
    y: int
    height: int
    tip: str = ""
    """The text of its tooltip."""
    detail: int | None = None
    """In place of `tip`: the number of its entry in the page's data."""

    @property
    def is_thin(self) -> bool:
        """Whether it could vanish in a narrow window, so that it needs a least width."""
        return self.width.endswith("%") and float(self.width[:-1]) < THIN_PERCENT


class Text(NamedTuple):
    """Text in a drawing; its line stands at `y`."""

    look: str
    x: str
    y: int
    text: str


class Drawing(NamedTuple):
    """The content of one line of a plot.

    Attributes:
        label: Describes it to screen readers; with it, the keyboard can reach the drawing.
        disputes: Where marks of disputes are drawn.
        has_grid: Whether lines go through it at the ticks of the scale.
    """

    height: int
    label: str
    boxes: Sequence[Box]
    texts: Sequence[Text] = ()
    disputes: Sequence[str] = ()
    look: str = ""
    has_grid: bool = False

    @property
    def least(self) -> str:
        """The least width of boxes."""
        return "4px" if len(self.boxes) < DENSE_MIN else "1.5px"


class PlotRow(NamedTuple):
    """A line of a plot: its name on the left, and its drawing."""

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


def by_column(
    items: Iterable[T], start_of: Callable[[T], int], first: int, width: int
) -> Iterator[list[T]]:
    """`items`, ascending, by the column in which they begin: each has `width` values."""
    for _, some in groupby(items, lambda one: (start_of(one) - first) // width):
        yield list(some)


def percent(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"
