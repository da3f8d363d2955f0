"""What `tables` and `jobs` share: options, a session, files, and how they end.

A job is checked, planned and run in `session_of`; its files appear when they are complete.
`end` reports the result; logs that were left out count for more than findings.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

import typer

from tierledger.cli.commands.jobs.times import clock_ms
from tierledger.cli.complete_file import complete_file
from tierledger.cli.complete_file import require_place as require_file
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import note_ahead
from tierledger.cli.options import (
    AsOfOption,
    ClusterOption,
    ColumnsOption,
    JsonOption,
    OverwriteOption,
    PartitionOption,
    StoreOption,
    parse_as_of,
)
from tierledger.cli.output import print_json, print_note, progress
from tierledger.cli.settings import cluster_setting, columns_config
from tierledger.cli.table import (
    PrintedTable,
    WideOption,
    print_facts,
    print_table,
)
from tierledger.cli.topics import TopicOption
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import time_text
from tierledger.storage.locate import default_store_url

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tierledger.events.as_of import AsOf
    from tierledger.pipeline.digests import Digest
    from tierledger.pipeline.fold import PlannedLog
    from tierledger.pipeline.folding.plan import AheadLog
    from tierledger.pipeline.folding.store import JobStore
    from tierledger.pipeline.folding.task import DamagedLog
    from tierledger.pipeline.table_columns import PlainRow, Table
    from tierledger.pipeline.tables.plan import TablePlan
    from tierledger.pipeline.tables.writers import Write

OptionalDigest = TypeVar("OptionalDigest", bound="Digest | None")

FORMAT_NAMES = ("parquet", "csv", "json")

AUTO, LOCAL, SPARK = ENGINE_NAMES = ("auto", "local", "spark")
"""The engines that `--engine` accepts."""

SHOWN_MAX = 20
"""How many findings are printed; all are counted, and in the table and on the page."""

OutOption = Annotated[Path, typer.Option(metavar="DIR", help="Folder to write the table to.")]
OutIfAnyOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Also write all rows as a table into this folder."),
]
PageOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Also write the result as one page of HTML."),
]
FormatOption = Annotated[
    str,
    typer.Option(metavar="|".join(FORMAT_NAMES), help="Format of the table's files."),
]
EngineOption = Annotated[
    str,
    typer.Option(
        metavar="|".join(ENGINE_NAMES),
        help="Engine that does the work: this process, Spark, or the one that suits the "
        "store's size.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark's master URL, or sc://HOST:PORT of a Spark Connect server; by default "
        "local[*], all cores of this machine.",
    ),
]

SHARED_OPTIONS: Final[Mapping[str, tuple[object, object]]] = {
    "out": (OutIfAnyOption, None),
    "format": (FormatOption, "parquet"),
    "page": (PageOption, None),
    "as_of": (AsOfOption, None),
    "topic": (TopicOption, None),
    "partition": (PartitionOption, None),
    "engine": (EngineOption, AUTO),
    "master": (MasterOption, None),
    "overwrite": (OverwriteOption, False),
    "columns": (ColumnsOption, None),
    "store": (StoreOption, None),
    "cluster": (ClusterOption, None),
    "wide": (WideOption, False),
    "json": (JsonOption, False),
}
"""The options that all jobs share, by the fields of `Job`: each option and its default."""


def add_command(
    group: typer.Typer,
    name: str,
    run: Callable[..., None],
    *,
    about: str | None = None,
    description: str | None = None,
    without: Collection[str] = (),
) -> None:
    """Add the command `name`, which calls `run` with a `Job`.

    Args:
        group: The group to which the command is added.
        name: The name of the command, and of its job.
        run: Takes the job, then options of its own; these come before the shared ones.
        about: The line in the list of commands.
        description: Help, if it is not the docstring of `run`.
        without: Shared options that the command does not have.
    """
    own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(
            option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for option, (annotation, default) in SHARED_OPTIONS.items()
        if option not in without
    ]

    def command(**given: Any) -> None:  # noqa: ANN401 - What the signature below says.
        asked = {one.name: given.pop(one.name) for one in shared}
        as_of = parse_as_of(asked.pop("as_of", None))
        run(Job(name=name, as_of=as_of, **asked), **given)

    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    group.command(name, help=description or inspect.getdoc(run), short_help=about)(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A user's request for a job, as far as all jobs have it in common."""

    name: str
    """The command's name: `segments`, `coverage`."""
    store: str | None = None
    cluster: str | None = None
    columns: str | None = None
    as_of: AsOf | None = None
    topic: str | None = None
    partition: int | None = None
    engine: str = AUTO
    master: str | None = None
    out: Path | None = None
    format: str = "parquet"
    overwrite: bool = False
    page: Path | None = None
    wide: bool = False
    json: bool = False
    ahead: list[AheadLog] = field(default_factory=list)
    """Logs whose time is ahead of now; `planned` adds them, and the job's end tells of them."""

    def check(self) -> None:
        """Refuse options that make no sense, before anything starts."""
        if self.format not in FORMAT_NAMES:
            expected = ", ".join(FORMAT_NAMES)
            raise InvalidArgument(f"--format: expected one of {expected}; got {self.format!r}")
        if self.engine not in ENGINE_NAMES:
            expected = ", ".join(ENGINE_NAMES)
            raise InvalidArgument(f"--engine: expected one of {expected}; got {self.engine!r}")
        if self.engine == LOCAL and self.master is not None:
            raise InvalidArgument(
                f"--master: expected with Spark only, got {self.master!r} and --engine {LOCAL}"
            )
        require_file(self.page, overwrite=self.overwrite)
        if self.out is not None:
            from tierledger.pipeline.tables.files import require_place

            require_place(self.out, overwrite=self.overwrite)

    def job_store(self) -> JobStore:
        """The store of the job, in the form in which tasks open it."""
        from tierledger.pipeline.folding.store import JobStore
        from tierledger.storage.connector import URL_SETTING

        config = dict(columns_config(self.store, self.columns))
        if URL_SETTING not in config:
            config[URL_SETTING] = str(default_store_url())
        return JobStore.of(config, cluster_setting(self.cluster))

    def planned(self, table: str | Table) -> TablePlan:
        """A folded table of the chosen logs, up to their present ends; needs no Spark.

        Raises:
            InvalidArgument: There is no such table, or a position is given for several logs.
            RemoteResourceNotFound: There is no such cluster, topic or partition.
            StoreRefused: It is no store.
        """
        from tierledger.events.as_of import NOW
        from tierledger.pipeline.tables.plan import planned

        async def plan() -> TablePlan:
            made = await planned(
                table,
                self.job_store(),
                as_of=self.as_of or NOW,
                topic=self.topic,
                partition=self.partition,
            )
            self.ahead[:] = await made.ahead_logs(clock_ms())
            return made

        return asyncio.run(plan())


