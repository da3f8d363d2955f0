"""The page of `spark coverage`: each partition as a strip along its offsets, worst first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tierledger.cli.report_text import count_text, many, size_text
from tierledger.cli.spark_page import (
    BAD,
    GOOD,
    IDLE,
    OPEN,
    WARN,
    Mark,
    Section,
    damage_section,
    lane,
    legend,
    note,
    page,
    plot,
    strip,
    table,
    tiles,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tierledger.pipeline.fold_task import DamagedLog
    from tierledger.pipeline.job_coverage import Totals

# Rows are plain dictionaries of whatever the columns hold.
Row = dict[str, Any]

LOOKS = {
    "covered": (GOOD, "finished segments hold it"),
    "hole": (BAD, "hole: no segment holds it"),
    "overlap": (WARN, "several segments hold it"),
    "orphaned_epoch": (IDLE, "orphaned: no part of the log"),
    "unfinished": (OPEN, "being copied or deleted"),
}
BELOW = ("orphaned_epoch", "unfinished")
"""Kinds that are drawn under the log's own offsets: they are no part of it."""

FINDING_ROWS_MAX = 500

ABOUT = (
    "Each strip is one partition, from the first to the last offset that any of its segments "
    "holds; below it, what is no part of the log that its leader has. Widths are true within a "
    "partition, not between them. Point at a stretch to see what it is."
)


def coverage_page(
    facts: Mapping[str, object],
    totals: Mapping[str, Totals],
    ranked: Sequence[tuple[str, str, int]],
    rows: Iterable[Row],
    partitions: int,
    damaged: Sequence[DamagedLog],
) -> str:
    """The page as HTML.

    Args:
        facts: What stands at the top.
        totals: Of all partitions, by kind.
        ranked: Topic, id and number of the partitions to draw, the worst first.
        rows: Their ranges, in any order.
        partitions: How many have segments.
        damaged: Logs that were left out.
    """
    of: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        of[row["topic_id"], row["partition"]].append(row)
    strips = [
        _partition(topic, of[topic_id, number], number)
        for topic, topic_id, number in ranked
        if of[topic_id, number]
    ]
    marks = legend((look, name) for look, name in LOOKS.values())
    sections = [
        *damage_section(damaged),
        Section("In numbers", tiles(_tiles(totals)) + marks),
        Section(_title(len(strips), partitions), plot(strips), ABOUT),
        *_findings(ranked, of, totals),
    ]
    return page("What the tier holds of each partition", facts, sections)


def _title(drawn: int, partitions: int) -> str:
    if drawn == partitions:
        return f"{many(drawn, 'partition')}, the worst first"
    return f"The worst {drawn} of {many(partitions, 'partition')}"


def _tiles(totals: Mapping[str, Totals]) -> Iterable[tuple[str, str, str, bool]]:
    hole, orphaned = totals["hole"], totals["orphaned_epoch"]
    overlap, unfinished = totals["overlap"], totals["unfinished"]
    return (
        (
            "covered",
            size_text(totals["covered"].size),
            "Bytes of finished segments that are part of their logs",
            False,
        ),
        ("holes", count_text(hole.rows), "Ranges that no segment holds", hole.rows > 0),
        (
            "offsets in holes",
            count_text(hole.offsets),
            "Offsets that no consumer gets from the tier",
            hole.rows > 0,
        ),
        (
            "orphaned",
            size_text(orphaned.size),
            "Bytes in leader epochs that the logs do not have there",
            orphaned.rows > 0,
        ),
        ("overlaps", size_text(overlap.size), "Bytes that are there more than once", False),
        (
            "unfinished",
            count_text(unfinished.rows),
            "Segments that are being copied or deleted",
            False,
        ),
    )


def _partition(topic: str, rows: Sequence[Row], number: int) -> str:
    first = min(row["start_offset"] for row in rows)
    last = max(row["end_offset"] for row in rows)
    marks = [
        Mark(
            row["start_offset"],
            row["end_offset"],
            LOOKS[row["kind"]][0],
            _tip(row),
            int(row["kind"] in BELOW),
        )
        for row in rows
    ]
    said = f"{count_text(first)} to {count_text(last)}"
    counted = [
        many(sum(row["kind"] == kind for row in rows), noun)
        for kind, noun in (
            ("hole", "hole"),
            ("orphaned_epoch", "orphaned range"),
            ("overlap", "overlap"),
        )
        if any(row["kind"] == kind for row in rows)
    ]
    remark = ", ".join([said, *counted])
    name = f"{topic}-{number}"
    return lane(name, remark, strip(marks, (first, last), f"{name}: {remark}"))


def _tip(row: Row) -> str:
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
        f"{row['kind'].replace('_', ' ')}: offsets {row['start_offset']} to "
        f"{row['end_offset']} ({count_text(offsets)}){epoch}{held}{state}{which}"
    )


def _findings(
    ranked: Sequence[tuple[str, str, int]],
    of: Mapping[tuple[str, int], Sequence[Row]],
    totals: Mapping[str, Totals],
) -> Iterable[Section]:
    kinds = ("hole", "orphaned_epoch", "overlap", "unfinished")
    lines: list[list[object]] = []
    for kind in kinds:
        for topic, topic_id, number in ranked:
            some = [row for row in of[topic_id, number] if row["kind"] == kind]
            some.sort(key=lambda row: row["start_offset"])
            for row in some:
                ids = ", ".join(row["segment_ids"][:3])
                lines.append(
                    [
                        f"{topic}-{number}",
                        kind.replace("_", " "),
                        row["leader_epoch"],
                        row["start_offset"],
                        row["end_offset"],
                        row["segments"],
                        row["size_in_bytes"],
                        ids + (" …" if len(row["segment_ids"]) > 3 else ""),
                        row["detail"],
                    ]
                )
    if not lines:
        yield Section("Findings", note("None: every log is covered, and once."))
        return
    columns = ("partition", "kind", "epoch", "first offset", "last offset", "segments")
    total = sum(totals[kind].rows for kind in kinds)
    drawn = table(
        (*columns, "bytes", "segment ids", "detail"),
        lines[:FINDING_ROWS_MAX],
        total=total,
    )
    yield Section("Findings", drawn)
