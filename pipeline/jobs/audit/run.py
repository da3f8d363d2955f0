"""A whole audit by Spark, in the order that makes its verdicts true.

`kinds` gives the order and the reasons for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from pyspark import StorageLevel

from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.jobs.audit.job import (
    FOUND_SCHEMA,
    DigestTask,
    audited,
    parsed_names,
    standings_of,
)
from tierledger.pipeline.jobs.audit.rows import Audit, AuditDigest, Judge
from tierledger.pipeline.jobs.audit.segments import Settled, ends_of, segments_table
from tierledger.pipeline.listing import totals
from tierledger.pipeline.spark_files import make
from tierledger.pipeline.tables.frames import Damage, Digests, made, reported
from tierledger.pipeline.tables.plan import planned
from tierledger.tiering.layouts.listed_objects import LayoutNames
from tierledger.tiering.objects.directory import Unseen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")


class Listed(NamedTuple):
    """A list of the tier's objects."""

    rows: DataFrame
    unseen: Sequence[Unseen] = ()
    """What the list lacks."""
    before_ms: int | None = None
    """For a list made earlier: log time (ms) from which changes may be missing in it."""


Lister: TypeAlias = "Callable[[], Listed]"
"""Lists the tier when it is called and not before, or returns a list that was made earlier."""


class SparkAudit(NamedTuple):
    """The findings of an audit, persisted while it is open."""

    rows: DataFrame
    """Every segment and object, in one row of its kind."""

    result: Callable[[], Audit]
    """Computes all rows and returns their digest."""


@contextmanager
def audit(
    spark: SparkSession,
    store: JobStore,
    names: LayoutNames,
    lister: Lister,
    orphans_before_ms: int,
    digest: AuditDigest,
) -> Iterator[SparkAudit]:
    """Audit the tier; its rows are persisted while the block lasts.

    Args:
        spark: The session that runs the audit.
        store: The store with the logs.
        names: How the tier names its objects.
        lister: Called between the two readings of the logs' ends.
        orphans_before_ms: Only objects written before this time may be orphans.
        digest: An empty digest, which takes every row.

    Raises:
        InvalidArgument: The store holds several clusters and none was named, or the list has
            invalid rows.
        RemoteResourceNotFound: The store does not hold the named cluster.
        StoreRefused: The URL does not lead to a store.
    """
    first = _run(planned(segments_table(names, Settled()), store))
    ends = _run(ends_of(first))
    found = lister()
    parsed = parsed_names(found.rows, names).persist(StorageLevel.DISK_ONLY)
    try:
        counted = totals(parsed)
        settled = Settled(ends) if found.before_ms is None else Settled({}, found.before_ms)
        second = _run(planned(segments_table(names, settled), first.store))
        damage = Damage(spark)
        segments = made(second, spark, damage).persist(StorageLevel.DISK_ONLY)
        try:
            standings = standings_of(second.logs, segments)
            cluster = second.store.cluster or ""
            judge = Judge(cluster, standings, orphans_before_ms, found.unseen)
            found_rows = audited(segments, parsed, judge, cluster)
            digests = Digests(spark, digest)
            digested = reported(found_rows, DigestTask(digest), FOUND_SCHEMA, [digests])
            rows = digested.persist()

            def result() -> Audit:
                make(rows)
                taken = digests.joined()
                logs = damage.logs()
                return Audit(cluster, len(second.logs), counted, taken, logs, found.unseen)

            try:
                yield SparkAudit(rows, result)
            finally:
                rows.unpersist()
        finally:
            segments.unpersist()
    finally:
        parsed.unpersist()


def _run(coming: Coroutine[None, None, Result]) -> Result:
    # In a notebook this thread already runs an event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coming).result()
