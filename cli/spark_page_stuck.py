"""The page of `spark stuck`: how long each copy and deletion has lasted, the oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.cli.output import time_text
from tierledger.cli.report_text import count_text, size_text, span_text
from tierledger.cli.spark_page import (
    BAD,
    IDLE,
    OPEN,
    WARN,
    Bar,
    Section,
    bars,
    damage_section,
    legend,
    note,
    page,
    table,
    tiles,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pipeline.fold_task import DamagedLog

# Rows of Spark are plain dictionaries of whatever the columns hold.
Row = dict[str, Any]

LOOKS = {
    "COPY_SEGMENT_STARTED": OPEN,
    "DELETE_SEGMENT_STARTED": WARN,
    "DELETE_PARTITION_MARKED": IDLE,
    "DELETE_PARTITION_STARTED": BAD,
}

BARS_MAX = 100

ABOUT = "A bar is the time since the state began, by the log. The oldest are shown."


def stuck_page(
    facts: Mapping[str, object],
    totals: Mapping[str, tuple[int, int]],
    limits_ms: Mapping[str, int],
    rows: Sequence[Row],
    damaged: Sequence[DamagedLog],
) -> str:
    """The page as HTML.

    Args:
        facts: What stands at the top.
        totals: Of each state, how many there are and their bytes.
        limits_ms: How long each may last.
        rows: The oldest, in that order.
        damaged: Logs that were left out.
    """
    counts = [
        (state, count_text(totals.get(state, (0, 0))[0]), size_text(size), count > 0)
        for state in LOOKS
        for count, size in [totals.get(state, (0, 0))]
    ]
    sections = [*damage_section(damaged), Section("In numbers", tiles(counts))]
    if rows:
        sections += [
            Section("How long", legend(_legend(totals)) + bars(_bars(rows)), ABOUT),
            Section("What to do", _advice(rows, limits_ms)),
            Section("Each of them", _listing(rows, sum(count for count, _ in totals.values()))),
        ]
    else:
        sections.append(Section("Findings", note("None: nothing lasts longer than it may.")))
    return page("Copies and deletions that last too long", facts, sections)


def _legend(totals: Mapping[str, tuple[int, int]]) -> list[tuple[str, str]]:
    return [(look, state) for state, look in LOOKS.items() if state in totals]


def _bars(rows: Sequence[Row]) -> list[Bar]:
    return [
        Bar(
            f"{row['topic']}-{row['partition']}",
            row["segment_id"] or "the partition",
            row["age_ms"],
            span_text(row["age_ms"]),
            LOOKS[row["state"]],
            f"{row['state']} since {time_text(row['since_ms'])}, broker {row['broker_id']}, "
            f"{size_text(row['size_in_bytes'])}",
        )
        for row in rows[:BARS_MAX]
    ]


def _advice(rows: Sequence[Row], limits_ms: Mapping[str, int]) -> str:
    said = {row["state"]: row["advice"] for row in rows}
    lines = [
        (state, span_text(limits_ms[state]), said[state]) for state in LOOKS if state in said
    ]
    return table(("state", "may last", "what to do"), lines)


def _listing(rows: Sequence[Row], total: int) -> str:
    columns = ("partition", "state", "segment", "since", "for", "broker", "first offset")
    lines = [
        (
            f"{row['topic']}-{row['partition']}",
            row["state"],
            row["segment_id"],
            time_text(row["since_ms"]),
            span_text(row["age_ms"]),
            str(row["broker_id"]),
            row["start_offset"],
            row["end_offset"],
            row["size_in_bytes"],
        )
        for row in rows
    ]
    return table((*columns, "last offset", "bytes"), lines, total=total)
