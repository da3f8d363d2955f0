"""`spark`: the logs of all partitions as tables, and jobs over them, one command for each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from tierledger.cli.commands.spark.audit import audit
from tierledger.cli.commands.spark.coverage import coverage
from tierledger.cli.commands.spark.imports import import_metadata
from tierledger.cli.commands.spark.job import (
    AUTO,
    LOCAL,
    SPARK,
    Job,
    OutOption,
    add_command,
    answered,
    report_damage,
    session_of,
    shown,
    write_table,
)
from tierledger.cli.commands.spark.retention import retention
from tierledger.cli.commands.spark.stuck import stuck
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.options import EPOCH
from tierledger.cli.output import escaped, print_json
from tierledger.events.errors import InvalidArgument

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
    "epochs": "what the leaders answer about each leader epoch",
    "sizes": "segments and bytes by partition, leader epoch and state",
    "transitions": "how long segments stay in each state",
    "anomalies": "what was odd in the logs",
}
"""Each table and its content; listed here, since help is shown without Spark."""


def spark_group() -> typer.Typer:
    group = typer.Typer(
        help="Tables and jobs over the logs of all partitions, with Spark.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for table, about in TABLE_HELP.items():
        without = {"out", "page"}
        add_command(
            group, table, _write, about=about, description=_help(about), without=without
        )
    without = {"page", "as_of", "topic", "partition", "engine"}
    add_command(group, "import", import_metadata, without=without)
    add_command(group, "coverage", coverage, about="what of each partition the tier holds")
    about = "what is missing in the tier, and what is too much"
    add_command(group, "audit", audit, about=about, without={"as_of", "topic", "partition"})
    about = "copies and deletions that last too long"
    add_command(group, "stuck", stuck, about=about, without={"as_of"})
    about = "what another retention would delete, and when"
    add_command(group, "retention", retention, about=about, without={"as_of"})
    return group


def _help(about: str) -> str:
    return (
        f"Write the table of {about}.\n\n"
        "The folder appears under its name when the table is complete. Exit code 3: the table "
        "is written without some logs, which are damaged and named."
    )


def _write(job: Job, out: OutOption) -> None:
    job = replace(job, out=out)
    job.check()
    if job.name == EVENTS and job.engine == LOCAL:
        raise InvalidArgument(f"--engine: expected {AUTO} or {SPARK} for {EVENTS}, got {LOCAL}")
    plan = job.planned("segments" if job.name == EVENTS else job.name)
    if job.name == EVENTS:
        rows, damaged = _events_written(plan, job)
    else:
        made = answered(job, plan, None)
        rows, damaged = made.rows, made.damaged
    if job.json:
        left_out = [one._asdict() for one in damaged]
        print_json({"table": job.name, "rows": rows, "out": str(job.out), "damaged": left_out})
    else:
        print(f"{rows} rows in {escaped(str(job.out))}")
    report_damage(damaged)
    if damaged:
        raise typer.Exit(ExitStatus.PARTLY)


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
    from tierledger.pipeline.source.source import EVENT_SCHEMA, events
    from tierledger.storage.connector import URL_SETTING

    as_of: int | datetime | None = None
    if job.as_of is not None and job.as_of.time_ms is not None:
        as_of = EPOCH + timedelta(milliseconds=job.as_of.time_ms)
    elif job.as_of is not None:
        as_of = job.as_of.position
    frame = events(
        session,
        str(plan.store.config[URL_SETTING]),
        cluster=plan.store.cluster,
        topic=job.topic,
        as_of=as_of,
        columns=[name for name in EVENT_SCHEMA.fieldNames() if name != "stored"],
    )
    if job.partition is not None:
        frame = frame.where(frame["partition"] == job.partition)
    return frame
