"""`jobs audit`: the metadata compared with the objects in the tier."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tierledger.cli.commands.jobs.job import (
    LOCAL,
    SHOWN_MAX,
    SPARK,
    Job,
    end,
    is_local,
    session_of,
    shown,
    write_page,
    write_table,
    written_here,
)
from tierledger.cli.commands.jobs.times import NowOption, clock_ms, stated_time_ms
from tierledger.cli.given_file import is_standard_input, readable
from tierledger.cli.options import TierOption, duration_ms
from tierledger.cli.output import print_note, progress
from tierledger.cli.table import BRIEF_ID, Cell, size_cell, state_cell
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import time_text
from tierledger.pages.texts import many, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tierledger.pipeline.folding.store import JobStore
    from tierledger.pipeline.inventory import Seen
    from tierledger.pipeline.jobs.audit.here import Listed
    from tierledger.pipeline.jobs.audit.rows import Audit, AuditDigest
    from tierledger.pipeline.table_columns import PlainRow
    from tierledger.pipeline.tables.plan import TablePlan
    from tierledger.tiering.layouts.listed_objects import LayoutNames
    from tierledger.tiering.objects.directory import Unseen
    from tierledger.tiering.objects.store import ObjectStore

DEFAULT_AGE = "1d"
"""Longer than any copy takes, and than clocks differ."""

ROWS_MAX = 1000
"""How many findings are printed or drawn, the worst; the table has all."""

SPARE = ("objects", "expected", "bytes")


ListingOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Read the list of objects from this file instead of listing the tier: CSV with "
        "a heading, or Parquet, with path, size, last_modified; - is standard input.",
    ),
]
ListedAtOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time at which the list in --listing was begun; by default the time at which "
        "its newest object was written.",
    ),
]
OlderThanOption = Annotated[
    str, typer.Option(metavar="TIME", help="Minimum age of an orphan, for example 12h or 7d.")
]


def audit(
    job: Job,
    tier: TierOption,
    listing: ListingOption = None,
    listed_at: ListedAtOption = None,
    older_than: OlderThanOption = DEFAULT_AGE,
    now: NowOption = None,
) -> None:
    """Find objects that are missing in the tier, damaged sets, and objects that no log knows.

    The command deletes nothing. Exit code 1: something was found. 3: some logs are damaged, or
    some of the tier could not be listed; both are named, and what they concern is not judged.
    """
    from tierledger.pipeline.inventory import require_inventory
    from tierledger.pipeline.jobs.audit.segments import Settled, segments_table
    from tierledger.tiering.layouts.listed_objects import names_of
    from tierledger.tiering.layouts.tier_url import open_store, parse

    job.check()
    age_ms = duration_ms(older_than, "--older-than")
    then_ms = stated_time_ms(now, "--now")
    at_ms = stated_time_ms(listed_at, "--listed-at")
    if at_ms is not None and listing is None:
        raise InvalidArgument("--listed-at: expected with --listing only")
    now_ms = clock_ms() if then_ms is None else then_ms
    if listing is not None and is_standard_input(listing):
        listing = str(readable(Path(listing), "csv"))
    url = parse(tier)
    names = names_of(url.layout, url.prefix)
    # Errors of the store are reported before Spark starts, which takes seconds.
    plan = job.planned(segments_table(names, Settled()))
    objects = open_store(url) if listing is None else None
    if listing is not None:
        require_inventory(listing)
    facts = {"tier": url.shown, "now": time_text(now_ms)}
    asked = _AuditRequest(names, objects, listing or "", at_ms, now_ms - age_ms, age_ms)
    _run(job, plan, asked, facts)


def _run(job: Job, plan: TablePlan, asked: _AuditRequest, facts: Mapping[str, object]) -> None:
    """Audit in this process, or with Spark if there is too much for it; then report."""
    from tierledger.pipeline.jobs.audit.here import OBJECTS_MAX
    from tierledger.pipeline.jobs.audit.rows import AuditDigest

    is_away = "://" in asked.inventory
    if is_away and job.engine == LOCAL:
        raise InvalidArgument(
            f"--listing: expected a file with --engine {LOCAL}, got {asked.inventory}"
        )
    if not is_away and is_local(job, plan):
        made = _audited_here(job, plan, asked, AuditDigest(ROWS_MAX))
        if made is not None:
            _report(job, LOCAL, made, facts)
            return
        many = f"the tier has more than {OBJECTS_MAX} objects"
        if job.engine == LOCAL:
            raise InvalidArgument(f"--engine: expected {SPARK}, as {many}; got {LOCAL}")
        print_note(f"{many}: Spark takes over")
    made = _audited_by_spark(job, plan.store, asked, AuditDigest(ROWS_MAX))
    _report(job, SPARK, made, facts)


class _AuditRequest(NamedTuple):
    """What to audit."""

    names: LayoutNames
    objects: ObjectStore | None
    """The store that is asked for its objects; none if an inventory lists them."""
    inventory: str
    """The place of the inventory; empty without one."""
    begun_ms: int | None
    """When the inventory's list was begun; None: its newest object tells."""
    orphans_before_ms: int
    age_ms: int

    def before_ms(self, newest_ms: int | None) -> int:
        """Up to when logs are compared with the inventory, whose newest object is given."""
        begun_ms = newest_ms if self.begun_ms is None else self.begun_ms
        # Clocks differ, and making a list takes time.
        return 0 if begun_ms is None else begun_ms - self.age_ms


