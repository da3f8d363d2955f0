"""Figures: measured values with their goals, and how both are shown."""

import json
import statistics
from collections.abc import Iterable
from typing import NamedTuple

from rich import box
from rich.table import Table
from typing_extensions import override


class Goal(NamedTuple):
    """A bound that a figure should keep."""

    bound: float
    at_least: bool = False

    def is_reached_by(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    unit: str
    goal: Goal | None = None
    detail: str = ""
    """What the value is made of, such as a ratio's two sides."""


def median(
    name: str, values: Iterable[float], unit: str, goal: Goal | None = None, detail: str = ""
) -> Figure:
    """The figure of the median of several measurements."""
    return Figure(name, statistics.median(values), unit, goal, detail)


class Sided(NamedTuple):
    """One side of a ratio: its size and its cost."""

    size: int
    value: float
    unit: str

    @override
    def __str__(self) -> str:
        return f"{number(self.value)} {self.unit} at {self.size:,}"


def ratio(name: str, large: Sided, small: Sided, bound: float | None) -> Figure:
    """How many times as much the large side costs as the small one, with both sides."""
    return Figure(
        name=name,
        value=large.value / small.value,
        unit="x",
        goal=None if bound is None else Goal(bound),
        detail=f"{large}; {small}",
    )


def number(value: float) -> str:
    """`value` with three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def goal_text(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    sign = ">=" if figure.goal.at_least else "<="
    return f"{sign} {number(figure.goal.bound)} {figure.unit}"


def verdict(figure: Figure) -> str:
    """Whether the goal, if there is one, is reached."""
    if figure.goal is None:
        return ""
    return "reached" if figure.goal.is_reached_by(figure.value) else "missed"


def table(figures: Iterable[Figure]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("what", "median", "goal", "", "of which"):
        shown.add_column(title, justify="right" if title == "median" else "left")
    for figure in figures:
        result = verdict(figure)
        shown.add_row(
            figure.name,
            f"{number(figure.value)} {figure.unit}",
            goal_text(figure),
            f"[red]{result}[/red]" if result == "missed" else f"[green]{result}[/green]",
            figure.detail,
        )
    return shown


def json_line(figure: Figure) -> str:
    """The figure as one line of JSON; `goal` is its bound, or null."""
    bound = None if figure.goal is None else figure.goal.bound
    fields = {"name": figure.name, "value": figure.value, "unit": figure.unit, "goal": bound}
    return json.dumps(fields)
