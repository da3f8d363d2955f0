"""`spark`: the logs of all partitions as tables, in files."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tierledger.cli.options import (
    EPOCH,
    AsOf,
    AsOfOption,
    ClusterOption,
    JsonOption,
    StoreOption,
    parse_as_of,
)
from tierledger.cli.output import escaped, print_json, print_note, progress
from tierledger.cli.settings import cluster_setting, store_config
from tierledger.events import errors
from tierledger.events.errors import InvalidArgument, RemoteStorageError
from tierledger.storage.locate import default_store_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from tierledger.pipeline.fold_task import DamagedLog
    from tierledger.pipeline.tables import TablePlan

EVENTS = "events"
"""The table that is not folded: the logs as they are."""

TABLE_NAMES = (EVENTS, "segments", "epochs", "sizes", "transitions", "anomalies")
FORMAT_NAMES = ("parquet", "csv", "json")

EXIT_DAMAGED = 3
"""The table is written, without the logs that are damaged."""

POLL_S = 0.2
"""Seconds between two looks at how far Spark is."""

OURS = re.compile(r"tierledger\.events\.errors\.(\w+): ([^\n]*)")
"""An error of ours in what Spark tells of a task."""


class Job(NamedTuple):
    """What is to be made, and where."""

    table: str
    out: Path
    format: str
    as_of: AsOf | None
    topic: str | None
    partition: int | None
    master: str | None
    overwrite: bool

    def check(self) -> None:
        """Refuse what makes no sense, before anything starts.

        Raises:
            InvalidArgument: It makes none, or the table's place is taken.
        """
        if self.table not in TABLE_NAMES:
            expected = ", ".join(TABLE_NAMES)
            raise InvalidArgument(f"expected a table of {expected}; got {self.table!r}")
        if self.format not in FORMAT_NAMES:
            expected = ", ".join(FORMAT_NAMES)
            raise InvalidArgument(f"--format: expected one of {expected}; got {self.format!r}")


class Made(NamedTuple):
    """What came of a job."""

    rows: int
    damaged: list[DamagedLog]


def register(app: typer.Typer) -> None:
    app.command("spark")(spark)


def spark(
    table: Annotated[str, typer.Argument(metavar="|".join(TABLE_NAMES), help="Which table.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    format: Annotated[  # noqa: A002 - The option's name.
        str, typer.Option(metavar="|".join(FORMAT_NAMES), help="What the files are.")
    ] = "parquet",
    as_of: AsOfOption = None,
    topic: Annotated[
        str | None, typer.Option(help="Only topics of that name, or the one with that id.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Only partitions of that number.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where Spark runs; else local[*], all cores of this machine."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a table that is there.")
    ] = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Make a table of all partitions' logs with Spark, and write it to files.

    The folder appears under its name when the table is complete. Exit code 3: it is, but for
    logs that are damaged, which are named.
    """
    job = Job(table, out, format, parse_as_of(as_of), topic, partition, master, overwrite)
    job.check()
    made = _make(job, store, cluster)
    if json:
        damaged = [one._asdict() for one in made.damaged]
        print_json({"table": table, "rows": made.rows, "out": str(out), "damaged": damaged})
    else:
        print(f"{made.rows} rows in {escaped(str(out))}")
    for one in made.damaged:
        print_note(f"{one.name} is left out from position {one.position} on: {one.message}")
    if made.damaged:
        raise typer.Exit(EXIT_DAMAGED)


def _make(job: Job, store: str | None, cluster: str | None) -> Made:
    # Spark is imported only here: the other commands start without it.
    from tierledger.pipeline.session import spark_session
    from tierledger.pipeline.table_files import place, require_place

    require_place(job.out, overwrite=job.overwrite)
    plan = _planned(job, store, cluster)
    session = spark_session(f"tierledger {job.table}", job.master)
    try:
        session.sparkContext.setLogLevel("OFF")  # What goes wrong is told in one line.
        with place(job.out, overwrite=job.overwrite) as folder, _plain_errors():
            if job.table == EVENTS:
                return _write_events(session, plan, job, folder)
            return _write_folded(session, plan, job, folder)
    finally:
        session.stop()


def _planned(job: Job, store: str | None, cluster: str | None) -> TablePlan:
    """The logs that are meant, as far as they go now. Also refuses what is not there."""
    from tierledger.pipeline.fold import NOW
    from tierledger.pipeline.fold import AsOf as Point
    from tierledger.pipeline.fold_store import JobStore
    from tierledger.pipeline.tables import planned
    from tierledger.storage.connector import URL_SETTING

    config = {URL_SETTING: str(default_store_url()), **store_config(store)}
    return asyncio.run(
        planned(
            "segments" if job.table == EVENTS else job.table,
            JobStore.of(config, cluster_setting(cluster)),
            as_of=NOW if job.as_of is None else Point(*job.as_of),
            topic=job.topic,
            partition=job.partition,
        )
    )


def _write_folded(session: SparkSession, plan: TablePlan, job: Job, folder: Path) -> Made:
    from tierledger.pipeline.table_files import write
    from tierledger.pipeline.tables import Damage

    damage = Damage(session)
    frame = plan.made(session, damage)
    with _shown(session, f"{job.table}: tasks done", len(plan.tasks(session))):
        rows = write(frame, folder, job.format)
    return Made(rows, damage.logs())


def _write_events(session: SparkSession, plan: TablePlan, job: Job, folder: Path) -> Made:
    from tierledger.pipeline.columns import CORRUPT
    from tierledger.pipeline.fold_task import DamagedLog
    from tierledger.pipeline.table_files import FORMATS, write

    frame = _events(session, plan, job)
    with _shown(session, f"{job.table}: tasks done", None):
        rows = write(frame, folder, job.format)
    written = session.read.format(job.format).options(**FORMATS[job.format])
    found = written.load(f"file:{folder.absolute()}").where(f"type = '{CORRUPT}'")
    damaged = [
        DamagedLog(
            row.topic or "", row.topic_id, int(row.partition), int(row.position), row.reason
        )
        for row in found.collect()
    ]
    return Made(rows, damaged)


def _events(session: SparkSession, plan: TablePlan, job: Job) -> DataFrame:
    from tierledger.pipeline.source import EVENT_SCHEMA, events
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


@contextmanager
def _plain_errors() -> Iterator[None]:
    """An error of ours that ended a task, out of what Spark tells of it."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        said = str(error)
        for name, message in OURS.findall(said):
            raise getattr(errors, name, RemoteStorageError)(message) from error
        (first, *_) = said.strip().splitlines() or [type(error).__name__]
        raise RemoteStorageError(f"Spark: {first}") from error


@contextmanager
def _shown(session: SparkSession, what: str, total: int | None) -> Iterator[None]:
    """Shows how many tasks are done, if somebody looks."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    with progress(what, total) as on_done:
        tracker = session.sparkContext.statusTracker()

        def follow() -> None:
            done: dict[int, int] = {}
            while not ended.wait(POLL_S):
                for stage in tracker.getActiveStageIds():
                    info = tracker.getStageInfo(stage)
                    now = 0 if info is None else info.numCompletedTasks
                    on_done(now - done.get(stage, 0))
                    done[stage] = now

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
