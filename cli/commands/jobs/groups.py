"""`tables` and `jobs`: the logs of all partitions as tables, and jobs over them.

One command for each. `spark` is their former name, since most of them run without Spark.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from tierledger.cli.commands.jobs.audit import audit
from tierledger.cli.commands.jobs.costs import costs
from tierledger.cli.commands.jobs.coverage import coverage
from tierledger.cli.commands.jobs.imports import import_metadata
from tierledger.cli.commands.jobs.job import (
    Job,
    OutOption,
    add_command,
    answered,
    is_local,
    report_ahead,
    report_damage,
    session_of,
    shown,
    write_table,
    written_here,
)
from tierledger.cli.commands.jobs.retention import retention
from tierledger.cli.commands.jobs.stuck import stuck
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.handlers import group_of
from tierledger.cli.options import EPOCH
from tierledger.cli.output import escaped, print_json, print_note
from tierledger.events.extras import naming_extras

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from tierledger.pipeline.folding.task import DamagedLog
    from tierledger.pipeline.tables.plan import TablePlan

EVENTS = "events"
"""The table that is not folded: the events of the logs."""

TABLE_HELP = {
    EVENTS: "the logs as they are, one row for each event",
    "segments": "every segment that the metadata knows, in no order",
    "trash": "every segment that was deleted and whose data stays, in the order of the "
    "deletions",
    "epochs": "what the leaders answer about each leader epoch",
    "sizes": "segments and bytes by partition, leader epoch and state",
    "transitions": "how long segments stay in each state",
    "anomalies": "what was odd in the logs",
}
"""Each table and its content; listed here, since help is shown without Spark."""


def tables_group() -> typer.Typer:
    group = group_of("The logs of all partitions as tables, made here or with Spark.", {})
    _add_tables(group)
    return group


def jobs_group() -> typer.Typer:
    group = group_of("Jobs over the logs of all partitions, done here or with Spark.", {})
    _add_jobs(group)
    return group


def spark_group() -> typer.Typer:
    """The commands of `tables` and of `jobs`, under the name that both had."""
    group = group_of("The former name of `tables` and `jobs`; it goes on working.", {})
    _add_tables(group)
    _add_jobs(group)
    return group


def _add_tables(group: typer.Typer) -> None:
    for table, about in TABLE_HELP.items():
        without = {"out", "page", "wide"}
        told = f"{about[0].upper()}{about[1:]}."
        add_command(group, table, _write, about=told, description=_help(about), without=without)


def _add_jobs(group: typer.Typer) -> None:
    without = {"page", "as_of", "topic", "partition", "engine", "wide", "columns"}
    add_command(group, "import", import_metadata, without=without)
    add_command(group, "coverage", coverage, without={"columns"})
    add_command(group, "audit", audit, without={"as_of", "topic", "partition", "columns"})
    add_command(group, "costs", costs, without={"columns"})
    add_command(group, "stuck", stuck, without={"as_of", "columns"})
    add_command(group, "retention", retention, without={"as_of", "columns"})


def _help(about: str) -> str:
    return (
        f"Write the table of {about}.\n\n"
        "The folder appears under its name when the table is complete. Exit code 3: the table "
        "is written without some logs, which are damaged and named."
    )


def _write(job: Job, out: OutOption) -> None:
    job = replace(job, out=out)
    job.check()
    plan = job.planned("segments" if job.name == EVENTS else job.name)
    if job.name == EVENTS:
        written = _events_written_here if is_local(job, plan) else _events_written
        rows, damaged = written(plan, job)
    else:
        made = answered(job, plan, None)
        rows, damaged = made.rows, made.damaged
    if job.json:
        ahead = [one._asdict() for one in job.ahead]
        left_out = [one._asdict() for one in damaged]
        print_json(
            {
                "table": job.name,
                "rows": rows,
                "out": str(job.out),
                "ahead": ahead,
                "damaged": left_out,
            }
        )
    else:
        print(f"{rows} rows in {escaped(str(job.out))}")
    report_ahead(job)
    report_damage(damaged)
    if damaged:
        raise typer.Exit(ExitStatus.PARTLY)


def _events_written_here(plan: TablePlan, job: Job) -> tuple[int, list[DamagedLog]]:
    with naming_extras():
        from tierledger.pipeline.fold import point
        from tierledger.pipeline.source.bounds import EventBounds
        from tierledger.pipeline.source.local import EVENTS as TABLE
        from tierledger.pipeline.source.local import planned_here, written_events
        from tierledger.pipeline.source.options import SourceOptions

    options = SourceOptions(
        plan.store.config,
        plan.store.cluster,
        topic=job.topic,
        partition=job.partition,
        bounds=EventBounds.between(until=point(_as_of(job))),
    )
    tasks = planned_here(options, print_note)
    with written_here(job, TABLE) as write:
        assert write is not None, "the command asks for a folder"
        return written_events(options, tasks, write, print_note)


def _events_written(plan: TablePlan, job: Job) -> tuple[int, list[DamagedLog]]:
    from tierledger.pipeline.folding.task import DamagedLog
    from tierledger.pipeline.source.columns import CORRUPT
    from tierledger.pipeline.spark_files import OPTIONS

    assert job.out is not None, "the command asks for it"
    with session_of(job) as session:
        rows = write_table(session, job, _events(session, plan, job), None)
        written = session.read.format(job.format).options(**OPTIONS[job.format])
        found = written.load(f"file:{job.out.absolute()}").where(f"type = '{CORRUPT}'")
        with shown(session, f"{job.name}: looking for damage", None):
            damaged = [
                DamagedLog(
                    row.topic or "",
                    row.topic_id,
                    int(row.partition),
                    int(row.position),
                    row.reason,
                )
                for row in found.collect()
            ]
    return rows, damaged


def _events(session: SparkSession, plan: TablePlan, job: Job) -> DataFrame:
    from tierledger.pipeline.frames import events

    return events(
        session,
        plan.store.config,
        _as_of(job),
        cluster=plan.store.cluster,
        topic=job.topic,
        partition=job.partition,
    )


def _as_of(job: Job) -> int | datetime | None:
    if job.as_of is None or job.as_of.time_ms is None:
        return None if job.as_of is None else job.as_of.position
    return EPOCH + timedelta(milliseconds=job.as_of.time_ms)
