"""The page of `jobs coverage`: each partition as a strip along its offsets, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierledger.cli.pages.jobs.groups import GROUPS_SHOWN, PartitionGroup, groups_of
from tierledger.cli.pages.jobs.strips import StripMark, strip
from tierledger.events.vocabulary import WORDS as VOCABULARY
from tierledger.events.vocabulary import spelled
from tierledger.pages.texts import count_text, many, size_text
from tierledger.pipeline.jobs.coverage.rules import CoverageKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pages.drawing import PlotRow
    from tierledger.pipeline.jobs.coverage.job import Strip, Totals
    from tierledger.pipeline.table_columns import PlainRow

WORDS: Final = {str(kind): VOCABULARY[kind] for kind in CoverageKind}
BELOW = ("orphaned_epoch", "recovered", "unfinished")
"""Kinds that are drawn under the log's own offsets, since they are no part of it."""

ROWS_MAX: Final = 30
"""Ranges of a partition that its table on the page has; its strip has all."""

LISTED = ("hole", "orphaned_epoch", "overlap", "recovered", "unfinished")
"""Kinds that are listed, in this order."""


def coverage_content(
    totals: Mapping[str, Totals], strips: Sequence[Strip], partitions: int
) -> dict[str, object]:
    """What `coverage.html` shows.

    `totals` are of all `partitions` that have segments; those of `strips` are drawn.
    """
    return {
        "totals": totals,
        "words": WORDS,
        "counts": {kind: totals[kind].rows for kind in LISTED},
        "groups": groups_of(_group(one) for one in strips if one.rows),
        "groups_shown": GROUPS_SHOWN,
        "partitions": partitions,
        "found": sum(totals[kind].rows for kind in LISTED),
    }


def _group(one: Strip) -> PartitionGroup:
    listed = sorted(
        (row for row in one.rows if row["kind"] in LISTED),
        key=lambda row: (LISTED.index(row["kind"]), row["start_offset"]),
    )
    return PartitionGroup(
        _strip(one.topic, one.partition, one.rows),
        one.topic_id,
        list(dict.fromkeys(row["kind"] for row in listed)),
        listed[:ROWS_MAX],
        len(listed),
    )


def _strip(topic: str, number: int, rows: Sequence[PlainRow]) -> PlotRow:
    first = min(row["start_offset"] for row in rows)
    last = max(row["end_offset"] for row in rows)
    marks = [
        StripMark(
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
