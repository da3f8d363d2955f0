"""A whole audit by Spark: it compares the logs with a list of the tier's objects.

It deletes nothing. `kinds` gives the order of its steps and the reasons for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.frames import Damage, Digests, Report, made, reported
from tierledger.pipeline.inventory import Seen
from tierledger.pipeline.jobs.audit.here import Listed, second_plan, standings_of
from tierledger.pipeline.jobs.audit.kinds import KnownSegment
from tierledger.pipeline.jobs.audit.rows import (
    FOUND,
    LISTED_KINDS,
    Audit,
    AuditDigest,
    Evidence,
    Judge,
    SegmentKey,
    known_segment,
    told_by_object,
)
from tierledger.pipeline.jobs.audit.segments import (
    DAMAGED,
    SEGMENT,
    LogKey,
    Settled,
    segments_table,
)
from tierledger.pipeline.listing import totals
from tierledger.pipeline.spark_files import make
from tierledger.pipeline.table_columns import ROWS_PER_CHUNK
from tierledger.pipeline.tables.arrow import schema_of
from tierledger.pipeline.tables.plan import planned
from tierledger.tiering.layouts.listed_objects import LayoutNames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Arrow's types are not annotated; `Any` stops at these lines.
RecordBatch: TypeAlias = Any
_Row: TypeAlias = dict[str, Any]

Result = TypeVar("Result")

_KEY = SegmentKey._fields
FOUND_SCHEMA = schema_of(FOUND)

PARSED = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("last_modified_ms", pa.int64()),
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("segment_id", pa.string()),
        pa.field("role", pa.string()),
        pa.field("place", pa.string()),
        pa.field("is_below_prefix", pa.bool_()),
    ]
)
"""A list of objects with their parsed names; nulls where a name is not this tier's.

An inventory may have null paths and sizes; `listing.totals` refuses it."""


class ParseTask:
    """Turns rows of a list into rows of `PARSED`; for `mapInArrow`."""

    def __init__(self, names: LayoutNames) -> None:
        self._names = names

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            given = batch.select(list(Seen._fields)).to_pylist()
            evidence = [told_by_object(Seen(**one), self._names) for one in given]
            yield pa.RecordBatch.from_pylist([_parsed(one) for one in evidence], PARSED)


def _parsed(one: Evidence) -> _Row:
    if one.key is None:
        return one.seen._asdict()
    return (
        one.seen._asdict()
        | one.key._asdict()
        | {
            "role": one.role,
            "place": one.place,
            "is_below_prefix": one.is_below_prefix,
        }
    )


class JudgeTask:
    """Turns evidence, those of a segment id together, into rows of `FOUND`; for `reported`."""

    def __init__(self, judge: Judge, empty: AuditDigest) -> None:
        """A copy of `empty` takes the rows of each task, and is reported."""
        self._judge = judge
        self._empty = empty

    def __call__(self, batches: Iterable[RecordBatch], report: Report) -> Iterator[RecordBatch]:
        digest = deepcopy(self._empty)
        evidence = (_told(row) for batch in batches for row in batch.to_pylist())
        rows = self._judge.rows(evidence)
        while some := list(islice(rows, ROWS_PER_CHUNK)):
            for row in some:
                digest.take(row)
            yield pa.RecordBatch.from_pylist(some, FOUND_SCHEMA)
        context = TaskContext.get()
        assert context is not None, "only tasks call it"
        report(Digests, [(context.partitionId(), digest)])


def _told(row: _Row) -> Evidence:
    key = SegmentKey(*(row[name] for name in _KEY))
    if row["known"] is not None:
        return Evidence(key, row["topic"], known_segment(row["known"]))
    seen = Seen(*(row[name] for name in Seen._fields))
    if row["segment_id"] is None:
        return Evidence(None, seen=seen)
    return Evidence(key, None, None, row["role"], row["place"], row["is_below_prefix"], seen)


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
    lister: Callable[[], Listed[DataFrame]],
    orphans_before_ms: int,
    digest: AuditDigest,
) -> Iterator[SparkAudit]:
    """Audit the tier; its rows are persisted while the block lasts.

    Args:
        spark: The session that runs the audit.
        store: The store with the logs.
        names: How the tier names its objects.
        lister: Lists the tier when it is called and not before, or returns a list that was
            made earlier. Called between the two readings of the logs' ends.
        orphans_before_ms: Only objects written before this time may be orphans.
        digest: An empty digest, which takes every row.

    Raises:
        InvalidArgument: The store holds several clusters and none was named, or the list has
            invalid rows.
        RemoteResourceNotFound: The store does not hold the named cluster.
        StoreRefused: The URL does not lead to a store.
    """
    first = _run(planned(segments_table(names, Settled()), store))
    both = _run(second_plan(first, partial(segments_table, names), lister))
    assert both is not None, "Spark takes a list of any length"
    found, second = both
    listing = found.rows.mapInArrow(ParseTask(names), from_arrow_schema(PARSED))
    with _persisted(listing, StorageLevel.DISK_ONLY) as parsed:
        counted = totals(parsed)
        damage = Damage(spark)
        with _persisted(made(second, spark, damage), StorageLevel.DISK_ONLY) as segments:
            unread = segments.where(sql.col("what") == DAMAGED).select(*LogKey._fields)
            standings = standings_of(second, (LogKey(*row) for row in unread.collect()))
            cluster = second.store.cluster or ""
            judge = Judge(cluster, standings, orphans_before_ms, found.unseen)
            digests = Digests(spark, digest)
            task = JudgeTask(judge, digest)
            judged = reported(_evidence(segments, parsed), task, FOUND_SCHEMA, [digests])
            with _persisted(judged) as rows:

                def result() -> Audit:
                    make(rows)
                    taken, logs = digests.joined(), damage.logs()
                    count = len(second.logs)
                    return Audit(cluster, count, counted, taken, logs, found.unseen)

                yield SparkAudit(rows, result)


@contextmanager
def _persisted(
    frame: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER
) -> Iterator[DataFrame]:
    kept = frame.persist(level)
    try:
        yield kept
    finally:
        kept.unpersist()


def _run(coming: Coroutine[None, None, Result]) -> Result:
    # In a notebook this thread already runs an event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coming).result()


def _evidence(segments: DataFrame, parsed: DataFrame) -> DataFrame:
    """What the logs and the list tell, the rows of each segment id next to one another."""
    known = sql.struct(*KnownSegment._fields).alias("known")
    of_logs = segments.where(sql.col("what") == SEGMENT).select("topic", *_KEY, known)
    named = parsed.where(sql.col("segment_id").isNotNull())
    together = of_logs.unionByName(named, allowMissingColumns=True)
    together = together.repartition(*_KEY).sortWithinPartitions(*_KEY)
    # Foreign objects may be many, and have no segment id by which to divide them.
    foreign = parsed.where(sql.col("segment_id").isNull())
    return together.unionByName(foreign, allowMissingColumns=True)


def listed(rows: DataFrame) -> DataFrame:
    """The rows of the kinds in `LISTED`."""
    return rows.where(sql.col("kind").isin(list(LISTED_KINDS)))
