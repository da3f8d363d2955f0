"""The page of `spark coverage`: each partition as a strip along its offsets, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierledger.cli.pages.jobs.strips import Mark, strip
from tierledger.events.vocabulary import WORDS as VOCABULARY
from tierledger.events.vocabulary import spelled
from tierledger.pages.environment import render
from tierledger.pages.texts import count_text, many, size_text
from tierledger.pipeline.jobs.coverage.rules import CoverageKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pages.drawing import Row
    from tierledger.pipeline.folding.task import DamagedLog
    from tierledger.pipeline.jobs.coverage.job import Strip, Totals
    from tierledger.pipeline.table_columns import PlainRow

WORDS: Final = {str(kind): VOCABULARY[kind] for kind in CoverageKind}
BELOW = ("orphaned_epoch", "recovered", "unfinished")
"""Kinds that are drawn under the log's own offsets, since they are no part of it."""

LISTED = ("hole", "orphaned_epoch", "overlap", "recovered", "unfinished")
"""Kinds that are listed, in this order."""


def coverage_page(
    facts: Mapping[str, object],
    totals: Mapping[str, Totals],
    strips: Sequence[Strip],
    partitions: int,
    damaged: Sequence[DamagedLog],
) -> str:
    """The page as HTML, with `facts` at the top.

    `totals` are of all `partitions` that have segments; those of `strips` are drawn.
    """
    drawn = [one for one in strips if one.rows]
    return render(
        "coverage.html",
        facts=facts,
        totals=totals,
        words=WORDS,
        strips=[_strip(one.topic, one.partition, one.rows) for one in drawn],
        partitions=partitions,
        findings=[
            row | {"topic": one.topic}
            for kind in LISTED
            for one in drawn
            for row in sorted(one.rows, key=lambda row: row["start_offset"])
            if row["kind"] == kind
        ],
        found=sum(totals[kind].rows for kind in LISTED),
        damaged=damaged,
    )


def _strip(topic: str, number: int, rows: Sequence[PlainRow]) -> Row:
    first = min(row["start_offset"] for row in rows)
    last = max(row["end_offset"] for row in rows)
    marks = [
        Mark(
            row["start_offset"],
            row["end_offset"],
            WORDS[row["kind"]].look,
            _tip(row),
            int(row["kind"] in BELOW),
        )
        for row in rows
    ]
    kinds = [row["kind"] for row in rows]
    counted = [
        many(kinds.count(kind), noun)
        for kind, noun in (
            ("hole", "hole"),
            ("orphaned_epoch", "orphaned epoch"),
            ("recovered", "recovered range"),
            ("overlap", "overlap"),
        )
        if kind in kinds
    ]
    note = ", ".join([f"{count_text(first)} to {count_text(last)}", *counted])
    return strip(f"{topic}-{number}", note, marks, (first, last))


def _tip(row: PlainRow) -> str:
    offsets = row["end_offset"] - row["start_offset"] + 1
    epoch = "" if row["leader_epoch"] is None else f", leader epoch {row['leader_epoch']}"
    held = ""
    if row["segments"]:
        held = f"; {many(row['segments'], 'segment')}, {size_text(row['size_in_bytes'])}"
    state = f"; {row['detail']}" if row["detail"] else ""
    ids = ", ".join(row["segment_ids"][:3])
    rest = len(row["segment_ids"]) - 3
    more = f" and {count_text(rest)} more" if rest > 0 else ""
    which = f"; {ids}{more}" if ids else ""
    return (
        f"{spelled(row['kind'])}: offsets {row['start_offset']} to "
        f"{row['end_offset']} ({count_text(offsets)}){epoch}{held}{state}{which}"
    )
