"""What was tiered and deleted over time, drawn: all topics together, and the busiest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.cli.commands.console.growth import TierChange
from tierledger.cli.pages.report.lanes import time_texts
from tierledger.cli.pages.time_columns import TimeColumn, columns_row
from tierledger.events.typed_fields import time_text
from tierledger.pages.texts import many, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tierledger.pages.drawing import PlotRow

SPANS: Final = {"all": "all time", "month": "30 days", "day": "24 hours"}
"""The lengths of time that can be drawn, the one that is drawn by itself first."""

TOPICS: Final = 10
"""Topics that are drawn, beside all together."""


class OverTime(NamedTuple):
    """A time with a row of columns for each topic."""

    rows: list[PlotRow]
    times: list[str]
    topics: int
    """How many topics have moved anything in it."""


def over_time(columns: Sequence[tuple[int, Mapping[str, TierChange]]], end_ms: int) -> OverTime:
    """The drawing of stretches of time, each with its begin and its sums by topic."""
    sums: dict[str, TierChange] = {}
    for _, by_topic in columns:
        for topic, moved in by_topic.items():
            sums[topic] = sums.get(topic, TierChange()).plus(moved)
    if not sums:
        return OverTime([], [], 0)
    most = sorted(sums, key=lambda one: (-_bytes(sums[one]), one))[:TOPICS]
    ends = [*(begin for begin, _ in columns[1:]), end_ms]
    rows = [
        _row("all topics", [_sum(by_topic.values()) for _, by_topic in columns], columns, ends)
    ]
    rows += (
        _row(one, [by_topic.get(one, TierChange()) for _, by_topic in columns], columns, ends)
        for one in most
        if len(sums) > 1
    )
    return OverTime(rows, time_texts((columns[0][0], end_ms)), len(sums))


def _bytes(moved: TierChange) -> int:
    return moved.tiered_bytes + moved.deleted_bytes


def _sum(some: Iterable[TierChange]) -> TierChange:
    total = TierChange()
    for moved in some:
        total = total.plus(moved)
    return total


def _text(moved: TierChange) -> str:
    """What was tiered and deleted, in words."""
    texts = [
        f"{word} {size_text(size)} in {many(count, 'segment')}"
        for word, count, size in (
            ("tiered", moved.tiered, moved.tiered_bytes),
            ("deleted", moved.deleted, moved.deleted_bytes),
        )
        if count
    ]
    return ", ".join(texts) or "nothing"


def _row(
    name: str,
    moved: Sequence[TierChange],
    columns: Sequence[tuple[int, Mapping[str, TierChange]]],
    ends: Sequence[int],
) -> PlotRow:
    drawn = [
        TimeColumn(
            one.tiered_bytes,
            one.deleted_bytes,
            f"{time_text(begin, 'minutes')} to {time_text(end, 'minutes')}: {_text(one)}",
        )
        for (begin, _), end, one in zip(columns, ends, moved, strict=True)
    ]
    return columns_row(name, _text(_sum(moved)), drawn)
