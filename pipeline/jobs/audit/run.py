"""An audit from beginning to end, in the one order that makes its verdicts true.

The order, and why, is told in `kinds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from pyspark import StorageLevel

from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.jobs.audit.job import DigestTask, audited, parsed_names, standings_of
from tierledger.pipeline.jobs.audit.rows import Audit, AuditDigest
from tierledger.pipeline.jobs.audit.segments import Settled, ends_of, segments_table
from tierledger.pipeline.listing import totals
from tierledger.pipeline.spark_files import make
from tierledger.pipeline.tables.frames import Damage, Digests, made
from tierledger.pipeline.tables.plan import planned
from tierledger.tiering.layouts.listed_objects import LayoutNames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")


class Listed(NamedTuple):
    """A list of what lies in the tier."""

    rows: DataFrame
    before_ms: int | None = None
    """Of a list that was made earlier: what the logs say from then on may not be in it."""


Lister: TypeAlias = "Callable[[], Listed]"
"""Makes the list, when it is called and not before; or finds the one that somebody made."""


class SparkAudit(NamedTuple):
    """What an audit found, kept while it is open."""

    rows: DataFrame
    """Every segment and object, in one row of its kind."""

    result: Callable[[], Audit]
    """Makes all rows, and tells of them."""


@contextmanager
def audit(
    spark: SparkSession,
    store: JobStore,
    names: LayoutNames,
    lister: Lister,
    orphans_before_ms: int,
    digest: AuditDigest,
) -> Iterator[SparkAudit]:
    """Audit the tier; what was found is kept while the block lasts.

    Args:
        spark: Where it is done.
        store: The metadata.
        names: How the tier names its objects.
        lister: Called between the two looks at where the logs end.
        orphans_before_ms: What was written before this may be called an orphan.
        digest: An empty one, which takes every row.

    Raises:
        InvalidArgument: Several clusters and none named; the list has rows that cannot be.
        RemoteResourceNotFound: There is no such cluster.
        StoreRefused: It is no store.
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
            of = (cluster, standings)
            found_rows = audited(segments, parsed, of, orphans_before_ms)
            digests = Digests(spark, digest)
            rows = found_rows.mapInArrow(DigestTask(digests), found_rows.schema).persist()

            def result() -> Audit:
                make(rows)
                taken = digests.joined()
                return Audit(cluster, len(second.logs), counted, taken, damage.logs())

            try:
                yield SparkAudit(rows, result)
            finally:
                rows.unpersist()
        finally:
            segments.unpersist()
    finally:
        parsed.unpersist()


def _run(coming: Coroutine[None, None, Result]) -> Result:
    # A notebook has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coming).result()