@dataclass(frozen=True, slots=True)
class TableResult(Generic[OptionalDigest]):
    """The result of an engine for a table."""

    engine: str
    digest: OptionalDigest
    """The digest, which took in all rows."""
    rows: int
    """How many rows were written."""
    damaged: list[DamagedLog]


def answered(job: Job, plan: TablePlan, digest: OptionalDigest) -> TableResult[OptionalDigest]:
    """Compute the planned table with the engine that suits; write it if a folder is given.

    Args:
        job: The user's request.
        plan: The table.
        digest: An empty one, which takes in the rows; none if they are only written.

    Raises:
        InvalidArgument: The folder cannot be written; or the engine misses an extra, or Java.
        RemoteStorageError: The store failed, or Spark.
    """
    if is_local(job, plan):
        return _answered_here(job, plan, digest)
    return _answered_by_spark(job, plan, digest)


def is_local(job: Job, plan: TablePlan) -> bool:
    """Whether this process computes the planned table."""
    from tierledger.pipeline.engine import is_small

    if job.engine != AUTO or job.master is not None:
        return job.engine == LOCAL
    return asyncio.run(is_small(plan.store, plan.logs))


def _answered_here(
    job: Job, plan: TablePlan, digest: OptionalDigest
) -> TableResult[OptionalDigest]:
    from tierledger.pipeline.engine import made_here

    counted = _counted(plan.logs, f"{job.name}: logs folded")
    with written_here(job, plan.table) as write, counted as logs:
        made = made_here(plan, logs, digest, write)
    return TableResult(LOCAL, made.digest, made.rows, made.damaged)


