"""`audit`: compares the logs with a list of the tier's objects. It deletes nothing.

`kinds` gives the order of its steps and the reasons for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.jobs.audit.here import known_segment
from tierledger.pipeline.jobs.audit.kinds import (
    DELETED,
    LISTED,
    AuditKind,
    FoundObjects,
    KnownSegment,
    Standing,
)
from tierledger.pipeline.jobs.audit.rows import (
    FOUND,
    NOT_THIS_TIERS,
    AuditDigest,
    Judge,
    SegmentKey,
)
from tierledger.pipeline.jobs.audit.segments import DAMAGED, SEGMENT, LogKey
from tierledger.pipeline.table_columns import ROWS_PER_CHUNK
from tierledger.pipeline.tables.arrow import schema_of
from tierledger.pipeline.tables.frames import Digests, Report
from tierledger.tiering.layouts.listed_objects import LayoutNames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Arrow's types are not annotated; `Any` stops at these lines.
RecordBatch: TypeAlias = Any
_Row: TypeAlias = dict[str, Any]

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
            paths = batch.column("path").to_pylist()
            parsed = [None if path is None else self._names.parse(path) for path in paths]
            columns = [
                [None if one is None else str(one.topic_id) for one in parsed],
                [None if one is None else one.partition for one in parsed],
                [None if one is None else str(one.segment_id) for one in parsed],
                [None if one is None else one.role for one in parsed],
                [None if one is None else one.place for one in parsed],
                [None if one is None else one.is_below_prefix for one in parsed],
            ]
            arrays = [
                pa.array(values, kind.type)
                for values, kind in zip(columns, list(PARSED)[3:], strict=True)
            ]
            given = [batch.column(name) for name in ("path", "size", "last_modified_ms")]
            yield pa.RecordBatch.from_arrays([*given, *arrays], names=PARSED.names)


class JudgeTask:
    """Turns the known and found state of each segment id into rows of `FOUND`."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            rows: list[_Row] = []
            for row in batch.to_pylist():
                known = None if row["known"] is None else known_segment(row["known"])
                found = [_found(one) for one in row["found"] or ()]
                key = SegmentKey(*(row[name] for name in _KEY))
                rows += self._judge.rows(key, row["topic"], known, found)
            for at in range(0, len(rows), ROWS_PER_CHUNK):
                yield pa.RecordBatch.from_pylist(rows[at : at + ROWS_PER_CHUNK], FOUND_SCHEMA)


class DigestTask:
    """Lets a digest of each task take its rows, which it passes on; for `frames.reported`."""

    def __init__(self, empty: AuditDigest) -> None:
        self._empty = empty

    def __call__(self, batches: Iterable[RecordBatch], report: Report) -> Iterator[RecordBatch]:
        digest = deepcopy(self._empty)
        for batch in batches:
            for row in batch.to_pylist():
                digest.take(row)
            yield batch
        context = TaskContext.get()
        assert context is not None, "only tasks call it"
        report(Digests, [(context.partitionId(), digest)])


def _found(row: _Row) -> FoundObjects:
    found = FoundObjects(*(row[name] for name in FoundObjects._fields))
    return found._replace(sizes=[(one["role"], one["size"]) for one in row["sizes"]])


def standings_of(logs: Sequence[PlannedLog], segments: DataFrame) -> dict[LogKey, Standing]:
    """The standing of each partition. It folds `segments`: persist these to use them again."""
    standings = {LogKey(str(log.topic_id), log.partition): Standing.KNOWN for log in logs}
    damaged = segments.where(sql.col("what") == DAMAGED).select("topic_id", "partition")
    for row in damaged.collect():
        standings[LogKey(row["topic_id"], row["partition"])] = Standing.DAMAGED
    return standings


def parsed_names(listing: DataFrame, names: LayoutNames) -> DataFrame:
    """Rows of `PARSED` from `listing`: rows of `listing.COLUMNS` with each path only once."""
    return listing.mapInArrow(ParseTask(names), from_arrow_schema(PARSED))


def audited(
    segments: DataFrame,
    parsed: DataFrame,
    judge: Judge,
    cluster: str,
) -> DataFrame:
    """Rows of `FOUND`: every segment and every object of the tier, each in one row of its kind.

    Args:
        segments: The table of `segments_table`.
        parsed: The frame of `parsed_names`.
        judge: It knows the result of `standings_of`.
        cluster: The cluster's id.
    """
    judged = (
        _known_by_id(segments)
        .join(_found_by_id(parsed), list(_KEY), "full_outer")
        .select("topic", *_KEY, "known", "found")
        .mapInArrow(JudgeTask(judge), from_arrow_schema(FOUND_SCHEMA))
    )
    return judged.unionByName(_foreign(parsed, cluster))


def _known_by_id(segments: DataFrame) -> DataFrame:
    known = sql.struct(*KnownSegment._fields)
    # An imported log may have added a segment again after deleting it.
    rank = sql.when(sql.col("state") == DELETED, sql.lit(0)).otherwise(sql.lit(1))
    rows = segments.where(sql.col("what") == SEGMENT)
    return rows.groupBy(*_KEY).agg(
        sql.max_by(known, rank).alias("known"), sql.max("topic").alias("topic")
    )


def _found_by_id(parsed: DataFrame) -> DataFrame:
    count = sql.count(sql.lit(1))
    is_age_known = sql.count("last_modified_ms") == count
    by_place = (
        parsed.where(sql.col("segment_id").isNotNull())
        .groupBy(*_KEY, "place", "is_below_prefix")
        .agg(
            count.alias("objects"),
            sql.sum("size").alias("size_in_bytes"),
            sql.sort_array(sql.collect_list(sql.struct("role", "size"))).alias("sizes"),
            sql.when(is_age_known, sql.max("last_modified_ms")).alias("newest_ms"),
        )
    )
    found = sql.struct(*FoundObjects._fields)
    return by_place.groupBy(*_KEY).agg(sql.sort_array(sql.collect_list(found)).alias("found"))


def _foreign(parsed: DataFrame, cluster: str) -> DataFrame:
    """Objects whose names are not this tier's, one row each."""
    nothing = {
        field.name: sql.lit(None).cast(field.dataType)
        for field in from_arrow_schema(FOUND_SCHEMA)
    }
    columns = nothing | {
        "cluster": sql.lit(cluster),
        "kind": sql.lit(AuditKind.FOREIGN.value),
        "place": sql.col("path"),
        "objects": sql.lit(1).cast("bigint"),
        "size_in_bytes": sql.col("size"),
        "last_modified_ms": sql.col("last_modified_ms"),
        "detail": sql.lit(NOT_THIS_TIERS),
    }
    rows = parsed.where(sql.col("segment_id").isNull())
    return rows.select(*(column.alias(name) for name, column in columns.items()))


def listed(rows: DataFrame) -> DataFrame:
    """The rows of the kinds in `LISTED`."""
    return rows.where(sql.col("kind").isin([kind.value for kind in LISTED]))
