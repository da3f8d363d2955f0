"""Figures: what a scenario's samples come to, with their goals, and how both are shown."""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def at_most(bound: float) -> Goal:
    return Goal(bound)


def at_least(bound: float) -> Goal:
    return Goal(bound, at_least=True)


class Row(NamedTuple):
    """A figure as it is declared; its texts may name sizes and samples in braces."""

    title: str
    unit: str
    value: str
    """A sample, whose median is shown; or two as `one / other`; or `*`: each sample a row."""
    goal: Goal | None = None
    detail: str = ""
    """What the value is made of, such as a ratio's two sides."""


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    unit: str
    goal: Goal | None = None
    detail: str = ""

    @property
    def verdict(self) -> str:
        """Whether the goal, if there is one, is reached."""
        if self.goal is None:
            return ""
        return "reached" if self.goal.is_reached_by(self.value) else "missed"


class Median(float):
    """A median of samples: shown in a row's text with three digits, if it does not say how."""

    @override
    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else number(self)


def figures(
    rows: Iterable[Row], samples: Mapping[str, Sequence[float]], facts: Mapping[str, object]
) -> Iterator[Figure]:
    """The figures of `rows`; those of samples that this machine or store has not are left out.

    `facts`: what a row's texts may name besides the samples.
    """
    medians = {name: Median(statistics.median(taken)) for name, taken in samples.items()}
    for row in rows:
        for value in medians if row.value == "*" else [row.value]:
            sides = value.split(" / ")
            if not medians.keys() >= {*sides}:
                continue
            known = {**facts, **medians, "sample": value}
            whole, *parts = (float(medians[side]) for side in sides)
            yield Figure(
                row.title.format_map(known),
                whole / parts[0] if parts else whole,
                row.unit,
                row.goal,
                row.detail.format_map(known),
            )


def number(value: float) -> str:
    """`value` with three significant digits."""
    return f"{float(value):,.0f}" if abs(value) >= 100 else f"{float(value):.3g}"


def table(shown: Iterable[Figure]) -> Table:
    lines = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("what", "median", "goal", "", "of which"):
        lines.add_column(title, justify="right" if title == "median" else "left")
    for one in shown:
        goal, result = "", one.verdict
        if one.goal is not None:
            sign = ">=" if one.goal.at_least else "<="
            goal = f"{sign} {number(one.goal.bound)} {one.unit}"
        colour = "red" if result == "missed" else "green"
        value = f"{number(one.value)} {one.unit}"
        lines.add_row(one.name, value, goal, f"[{colour}]{result}[/{colour}]", one.detail)
    return lines


def json_line(figure: Figure) -> str:
    """The figure as one line of JSON; `goal` is its bound, or null."""
    bound = None if figure.goal is None else figure.goal.bound
    fields = {"name": figure.name, "value": figure.value, "unit": figure.unit, "goal": bound}
    return json.dumps(fields)
