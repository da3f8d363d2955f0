"""`spark audit`: the metadata, held against what lies in the tier."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.options import (
    ClusterOption,
    JsonOption,
    OverwriteOption,
    StoreOption,
)
from tierledger.cli.output import progress, time_text
from tierledger.cli.spark_job import (
    FormatOption,
    Job,
    MasterOption,
    OutIfAnyOption,
    PageOption,
    end,
    session_of,
    shown,
    write_page,
    write_table,
)
from tierledger.cli.spark_time import NOW_HELP, clock_ms, duration_ms, stated_time_ms
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from pyspark.sql import SparkSession

    from tierledger.pipeline.job_audit_run import Audit, Listed, Lister
    from tierledger.tiering.object_store import ObjectStore

DEFAULT_AGE = "1d"
"""No copy takes that long, and no clocks are that far apart."""

ROWS_MAX = 500
"""Findings that are printed or drawn, the worst; the table has all."""

COLUMNS = ("kind", "place", "objects", "bytes", "expected", "detail")


TierOption = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Where the segments are: dir:DIR, s3://BUCKET/PREFIX, manifest:URL or "
        "local-tiered:DIR.",
    ),
]
ListingOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Do not ask the store what is there, read it: CSV with a heading, or Parquet, "
        "with path, size, last_modified.",
    ),
]
ListedAtOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="When that listing was begun; else when its newest object was written.",
    ),
]
OlderThanOption = Annotated[
    str, typer.Option(metavar="TIME", help="How old an orphan is at least: 12h, 7d.")
]


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("audit", short_help="what is missing in the tier, and what is too much")(
        audit
    )


def audit(
    tier: TierOption,
    listing: ListingOption = None,
    listed_at: ListedAtOption = None,
    older_than: OlderThanOption = DEFAULT_AGE,
    now: Annotated[str | None, typer.Option(metavar="TIME", help=NOW_HELP)] = None,
    out: OutIfAnyOption = None,
    format: FormatOption = "parquet",  # noqa: A002 - The option's name.
    page: PageOption = None,
    master: MasterOption = None,
    overwrite: OverwriteOption = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Find objects that are missing in the tier, damaged sets, and objects that are nobody's.

    It deletes nothing. Exit code 1: something was found. 3: logs are damaged, named, and
    nothing is said of their partitions.
    """
    job = Job(
        name="audit",
        store=store,
        cluster=cluster,
        master=master,
        out=out,
        format=format,
        overwrite=overwrite,
        page=page,
        json=json,
    )
    job.check()
    age_ms = duration_ms(older_than, "--older-than")
    then_ms = stated_time_ms(now, "--now")
    at_ms = stated_time_ms(listed_at, "--listed-at")
    if at_ms is not None and listing is None:
        raise InvalidArgument("--listed-at: expected with --listing only")
    now_ms = clock_ms() if then_ms is None else then_ms
    _run(job, tier, (listing, at_ms), (now_ms, age_ms))


def _run(
    job: Job, tier: str, inventory: tuple[str | None, int | None], times: tuple[int, int]
) -> None:
    # Spark is imported only here: the other commands start without it.
    from tierledger.pipeline.fold_store import require_cluster
    from tierledger.pipeline.job_audit_run import audit as audited
    from tierledger.pipeline.listing import require_inventory
    from tierledger.tiering.listed_objects import names_of
    from tierledger.tiering.tier_url import open_store, parse

    url = parse(tier)
    names = names_of(url.layout, url.prefix)
    now_ms, age_ms = times
    place, at_ms = inventory
    # What is not there is told before Spark starts, which takes seconds.
    store = asyncio.run(require_cluster(job.job_store()))
    objects = open_store(url) if place is None else None
    if place is not None:
        require_inventory(place)
    with TemporaryDirectory(prefix="tierledger-audit-") as scratch, session_of(job) as session:
        lister: Lister
        if objects is not None:
            file = Path(scratch) / "listing.parquet"
            lister = _asking(session, objects, names.folder, file)
        else:
            lister = _reading(session, place or "", at_ms, age_ms)
        with audited(session, store, names, lister, now_ms - age_ms) as made:
            _report(job, session, made, {"tier": url.shown, "now": time_text(now_ms)})


def _asking(
    session: SparkSession, store: ObjectStore, folder: str, file: Path
) -> Callable[[], Listed]:
    from tierledger.pipeline.job_audit_run import Listed
    from tierledger.pipeline.listing import write_listing, written_listing

    def run() -> Listed:
        with _counted("audit: objects listed") as on_listed:
            asyncio.run(write_listing(store, folder, file, on_listed))
        return Listed(written_listing(session, file))

    return run


def _reading(
    session: SparkSession, place: str, at_ms: int | None, age_ms: int
) -> Callable[[], Listed]:
    from tierledger.pipeline.job_audit_run import Listed
    from tierledger.pipeline.listing import read_inventory, totals

    def run() -> Listed:
        rows = read_inventory(session, place)
        begun_ms = totals(rows).newest_ms if at_ms is None else at_ms
        # Clocks differ, and a list takes its time.
        return Listed(rows, 0 if begun_ms is None else begun_ms - age_ms)

    return run


@contextmanager
def _counted(what: str) -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with progress(what, None) as on_done:
        yield on_done


def _report(job: Job, session: SparkSession, made: Audit, facts: dict[str, object]) -> None:
    from tierledger.cli.spark_page_audit import audit_page
    from tierledger.pipeline.job_audit import listed, totals_by_kind, worst
    from tierledger.pipeline.job_audit_kinds import FINDINGS

    with shown(session, "audit: tasks done", None):
        totals = totals_by_kind(made.rows)
        rows: list[dict[str, Any]] = [row.asDict() for row in worst(made.rows, ROWS_MAX)]
    if job.out is not None:
        write_table(session, job, listed(made.rows), None)
    facts = {"cluster": made.cluster, **facts}
    if job.page is not None:
        write_page(job, audit_page(facts, totals, rows, made))
    end(
        job,
        {
            **facts,
            "partitions": made.partitions,
            "objects": made.listed.objects,
            "bytes": made.listed.size_in_bytes,
            **{kind.value: total.rows for kind, total in totals.items()},
        },
        columns=COLUMNS,
        worst=[
            [
                row["kind"],
                row["place"] or row["segment_id"],
                row["objects"],
                row["size_in_bytes"],
                row["expected_bytes"],
                row["detail"],
            ]
            for row in rows
        ],
        found=sum(totals[kind].rows for kind in FINDINGS),
        damaged=made.damaged,
    )
