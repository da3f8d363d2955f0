"""`jobs stuck`: copies and deletions that last too long."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.brokers import broker_cell
from tierledger.cli.commands.jobs.job import Job, answered, end, write_page
from tierledger.cli.commands.jobs.times import NowOption, clock_ms, stated_time_ms
from tierledger.cli.options import duration_ms
from tierledger.cli.segment_output import BRIEF_STATES
from tierledger.cli.table import id_cell, size_cell, state_cell, time_cell
from tierledger.events.as_of import AsOf
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import time_text
from tierledger.pages.texts import span_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.pipeline.table_columns import PlainRow

STATE_NAMES = (
    "COPY_SEGMENT_STARTED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
)
"""States that can last too long."""

DEFAULT_LIMIT = "1h"
"""A copy of a gigabyte takes minutes, and retention runs every 30 seconds."""

ROWS_MAX = 500
"""How many rows are printed or drawn, the oldest; the table has all."""

SPARE = ("broker", "bytes", "since")


def stuck(
    job: Job,
    older_than: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIME|STATE=TIME",
            help=f"Longest time that a state may last, for example 90m or 2d; by default "
            f"{DEFAULT_LIMIT}. May be repeated as STATE=TIME for one of "
            f"{', '.join(STATE_NAMES)}.",
        ),
    ] = None,
    now: NowOption = None,
) -> None:
    """Find segments and partitions whose copy or deletion began and does not end.

    With --now, the logs are read as they were at that time. Exit code 1: a copy or deletion
    lasts too long. 3: some logs are damaged; they are named and left out.
    """
    limits_ms = limits(older_than or ())
    then_ms = stated_time_ms(now, "--now")
    job.check()
    if then_ms is not None:
        job = replace(job, as_of=AsOf(time_ms=then_ms))
    _run(job, clock_ms() if then_ms is None else then_ms, limits_ms)


def limits(given: Sequence[str]) -> dict[str, int]:
    """How long (ms) each state may last, according to `--older-than`."""
    found = dict.fromkeys(STATE_NAMES, duration_ms(DEFAULT_LIMIT, "--older-than"))
    general = [one for one in given if "=" not in one]
    if len(general) > 1:
        raise InvalidArgument(
            f"--older-than: expected one time for all states, got {' and '.join(general)}"
        )
    for text in general:
        found = dict.fromkeys(STATE_NAMES, duration_ms(text, "--older-than"))
    for text in given:
        state, is_one, time = text.partition("=")
        if not is_one:
            continue
        if state not in STATE_NAMES:
            raise InvalidArgument(
                f"--older-than: expected one of {', '.join(STATE_NAMES)}, got {state!r}"
            )
        found[state] = duration_ms(time, "--older-than")
    return found


def _run(job: Job, now_ms: int, limits_ms: dict[str, int]) -> None:
    from tierledger.cli.pages.jobs.stuck import stuck_content
    from tierledger.pipeline.jobs.stuck import StuckDigest, stuck_table

    plan = job.planned(stuck_table(now_ms, limits_ms))
    made = answered(job, plan, StuckDigest(ROWS_MAX))
    totals, oldest = made.digest.totals, made.digest.oldest()
    facts = {
        "cluster": plan.store.cluster or "",
        "now": time_text(now_ms),
        "engine": made.engine,
    }
    write_page(
        job, "stuck.html", facts, made.damaged, lambda: stuck_content(totals, limits_ms, oldest)
    )
    end(
        job,
        {
            "now": time_text(now_ms),
            "partitions": len(plan.logs),
            **{state: totals.get(state, (0, 0))[0] for state in STATE_NAMES},
            "bytes": sum(size for _, size in totals.values()),
        },
        spare=SPARE,
        worst=oldest,
        cells=_cells,
        found=sum(count for count, _ in totals.values()),
        damaged=made.damaged,
    )


def _cells(row: PlainRow) -> dict[str, object]:
    return {
        "partition": f"{row['topic']}-{row['partition']}",
        "state": state_cell(row["state"], BRIEF_STATES.get(row["state"])),
        "segment": None if row["segment_id"] is None else id_cell(row["segment_id"]),
        "since": time_cell(row["since_ms"]),
        "for": span_text(row["age_ms"]),
        "broker": broker_cell(row["broker_id"]),
        "bytes": size_cell(row["size_in_bytes"]),
    }