@contextmanager
def written_here(job: Job, table: Table) -> Iterator[Write | None]:
    """A function that writes chunks of `table` to the job's folder; none if it names none."""
    from tierledger.pipeline.tables.files import place
    from tierledger.pipeline.tables.writers import writing

    if job.out is None:
        yield None
        return
    with (
        place(job.out, overwrite=job.overwrite) as folder,
        writing(table, folder, job.format) as write,
    ):
        yield write


@contextmanager
def _counted(logs: Sequence[PlannedLog], what: str) -> Iterator[Iterable[PlannedLog]]:
    """`logs`; shows on a terminal how many of them were taken."""
    with progress(what, len(logs)) as on_done:

        def each() -> Iterator[PlannedLog]:
            for log in logs:
                yield log
                on_done(1)

        yield each()


def _answered_by_spark(
    job: Job, plan: TablePlan, digest: OptionalDigest
) -> TableResult[OptionalDigest]:
    with session_of(job) as session:
        # Imported here: the other commands and the local engine need no Spark.
        from tierledger.pipeline.frames import Damage, Digests, made, tasks_of
        from tierledger.pipeline.spark_files import make

        damage = Damage(session)
        digests = Digests(session, digest)
        frame = made(plan, session, damage, digests)
        tasks, rows = len(tasks_of(plan, session)), 0
        if job.out is not None:
            rows = write_table(session, job, frame, tasks)
        else:
            with shown(session, f"{job.name}: tasks done", tasks):
                make(frame)
        return TableResult(SPARK, digests.joined(), rows, damage.logs())


@contextmanager
def session_of(job: Job) -> Iterator[SparkSession]:
    """Spark while the block lasts; its failures become errors of ours, each in one line.

    Raises:
        InvalidArgument: Java or pandas is missing, or of a version that does not work.
        RemoteStorageError: A task failed; its class is the one that the task raised.
    """
    from tierledger.pipeline.session import own_session

    with own_session(f"tierledger {job.name}", job.master) as session:
        yield session


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """`frame`, computed only once while the block lasts."""
    held = frame.persist()
    try:
        yield held
    finally:
        held.unpersist()


def write_table(session: SparkSession, job: Job, frame: DataFrame, tasks: int | None) -> int:
    """Write `frame` to the job's folder, with progress; returns the number of rows.

    Args:
        session: The session of the frame.
        job: Its `out` is given.
        frame: The rows.
        tasks: The number of tasks, if known.
    """
    from tierledger.pipeline.spark_files import write
    from tierledger.pipeline.tables.files import place

    assert job.out is not None, "asked to write nowhere"
    with (
        place(job.out, overwrite=job.overwrite) as folder,
        shown(session, f"{job.name}: tasks done", tasks),
    ):
        return write(frame, folder, job.format)


def write_page(
    job: Job,
    template: str,
    facts: Mapping[str, object],
    damaged: Sequence[DamagedLog],
    content: Callable[[], Mapping[str, object]],
) -> None:
    """Write the job's page, if one is asked for; it appears when it is complete.

    Args:
        job: The user's request.
        template: The page's template, which extends `job.html`.
        facts: What is at the top of the page, by name.
        damaged: Logs that were left out.
        content: Makes what the template shows beside these.
    """
    if job.page is None:
        return
    from tierledger.cli.pages.stamp import stamp_of
    from tierledger.pages.environment import render

    shown = {"stamp": stamp_of(job.store), "facts": facts, "damaged": damaged}
    with complete_file(job.page, overwrite=job.overwrite) as file:
        file.write(render(template, **shown, **content()).encode())