def _audited_here(
    job: Job, plan: TablePlan, asked: _AuditRequest, digest: AuditDigest
) -> Audit | None:
    """The audit by this process; none if there are too many objects for it."""
    from tierledger.pipeline.inventory import listed_objects, read_inventory, totals
    from tierledger.pipeline.jobs.audit.here import OBJECTS_MAX, Listed, audited_here
    from tierledger.pipeline.jobs.audit.rows import FOUND

    def lister() -> Listed[Sequence[Seen]] | None:
        if asked.objects is None:
            found = read_inventory(asked.inventory, OBJECTS_MAX)
            if found is None:
                return None
            return Listed(found, (), asked.before_ms(totals(found).newest_ms))
        unseen: list[Unseen] = []
        with progress("audit: objects listed") as on_listed:
            coming = listed_objects(
                asked.objects, asked.names.folder, OBJECTS_MAX, on_listed, unseen.append
            )
            found = asyncio.run(coming)
        return None if found is None else Listed(found, unseen)

    writing = written_here(job, FOUND)
    return audited_here(plan, asked.names, lister, asked.orphans_before_ms, digest, writing)


def _audited_by_spark(
    job: Job, store: JobStore, asked: _AuditRequest, digest: AuditDigest
) -> Audit:
    # Imported here: the other commands and the local engine need no Spark.
    with TemporaryDirectory(prefix="tierledger-audit-") as scratch, session_of(job) as session:
        from tierledger.pipeline.jobs.audit.job import audit as audited
        from tierledger.pipeline.jobs.audit.job import listed

        lister = _lister(session, asked, Path(scratch) / "listing.parquet")
        before_ms = asked.orphans_before_ms
        with audited(session, store, asked.names, lister, before_ms, digest) as made:
            with shown(session, "audit: tasks done", None):
                result = made.result()
            if job.out is not None:
                write_table(session, job, listed(made.rows), None)
            return result


def _lister(
    session: SparkSession, asked: _AuditRequest, file: Path
) -> Callable[[], Listed[DataFrame]]:
    from tierledger.pipeline.jobs.audit.here import Listed
    from tierledger.pipeline.listing import (
        read_inventory,
        totals,
        write_listing,
        written_listing,
    )

    def run() -> Listed[DataFrame]:
        if asked.objects is None:
            rows = read_inventory(session, asked.inventory)
            return Listed(rows, (), asked.before_ms(totals(rows).newest_ms))
        unseen: list[Unseen] = []
        with progress("audit: objects listed") as on_listed:
            coming = write_listing(
                asked.objects, asked.names.folder, file, on_listed, unseen.append
            )
            asyncio.run(coming)
        return Listed(written_listing(session, file), unseen)

    return run


def _cells(row: PlainRow) -> dict[str, object]:
    found, expected = (
        None if size is None else size_cell(size)
        for size in (row["size_in_bytes"], row["expected_bytes"])
    )
    place = row["place"] or row["segment_id"]
    if row["segment_id"] is not None:
        partition = f"{row['topic'] or row['topic_id']}-{row['partition']}"
        place = Cell(place, place, f"{partition} {row['segment_id'][:BRIEF_ID]}")
    return {
        "kind": state_cell(row["kind"]),
        "place": place,
        "objects": row["objects"],
        "bytes": found,
        "expected": expected,
        "detail": row["detail"],
    }


def _report(job: Job, engine: str, made: Audit, facts: Mapping[str, object]) -> None:
    from tierledger.cli.pages.jobs.audit import audit_content
    from tierledger.pipeline.jobs.audit.kinds import FINDINGS, AuditKind
    from tierledger.tiering.layouts.listed_objects import nothing_whole

    totals, rows = made.digest.totals, made.digest.worst()
    lacking = totals[AuditKind.MISSING_OBJECT].rows
    if lacking and not totals[AuditKind.WHOLE].rows:
        print_note(nothing_whole(lacking))
    facts = {"cluster": made.cluster, **facts}
    not_seen = [one.reason for one in made.unseen]
    shown = {"not seen": "; ".join(not_seen[:SHOWN_MAX])} if not_seen else {}
    objects, size = many(made.listed.objects, "object"), size_text(made.listed.size_in_bytes)
    head = {
        **facts,
        **shown,
        "engine": engine,
        "listed": f"{objects}, {size}",
        "partitions": made.partitions,
    }
    write_page(job, "audit.html", head, made.damaged, lambda: audit_content(made.digest))
    end(
        job,
        {
            **facts,
            **({} if job.json else shown),
            "partitions": made.partitions,
            "objects": made.listed.objects,
            "bytes": made.listed.size_in_bytes,
            **{kind.value: total.rows for kind, total in totals.items()},
        },
        spare=SPARE,
        worst=rows,
        cells=_cells,
        found=sum(totals[kind].rows for kind in FINDINGS),
        damaged=made.damaged,
        not_seen=not_seen,
    )
