"""`spark coverage`: what of each partition the tier holds: once, twice, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.cli.options import (
    AsOfOption,
    ClusterOption,
    JsonOption,
    OverwriteOption,
    StoreOption,
    parse_as_of,
)
from tierledger.cli.spark_job import (
    SHOWN_MAX,
    FormatOption,
    Job,
    MasterOption,
    OutIfAnyOption,
    PageOption,
    PartitionOption,
    TopicOption,
    as_of_fact,
    end,
    kept,
    session_of,
    shown,
    write_page,
    write_table,
)

if TYPE_CHECKING:
    import typer
    from pyspark.sql import DataFrame, SparkSession

    from tierledger.pipeline.fold_task import DamagedLog
    from tierledger.pipeline.tables import TablePlan

PARTITIONS_DRAWN_MAX = 200
"""Partitions on the page, the worst first; the rest is counted."""

ROWS_DRAWN_MAX = 100_000
"""Ranges on the page: at about 150 bytes each, what a browser still shows at once."""

COLUMNS = ("partition", "kind", "epoch", "start", "end", "segments", "bytes")


class Totals(NamedTuple):
    """What there is of one kind."""

    rows: int = 0
    offsets: int = 0
    size: int = 0


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("coverage", short_help="what of each partition the tier holds")(coverage)


def coverage(
    out: OutIfAnyOption = None,
    format: FormatOption = "parquet",  # noqa: A002 - The option's name.
    page: PageOption = None,
    as_of: AsOfOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    master: MasterOption = None,
    overwrite: OverwriteOption = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Find holes, orphaned epochs and overlaps in what the tier holds of each partition.

    Exit code 1: there are holes or orphaned epochs. 3: logs are damaged, named and left out.
    """
    job = Job(
        name="coverage",
        store=store,
        cluster=cluster,
        as_of=parse_as_of(as_of),
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
    _run(job)


def _run(job: Job) -> None:
    # Spark is imported only here: the other commands start without it.
    from tierledger.pipeline.coverage_rules import FINDINGS
    from tierledger.pipeline.job_coverage import COVERAGE

    plan = job.planned(COVERAGE)
    with session_of(job) as session:
        found = _found(session, plan, job)
    of = found.totals
    end(
        job,
        {
            "partitions": len(plan.logs),
            "covered offsets": of["covered"].offsets,
            "covered bytes": of["covered"].size,
            "holes": of["hole"].rows,
            "hole offsets": of["hole"].offsets,
            "orphaned ranges": of["orphaned_epoch"].rows,
            "orphaned bytes": of["orphaned_epoch"].size,
            "overlaps": of["overlap"].rows,
            "overlap bytes": of["overlap"].size,
            "unfinished": of["unfinished"].rows,
            "unfinished bytes": of["unfinished"].size,
        },
        columns=COLUMNS,
        worst=found.worst,
        found=sum(of[kind].rows for kind in FINDINGS),
        damaged=found.damaged,
    )


class Found(NamedTuple):
    """What the job found, as far as it is shown."""

    totals: dict[str, Totals]
    """By kind."""
    worst: list[list[object]]
    damaged: list[DamagedLog]


def _found(session: SparkSession, plan: TablePlan, job: Job) -> Found:
    from tierledger.pipeline.tables import Damage

    damage = Damage(session)
    tasks = len(plan.tasks(session))
    with kept(plan.made(session, damage)) as frame:
        if job.out is not None:
            write_table(session, job, frame, tasks)
        with shown(session, "coverage: tasks done", tasks):
            totals = _totals(frame)
            worst = _worst(frame)
            if job.page is not None:
                _draw(job, plan, frame, totals, damage.logs())
    return Found(totals, worst, damage.logs())


def _offsets(frame: DataFrame) -> Any:  # noqa: ANN401 - Spark's columns.
    """How many offsets a row is about; wider than an offset, which this may exceed."""
    wide = "decimal(38,0)"
    return frame["end_offset"].cast(wide) - frame["start_offset"].cast(wide) + 1


def _totals(frame: DataFrame) -> dict[str, Totals]:
    from pyspark.sql import functions as sql

    from tierledger.pipeline.coverage_rules import CoverageKind

    by_kind = frame.groupBy("kind").agg(
        sql.count(sql.lit(1)),
        sql.sum(_offsets(frame)),
        sql.sum(frame["size_in_bytes"].cast("decimal(38,0)")),
    )
    found = {kind: Totals(*map(int, numbers)) for kind, *numbers in by_kind.collect()}
    return {kind: found.get(kind, Totals()) for kind in map(str, CoverageKind)}


def _worst(frame: DataFrame) -> list[list[object]]:
    """Findings to print: holes before orphans, the longest first."""
    from pyspark.sql import functions as sql

    from tierledger.pipeline.coverage_rules import FINDINGS

    findings = frame.where(frame["kind"].isin([str(kind) for kind in FINDINGS]))
    some = findings.orderBy(
        sql.col("kind"),
        _offsets(frame).desc(),
        "topic",
        "topic_id",
        "partition",
        "start_offset",
    ).limit(SHOWN_MAX)
    return [
        [
            f"{row.topic}-{row.partition}",
            row.kind,
            row.leader_epoch,
            row.start_offset,
            row.end_offset,
            row.segments,
            row.size_in_bytes,
        ]
        for row in some.collect()
    ]


def _draw(
    job: Job,
    plan: TablePlan,
    frame: DataFrame,
    totals: dict[str, Totals],
    damaged: list[DamagedLog],
) -> None:
    from pyspark.sql import functions as sql

    from tierledger.cli.spark_page_coverage import coverage_page

    identity = ["topic", "topic_id", "partition"]

    def offsets_of(kind: str) -> Any:  # noqa: ANN401 - Spark's columns.
        return sql.sum(sql.when(frame["kind"] == kind, _offsets(frame)).otherwise(0))

    ranks = [offsets_of(kind).alias(kind) for kind in ("hole", "orphaned_epoch", "overlap")]
    order = [sql.desc("hole"), sql.desc("orphaned_epoch"), sql.desc("overlap")]
    per_partition = frame.groupBy(*identity).agg(*ranks)
    drawn = per_partition.orderBy(*order, *identity).limit(PARTITIONS_DRAWN_MAX)
    ranked = [(row.topic, row.topic_id, row.partition) for row in drawn.collect()]
    partitions = per_partition.count() if len(ranked) == PARTITIONS_DRAWN_MAX else len(ranked)
    rows = frame.join(sql.broadcast(drawn.select("topic_id", "partition")), identity[1:])
    some = [row.asDict() for row in rows.orderBy("kind").limit(ROWS_DRAWN_MAX).collect()]
    facts = {
        "cluster": plan.store.cluster or "",
        "partitions": f"{len(plan.logs)}, of which {partitions} have segments",
    }
    facts |= as_of_fact(job)
    write_page(job, coverage_page(facts, totals, ranked, some, partitions, damaged))
