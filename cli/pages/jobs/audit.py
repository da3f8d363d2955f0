"""The page of `spark audit`: missing and surplus objects, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.output import time_text
from tierledger.cli.pages.jobs.strips import BAD, GOOD, IDLE, OPEN, WARN, Bar, bars
from tierledger.pages.environment import render
from tierledger.pages.texts import many, size_text
from tierledger.pipeline.jobs.audit.kinds import FINDINGS, AuditKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pipeline.jobs.audit.rows import Audit, KindTotal
    from tierledger.pipeline.table_columns import PlainRow

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
"""Kinds without a colour here are grey: they need no action."""

MEANINGS = {
    AuditKind.MISSING_OBJECT: "finished segments without their log, their indexes, or both",
    AuditKind.INCOMPLETE_SET: "finished segments of which some parts or files are gone",
    AuditKind.SIZE_MISMATCH: "finished segments whose objects have another size",
    AuditKind.UNREADABLE_METADATA: "finished segments whose custom metadata is another's",
    AuditKind.DELETED_BUT_THERE: "deleted segments of which objects are left",
    AuditKind.ORPHAN: "old objects of segments that no log has named",
    AuditKind.FOREIGN: "objects with names that are not this tier's",
    AuditKind.TOO_YOUNG: "objects of unknown segments, too young to be called orphans",
    AuditKind.UNKNOWN_PARTITION: "objects of partitions that the store does not have",
    AuditKind.DAMAGED_LOG: "objects of partitions whose logs are damaged",
    AuditKind.CHANGING: "copied or deleted while the audit ran, or shortly before the list",
    AuditKind.UNFINISHED: "copies and deletions under way",
    AuditKind.UNSEEN: "not judged, because part of the tier could not be listed",
    AuditKind.ELSEWHERE: "finished segments below another prefix, not listed",
    AuditKind.WHOLE: "finished segments with everything that they should have",
}


def audit_page(
    facts: Mapping[str, object],
    totals: Mapping[AuditKind, KindTotal],
    rows: Sequence[PlainRow],
    made: Audit,
) -> str:
    """The page as HTML, with `facts` at the top; `rows` are the worst findings, in order."""
    listed = made.listed
    return render(
        "audit.html",
        facts={
            **facts,
            "listed": f"{many(listed.objects, 'object')}, {size_text(listed.size_in_bytes)}",
            "partitions": made.partitions,
        },
        totals=totals,
        findings=FINDINGS,
        meanings=MEANINGS,
        bars=bars([_bar(kind, total) for kind, total in totals.items() if total.rows]),
        rows=rows,
        found=sum(totals[kind].rows for kind in FINDINGS),
        moment=time_text,
        damaged=made.damaged,
    )


def _bar(kind: AuditKind, total: KindTotal) -> Bar:
    return Bar(
        kind.value.replace("_", " "),
        many(total.objects, "object"),
        total.size_in_bytes,
        size_text(total.size_in_bytes),
        LOOKS.get(kind, IDLE),
        MEANINGS[kind],
    )
