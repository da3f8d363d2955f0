"""`spark stuck`: copies and deletions that last too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tierledger.cli.options import (
    AsOf,
    ClusterOption,
    JsonOption,
    OverwriteOption,
    StoreOption,
)
from tierledger.cli.output import time_text
from tierledger.cli.report_text import span_text
from tierledger.cli.spark_job import (
    FormatOption,
    Job,
    MasterOption,
    OutIfAnyOption,
    PageOption,
    PartitionOption,
    TopicOption,
    end,
    kept,
    session_of,
    shown,
    write_page,
    write_table,
)
from tierledger.cli.spark_time import NOW_HELP, clock_ms, duration_ms, stated_time_ms
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tierledger.pipeline.fold_task import DamagedLog
    from tierledger.pipeline.tables import TablePlan

STATE_NAMES = (
    "COPY_SEGMENT_STARTED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
)
"""What can last too long."""

DEFAULT_LIMIT = "1h"
"""A copy of a gigabyte takes minutes, and retention runs every 30 seconds."""

ROWS_MAX = 500
"""Rows that are printed or drawn, the oldest; the table has all."""

COLUMNS = ("partition", "state", "segment", "since", "for", "broker", "bytes")


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("stuck", short_help="copies and deletions that last too long")(stuck)


def stuck(
    older_than: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIME|STATE=TIME",
            help=f"How long a state may last: 90m, 2d; else {DEFAULT_LIMIT}. Again for one of "
            f"{', '.join(STATE_NAMES)}.",
        ),
    ] = None,
    now: Annotated[str | None, typer.Option(metavar="TIME", help=NOW_HELP)] = None,
    out: OutIfAnyOption = None,
    format: FormatOption = "parquet",  # noqa: A002 - The option's name.
    page: PageOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    master: MasterOption = None,
    overwrite: OverwriteOption = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Find segments and partitions whose copy or deletion began and does not end.

    With --now, the logs are read as they were then. Exit code 1: there are some. 3: logs are
    damaged, named and left out.
    """
    limits_ms = limits(older_than or ())
    then_ms = stated_time_ms(now, "--now")
    job = Job(
        name="stuck",
        store=store,
        cluster=cluster,
        as_of=None if then_ms is None else AsOf(time_ms=then_ms),
        topic=topic,
        partition=partition,
        master=master,
        out=out,
        format=format,
        overwrite=overwrite,
        page=page,
        json=json,
    )
    job.check()
    _run(job, clock_ms() if then_ms is None else then_ms, limits_ms)


def limits(given: Sequence[str]) -> dict[str, int]:
    """How long each state may last, in ms: what `--older-than` says.

    Raises:
        InvalidArgument: There is no such state, or no such time.
    """
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


class Found(NamedTuple):
    """What the job found, as far as it is shown."""

    totals: dict[str, tuple[int, int]]
    """Of each state, how many there are and their bytes."""
    oldest: list[dict[str, Any]]
    damaged: list[DamagedLog]


def _run(job: Job, now_ms: int, limits_ms: dict[str, int]) -> None:
    # Spark is imported only here: the other commands start without it.
    from tierledger.cli.spark_page_stuck import stuck_page
    from tierledger.pipeline.job_stuck import stuck_table

    plan = job.planned(stuck_table(now_ms, limits_ms))
    with session_of(job) as session:
        found = _found(session, plan, job)
    if job.page is not None:
        facts = {"cluster": plan.store.cluster or "", "now": time_text(now_ms)}
        page = stuck_page(facts, found.totals, limits_ms, found.oldest, found.damaged)
        write_page(job, page)
    end(
        job,
        {
            "now": time_text(now_ms),
            "partitions": len(plan.logs),
            **{state: found.totals.get(state, (0, 0))[0] for state in STATE_NAMES},
            "bytes": sum(size for _, size in found.totals.values()),
        },
        columns=COLUMNS,
        worst=[_printed(row) for row in found.oldest],
        found=sum(count for count, _ in found.totals.values()),
        damaged=found.damaged,
    )


def _found(session: SparkSession, plan: TablePlan, job: Job) -> Found:
    from pyspark.sql import functions as sql

    from tierledger.pipeline.tables import Damage

    damage = Damage(session)
    tasks = len(plan.tasks(session))
    with kept(plan.made(session, damage)) as frame:
        if job.out is not None:
            write_table(session, job, frame, tasks)
        with shown(session, "stuck: tasks done", tasks):
            size = sql.sum(frame["size_in_bytes"].cast("decimal(38,0)"))
            by_state = frame.groupBy("state").agg(sql.count(sql.lit(1)), size).collect()
            order = (sql.desc("age_ms"), "topic", "partition", "segment_id")
            oldest = frame.orderBy(*order).limit(ROWS_MAX).collect()
    totals = {state: (int(count), int(size)) for state, count, size in by_state}
    return Found(totals, [row.asDict() for row in oldest], damage.logs())


def _printed(row: dict[str, Any]) -> list[object]:
    return [
        f"{row['topic']}-{row['partition']}",
        row["state"],
        row["segment_id"],
        time_text(row["since_ms"]),
        span_text(row["age_ms"]),
        row["broker_id"],
        row["size_in_bytes"],
    ]
