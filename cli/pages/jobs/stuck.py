"""The page of `spark stuck`: how long each copy and deletion has lasted, the oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tierledger.cli.output import time_text
from tierledger.cli.pages.jobs.strips import BAD, IDLE, OPEN, WARN, Bar, bars
from tierledger.pages.environment import render
from tierledger.pages.texts import size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pipeline.folding.task import DamagedLog

# Rows of tables are plain dictionaries of whatever the columns hold.
TableRow = dict[str, Any]

LOOKS: Final = {
    "COPY_SEGMENT_STARTED": OPEN,
    "DELETE_SEGMENT_STARTED": WARN,
    "DELETE_PARTITION_MARKED": IDLE,
    "DELETE_PARTITION_STARTED": BAD,
}

BARS_MAX = 100


def stuck_page(
    facts: Mapping[str, object],
    totals: Mapping[str, tuple[int, int]],
    limits_ms: Mapping[str, int],
    rows: Sequence[TableRow],
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
    return render(
        "stuck.html",
        facts=facts,
        totals=totals,
        looks=LOOKS,
        limits_ms=limits_ms,
        rows=rows,
        found=sum(count for count, _ in totals.values()),
        bars=bars([_bar(row) for row in rows[:BARS_MAX]]),
        advice={row["state"]: row["advice"] for row in rows},
        moment=time_text,
        damaged=damaged,
    )


def _bar(row: TableRow) -> Bar:
    return Bar(
        f"{row['topic']}-{row['partition']}",
        row["segment_id"] or "the partition",
        row["age_ms"],
        span_text(row["age_ms"]),
        LOOKS[row["state"]],
        f"{row['state']} since {time_text(row['since_ms'])}, broker {row['broker_id']}, "
        f"{size_text(row['size_in_bytes'])}",
    )
