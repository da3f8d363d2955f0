"""The page of `spark audit`: what is missing and what is too much, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.cli.output import time_text
from tierledger.cli.report_text import count_text, many, size_text
from tierledger.cli.spark_page import (
    BAD,
    GOOD,
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
from tierledger.pipeline.job_audit_kinds import FINDINGS, AuditKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pipeline.job_audit import KindTotal
    from tierledger.pipeline.job_audit_run import Audit

# Rows of Spark are plain dictionaries of whatever the columns hold.
Row = dict[str, Any]

LOOKS = {
    AuditKind.WHOLE: GOOD,
    AuditKind.MISSING_OBJECT: BAD,
    AuditKind.INCOMPLETE_SET: BAD,
    AuditKind.SIZE_MISMATCH: BAD,
    AuditKind.UNREADABLE_METADATA: BAD,
    AuditKind.DELETED_BUT_THERE: WARN,
    AuditKind.ORPHAN: WARN,
    AuditKind.UNFINISHED: OPEN,
    AuditKind.CHANGING: OPEN,
}
"""The others are grey: nobody has to do anything about them."""

LEGEND = (
    (GOOD, "whole"),
    (BAD, "cannot be read as it is"),
    (WARN, "costs money, and nobody reads it"),
    (OPEN, "under way"),
    (IDLE, "not judged"),
)

MEANINGS = {
    AuditKind.MISSING_OBJECT: "finished segments without their log, their indexes, or both",
    AuditKind.INCOMPLETE_SET: "finished segments of which some parts or files are gone",
    AuditKind.SIZE_MISMATCH: "finished segments whose objects have another size",
    AuditKind.UNREADABLE_METADATA: "finished segments whose custom metadata is another's",
    AuditKind.DELETED_BUT_THERE: "deleted segments of which objects are left",
    AuditKind.ORPHAN: "old objects of segments that no log has named",
    AuditKind.FOREIGN: "objects that are not called as this tier's",
    AuditKind.TOO_YOUNG: "objects of unknown segments, too young to be called orphans",
    AuditKind.UNKNOWN_PARTITION: "objects of partitions that the store does not have",
    AuditKind.DAMAGED_LOG: "objects of partitions whose logs are damaged",
    AuditKind.CHANGING: "copied or deleted while the audit ran, or shortly before the list",
    AuditKind.UNFINISHED: "copies and deletions under way",
    AuditKind.ELSEWHERE: "finished segments below another prefix, not listed",
    AuditKind.WHOLE: "finished segments with everything that they should have",
}


def audit_page(
    facts: Mapping[str, object],
    totals: Mapping[AuditKind, KindTotal],
    rows: Sequence[Row],
    made: Audit,
) -> str:
    """The page as HTML.

    Args:
        facts: What stands at the top.
        totals: How much there is of each kind.
        rows: The worst findings, in that order.
        made: The audit.
    """
    findings = sum(totals[kind].rows for kind in FINDINGS)
    head = {
        **facts,
        "listed": f"{many(made.listed.objects, 'object')}, "
        f"{size_text(made.listed.size_in_bytes)}",
        "partitions": made.partitions,
    }
    sections = [
        *damage_section(made.damaged),
        Section("In numbers", tiles(_tiles(totals))),
        Section("What there is", legend(LEGEND) + bars(_bars(totals)), "By bytes in the tier."),
    ]
    if rows:
        sections.append(Section("Findings, worst first", _listing(rows, findings)))
    else:
        sections.append(Section("Findings", note("None.")))
    return page("What the tier holds, and what it should", head, sections)


def _tiles(totals: Mapping[AuditKind, KindTotal]) -> list[tuple[str, str, str, bool]]:
    return [
        (
            kind.value.replace("_", " "),
            count_text(total.rows),
            MEANINGS[kind],
            kind in FINDINGS and total.rows > 0,
        )
        for kind, total in totals.items()
        if total.rows or kind in FINDINGS
    ]


def _bars(totals: Mapping[AuditKind, KindTotal]) -> list[Bar]:
    return [
        Bar(
            kind.value.replace("_", " "),
            many(total.objects, "object"),
            total.size_in_bytes,
            size_text(total.size_in_bytes),
            LOOKS.get(kind, IDLE),
            MEANINGS[kind],
        )
        for kind, total in totals.items()
        if total.rows
    ]


def _listing(rows: Sequence[Row], total: int) -> str:
    columns = ("kind", "partition", "segment", "objects", "bytes", "expected", "written")
    lines = [
        (
            row["kind"].replace("_", " "),
            f"{row['topic'] or row['topic_id']}-{row['partition']}",
            row["segment_id"],
            row["objects"],
            row["size_in_bytes"],
            row["expected_bytes"],
            None if row["last_modified_ms"] is None else time_text(row["last_modified_ms"]),
            row["detail"],
            row["place"],
        )
        for row in rows
    ]
    return table((*columns, "detail", "where"), lines, total=total)
