"""`audit`: what the logs know, held against a list of what lies in the tier.

The order of its steps, and why, is told in `job_audit_kinds`. It reads, and deletes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from tierledger.pipeline.job_audit_kinds import (
    DELETED,
    FINDINGS,
    LISTED,
    AuditKind,
    FoundObjects,
    KnownSegment,
    Standing,
    verdicts,
)
from tierledger.pipeline.job_audit_segments import DAMAGED, SEGMENT, LogKey
from tierledger.pipeline.table_columns import ROWS_PER_CHUNK
from tierledger.tiering.listed_objects import ExpectedObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from tierledger.pipeline.fold import PlannedLog
    from tierledger.tiering.listed_objects import LayoutNames

# Arrow's types are not annotated; `Any` stops at these lines.
RecordBatch: TypeAlias = Any
_Row: TypeAlias = dict[str, Any]

_KEY = ("topic_id", "partition", "segment_id")

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
"""A list with what names say; nulls where they are not called as this tier's.

An inventory may lack names and sizes; `listing.totals` refuses it."""

FOUND = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("segment_id", pa.string()),
        pa.field("place", pa.string()),
        pa.field("objects", pa.int64(), nullable=False),
        pa.field("size_in_bytes", pa.int64(), nullable=False),
        pa.field("expected_bytes", pa.int64()),
        pa.field("last_modified_ms", pa.int64()),
        pa.field("detail", pa.string(), nullable=False),
    ]
)
"""The audit's own rows."""


class KindTotal(NamedTuple):
    """How much there is of a kind."""

    rows: int
    objects: int
    size_in_bytes: int


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
    """Turns what is known and found of each segment id into rows of `FOUND`."""

    def __init__(
        self, cluster: str, standings: Mapping[LogKey, Standing], orphans_before_ms: int
    ) -> None:
        self._cluster = cluster
        self._standings = standings
        self._before_ms = orphans_before_ms

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            rows: list[_Row] = []
            for row in batch.to_pylist():
                rows += self._judged(row)
            for at in range(0, len(rows), ROWS_PER_CHUNK):
                yield pa.RecordBatch.from_pylist(rows[at : at + ROWS_PER_CHUNK], FOUND)

    def _judged(self, row: _Row) -> Iterator[_Row]:
        key = LogKey(row["topic_id"], row["partition"])
        standing = self._standings.get(key, Standing.UNKNOWN)
        known = None if row["known"] is None else _known(row["known"])
        found = [_found(one) for one in row["found"] or ()]
        for verdict in verdicts(known, found, standing, self._before_ms):
            head = {name: row[name] for name in ("topic", *_KEY)}
            head["cluster"] = self._cluster
            yield head | verdict._asdict() | {"kind": verdict.kind.value}


def _known(row: _Row) -> KnownSegment:
    known = KnownSegment(*(row[name] for name in KnownSegment._fields))
    return known._replace(others=[ExpectedObject(**one) for one in row["others"] or ()])


def _found(row: _Row) -> FoundObjects:
    found = FoundObjects(*(row[name] for name in FoundObjects._fields))
    return found._replace(sizes=[(one["role"], one["size"]) for one in row["sizes"]])


def standings_of(logs: Sequence[PlannedLog], segments: DataFrame) -> dict[LogKey, Standing]:
    """What the store has of each partition; `segments` are folded for it, so keep them."""
    standings = {LogKey(str(log.topic_id), log.partition): Standing.KNOWN for log in logs}
    damaged = segments.where(sql.col("what") == DAMAGED).select("topic_id", "partition")
    for row in damaged.collect():
        standings[LogKey(row["topic_id"], row["partition"])] = Standing.DAMAGED
    return standings


def parsed_names(listing: DataFrame, names: LayoutNames) -> DataFrame:
    """Rows of `listing.COLUMNS`, each name once, with what the names say."""
    return listing.mapInArrow(ParseTask(names), from_arrow_schema(PARSED))


def audited(
    segments: DataFrame,
    parsed: DataFrame,
    standings: tuple[str, Mapping[LogKey, Standing]],
    orphans_before_ms: int,
) -> DataFrame:
    """Every segment and every object of the tier, each in one row of its kind.

    Args:
        segments: The table of `segments_table`.
        parsed: Of `parsed_names`.
        standings: The cluster's id, and what `standings_of` gave.
        orphans_before_ms: What was written before this may be called an orphan.
    """
    judged = (
        _known_by_id(segments)
        .join(_found_by_id(parsed), list(_KEY), "full_outer")
        .select("topic", *_KEY, "known", "found")
        .mapInArrow(JudgeTask(*standings, orphans_before_ms), from_arrow_schema(FOUND))
    )
    return judged.unionByName(_foreign(parsed, standings[0]))


def _known_by_id(segments: DataFrame) -> DataFrame:
    known = sql.struct(*KnownSegment._fields)
    # A recorded log may have added a segment again that it had deleted.
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
        field.name: sql.lit(None).cast(field.dataType) for field in from_arrow_schema(FOUND)
    }
    said = nothing | {
        "cluster": sql.lit(cluster),
        "kind": sql.lit(AuditKind.FOREIGN.value),
        "place": sql.col("path"),
        "objects": sql.lit(1).cast("bigint"),
        "size_in_bytes": sql.col("size"),
        "last_modified_ms": sql.col("last_modified_ms"),
        "detail": sql.lit("not called as this tier's objects are"),
    }
    rows = parsed.where(sql.col("segment_id").isNull())
    return rows.select(*(column.alias(name) for name, column in said.items()))


def totals_by_kind(rows: DataFrame) -> dict[AuditKind, KindTotal]:
    """How much there is of each kind, in the order of `AuditKind`; kinds of nothing are 0."""
    found = {
        row["kind"]: KindTotal(row["n"], row["objects"], row["bytes"])
        for row in rows.groupBy("kind")
        .agg(
            sql.count(sql.lit(1)).alias("n"),
            sql.sum("objects").alias("objects"),
            sql.sum("size_in_bytes").alias("bytes"),
        )
        .collect()
    }
    return {kind: found.get(kind.value, KindTotal(0, 0, 0)) for kind in AuditKind}


def listed(rows: DataFrame) -> DataFrame:
    """The rows that a table of findings has."""
    return rows.where(sql.col("kind").isin([kind.value for kind in LISTED]))


def worst(rows: DataFrame, limit: int) -> list[Any]:
    """The findings, worst first: by kind, then the most bytes."""
    kinds = [kind.value for kind in FINDINGS]
    place = sql.array_position(sql.array(*map(sql.lit, kinds)), sql.col("kind"))
    weight = sql.greatest(sql.coalesce("expected_bytes", sql.lit(0)), "size_in_bytes")
    order = (place, sql.desc(weight), "topic", "partition", "place", "segment_id")
    return rows.where(sql.col("kind").isin(kinds)).orderBy(*order).limit(limit).collect()
