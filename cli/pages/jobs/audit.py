"""The page of `spark audit`: missing and surplus objects, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.output import time_text
from tierledger.cli.pages.jobs.strips import Bar, bars
from tierledger.events.vocabulary import WORDS, spelled
from tierledger.pages.environment import render
from tierledger.pages.texts import many, size_text
from tierledger.pipeline.jobs.audit.kinds import FINDINGS, AuditKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pipeline.jobs.audit.rows import Audit, KindTotal
    from tierledger.pipeline.table_columns import PlainRow


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
        words={kind: WORDS[kind] for kind in AuditKind},
        bars=bars([_bar(kind, total) for kind, total in totals.items() if total.rows]),
        rows=rows,
        found=sum(totals[kind].rows for kind in FINDINGS),
        moment=time_text,
        damaged=made.damaged,
    )


def _bar(kind: AuditKind, total: KindTotal) -> Bar:
    return Bar(
        spelled(kind),
        many(total.objects, "object"),
        total.size_in_bytes,
        size_text(total.size_in_bytes),
        WORDS[kind].look,
        WORDS[kind].meaning,
    )