@contextmanager
def shown(session: SparkSession, what: str, total: int | None) -> Iterator[None]:
    """Show on a terminal how many tasks are done."""
    if not sys.stderr.isatty():
        yield
        return
    from tierledger.pipeline.spark_tasks import followed

    with progress(what, total) as on_done, followed(session, on_done):
        yield


def end(
    job: Job,
    facts: Mapping[str, object],
    *,
    spare: Sequence[str],
    worst: Sequence[PlainRow],
    cells: Callable[[PlainRow], Mapping[str, object]],
    found: int = 0,
    damaged: Sequence[DamagedLog] = (),
    not_seen: Sequence[str] | None = None,
) -> None:
    """Print the result of a job, and exit with the status that belongs to it.

    Args:
        job: The user's request.
        facts: The result in a few numbers, by name.
        spare: Those to leave out where the terminal is too narrow, the first one first.
        worst: Findings, the worst first; `SHOWN_MAX` of them are printed, as JSON with the
            names of the table's columns.
        cells: What a person is shown of a finding, by the name of its column.
        found: The number of findings; any makes the status 1.
        damaged: Logs that were left out; any makes the status 3, whatever else was found.
        not_seen: What could not be listed; any makes the status 3, too. None: nothing is.
    """
    if job.json:
        numbers = {name.replace(" ", "_"): fact for name, fact in facts.items()}
        result: dict[str, object] = {"job": job.name, **numbers, "findings": found}
        result |= {"worst": list(worst[:SHOWN_MAX])}
        result |= {"out": str(job.out)} if job.out is not None else {}
        result |= {"page": str(job.page)} if job.page is not None else {}
        result |= {"not_seen": list(not_seen)} if not_seen is not None else {}
        result |= {"ahead": [one._asdict() for one in job.ahead]}
        print_json({**result, "damaged": [one._asdict() for one in damaged]})
    else:
        if worst:
            rows = [cells(row) for row in worst[:SHOWN_MAX]]
            print_table(PrintedTable.of(rows, spare), wide=job.wide)
        print_facts(facts)
    left = max(found, len(worst)) - min(len(worst), SHOWN_MAX)
    if left > 0:
        print_note(f"{left} more are not shown here; --out and --page have them")
    report_ahead(job)
    report_damage(damaged)
    for reason in (not_seen or ())[:SHOWN_MAX]:
        print_note(f"could not be listed: {reason}")
    if damaged or not_seen:
        raise typer.Exit(ExitStatus.PARTLY)
    if found:
        raise typer.Exit(ExitStatus.FOUND)


def as_of_fact(job: Job) -> dict[str, str]:
    """The point in the logs that was asked for, as a page shows it; nothing if it is now."""
    if job.as_of is None:
        return {}
    at_ms = job.as_of.time_ms
    return {"as of": f"position {job.as_of.position}" if at_ms is None else time_text(at_ms)}


def report_ahead(job: Job) -> None:
    """Name the logs whose time is ahead of now, on standard error."""
    for one in job.ahead[:SHOWN_MAX]:
        note_ahead(f"{one.topic}-{one.partition}", one.log_time_ahead_ms)
    if len(job.ahead) > SHOWN_MAX:
        print_note(f"{len(job.ahead) - SHOWN_MAX} more logs are ahead of now; --json has them")


def report_damage(damaged: Sequence[DamagedLog]) -> None:
    """Name the logs that were left out, on standard error."""
    for one in damaged:
        print_note(f"{one.name} is left out from position {one.position} on: {one.message}")
