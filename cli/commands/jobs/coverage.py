"""`jobs coverage`: which offsets of each partition the tier holds once, twice, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.commands.jobs.job import (
    SHOWN_MAX,
    Job,
    answered,
    as_of_fact,
    end,
    write_page,
)
from tierledger.cli.output import print_note
from tierledger.cli.table import size_cell, state_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierledger.pipeline.jobs.coverage.job import Totals
    from tierledger.pipeline.table_columns import PlainRow

PARTITIONS_DRAWN_MAX = 200
"""Partitions on the page, the worst first; the others are counted."""

ROWS_DRAWN_MAX = 100_000
"""Ranges on the page: at about 150 bytes each, browsers still show them at once."""

SPARE = ("bytes", "segments", "epoch")


def coverage(job: Job) -> None:
    """Find holes, orphaned epochs and overlaps in what the tier holds of each partition.

    Exit code 1: there are holes or orphaned epochs. 3: some logs are damaged; they are named
    and left out.
    """
    from tierledger.cli.pages.jobs.coverage import coverage_content
    from tierledger.pipeline.jobs.coverage.job import COVERAGE, CoverageDigest
    from tierledger.pipeline.jobs.coverage.rules import FINDINGS

    job.check()
    strips_max = 0 if job.page is None else PARTITIONS_DRAWN_MAX
    plan = job.planned(COVERAGE)
    made = answered(job, plan, CoverageDigest(SHOWN_MAX, strips_max, ROWS_DRAWN_MAX))
    digest = made.digest
    facts = {
        "cluster": plan.store.cluster or "",
        "partitions": f"{len(plan.logs)}, of which {digest.partitions} have segments",
        "engine": made.engine,
        **as_of_fact(job),
    }
    write_page(
        job,
        "coverage.html",
        facts,
        made.damaged,
        lambda: coverage_content(digest.totals, digest.strips(), digest.partitions),
    )
    of = digest.totals
    counted = ("orphaned_epoch", "recovered", "overlap", "unfinished")
    unlisted = [kind for kind in counted if of[kind].rows and kind not in FINDINGS]
    if unlisted and not job.json:
        print_note(f"{', '.join(unlisted)}: not listed, as they lose nothing; --out has them")
    end(
        job,
        {
            "partitions": len(plan.logs),
            "covered_offsets": of["covered"].offsets,
            "covered_bytes": of["covered"].size,
            "hole": of["hole"].rows,
            "hole_offsets": of["hole"].offsets,
            **_counts(of, "orphaned_epoch"),
            **_counts(of, "recovered"),
            **_counts(of, "overlap"),
            **_counts(of, "unfinished"),
        },
        spare=SPARE,
        worst=digest.worst(),
        cells=_cells,
        found=sum(of[kind].rows for kind in FINDINGS),
        damaged=made.damaged,
    )


def _counts(of: Mapping[str, Totals], kind: str) -> dict[str, int]:
    return {kind: of[kind].rows, f"{kind}_bytes": of[kind].size}


def _cells(row: PlainRow) -> dict[str, object]:
    return {
        "partition": f"{row['topic']}-{row['partition']}",
        "kind": state_cell(row["kind"]),
        "epoch": row["leader_epoch"],
        "start": row["start_offset"],
        "end": row["end_offset"],
        "segments": row["segments"],
        "bytes": size_cell(row["size_in_bytes"]),
    }
