"""The writing Spark task of an import: it writes the partitions whose sorted rows it gets."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tierledger.events.errors import DataError, RemoteResourceNotFound
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import peek_partition
from tierledger.events.log_events import SessionOpened
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.imports.commit import TaskCommitter
from tierledger.pipeline.imports.log import (
    NAMED_MAX,
    ImportingLog,
    RawRecord,
    Tally,
    place_of,
    without_order,
)
from tierledger.pipeline.imports.scan import HOLDS, NULL_VALUE
from tierledger.pipeline.worker import page_loop, without_cycles
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.loading import LoadedPartition
from tierledger.storage.partition.reader import PartitionReader

# Arrow's types are not annotated; `Any` stops at this line.
RecordBatch: TypeAlias = Any

Row: TypeAlias = tuple[Any, ...]
"""A row of `scan.SCHEMA`."""

FORGOTTEN = -1
"""Stands for the offsets of records whose events a log has forgotten."""

OFFSET = 4
"""The column of a record's offset in it."""

OUTCOMES = StructType(
    [
        StructField("topic", StringType()),
        StructField("topic_id", StringType()),
        StructField("partition", IntegerType()),
        StructField("metadata_partition", IntegerType()),
        StructField("records", LongType(), nullable=False),
        StructField("repeated", LongType(), nullable=False),
        StructField("imported", LongType(), nullable=False),
        StructField("dropped", LongType(), nullable=False),
        StructField("refused", LongType(), nullable=False),
        StructField("batches", LongType(), nullable=False),
        StructField("position", LongType()),
        StructField("trouble", StringType()),
        StructField("dropped_by_reason", MapType(StringType(), LongType()), nullable=False),
        StructField("refused_records", MapType(StringType(), StringType()), nullable=False),
        StructField("missing", MapType(StringType(), LongType()), nullable=False),
    ]
)
"""One row per partition, and at most one for records and gaps without a partition."""


class Outcome(NamedTuple):
    """The outcome of one partition; see `OUTCOMES` and docs/import.md."""

    topic: str | None
    topic_id: str | None
    partition: int | None
    metadata_partition: int | None
    records: int
    repeated: int
    imported: int
    dropped: int
    refused: int
    batches: int
    position: int | None
    trouble: str | None
    dropped_by_reason: dict[str, int]
    refused_records: dict[str, str]
    missing: dict[str, int]

    @property
    def name(self) -> str:
        """The partition, as errors name it."""
        return f"{self.topic_id}:{self.topic}-{self.partition}"


_ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("metadata_partition", pa.int32()),
        ("records", pa.int64()),
        ("repeated", pa.int64()),
        ("imported", pa.int64()),
        ("dropped", pa.int64()),
        ("refused", pa.int64()),
        ("batches", pa.int64()),
        ("position", pa.int64()),
        ("trouble", pa.string()),
        ("dropped_by_reason", pa.map_(pa.string(), pa.int64())),
        ("refused_records", pa.map_(pa.string(), pa.string())),
        ("missing", pa.map_(pa.string(), pa.int64())),
    ]
)


class _Strays:
    """Rows without a partition: records that name none, and the ranges of offsets seen."""

    def __init__(self) -> None:
        self._refused = self._nulls = 0
        self._named: dict[str, str] = {}
        self._seen: dict[int, list[int]] = {}
        """By metadata partition: first and last offset, and how many offsets were seen."""

    def add(self, row: Row) -> None:
        _, _, kind, source, offset, timestamp_ms, _, reason = row
        if kind == HOLDS:
            last, missing = timestamp_ms, int(reason)
            seen = self._seen.setdefault(source, [offset, last, 0])
            seen[0], seen[1] = min(seen[0], offset), max(seen[1], last)
            seen[2] += last - offset + 1 - missing
            return
        if reason == NULL_VALUE:
            self._nulls += 1
            return
        self._refused += 1
        if len(self._named) < NAMED_MAX:
            if offset is None:
                place, _, why = reason.partition(": ")  # It begins with a file and a byte.
            else:
                place, why = place_of(source, offset), reason
            self._named[place] = why

    def outcomes(self) -> list[Outcome]:
        """One row; none if each record names a partition and no offset is missing."""
        missing = {
            f"metadata partition {source}": last - first + 1 - count
            for source, (first, last, count) in sorted(self._seen.items())
            if last - first + 1 > count
        }
        records = self._refused + self._nulls
        if not records and not missing:
            return []
        nobody = (None, None, None, None)
        counts = (records, 0, 0, self._nulls, self._refused, 0)
        dropped = {NULL_VALUE: self._nulls} if self._nulls else {}
        return [Outcome(*nobody, *counts, None, None, dropped, self._named, missing)]


@dataclass(frozen=True, slots=True)
class ImportTask:
    """Writes logs: a callable for `mapInArrow` over the sorted rows of `scan`."""

    store: JobStore
    recorded_cluster: str
    socket: str | None

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        with ExitStack() as stack:
            stack.enter_context(without_cycles())
            loop = stack.enter_context(page_loop())
            opened = self.store.opened()
            catalog = loop.run_until_complete(opened.__aenter__())
            stack.callback(lambda: loop.run_until_complete(opened.__aexit__(None, None, None)))
            committer = stack.enter_context(TaskCommitter(self.store.config, self.socket))
            strays, tallies = _Strays(), list[Tally]()
            for (topic_id, _), rows in groupby(_rows_of(batches), key=itemgetter(0, 1)):
                if topic_id is None:
                    for row in rows:
                        strays.add(row)
                else:
                    tallies.append(self._imported(loop, catalog, committer, rows))
            committer.flush()
        yield _batch_of([*map(_outcome, tallies), *strays.outcomes()])

    def _imported(
        self,
        loop: asyncio.AbstractEventLoop,
        catalog: Catalog,
        committer: TaskCommitter,
        rows: Iterator[Row],
    ) -> Tally:
        """Import one partition's rows. The tally is complete once `committer` is flushed."""
        tally, first = _entered(rows)
        log = self._opened(loop, catalog, tally, first[OFFSET])
        for row in chain([first], rows):
            _, _, _, source, offset, timestamp_ms, value, _ = row
            if log is None:
                tally.records += 1
                continue
            slot = log.add(RawRecord(source, offset, timestamp_ms, value))
            if slot is not None:
                committer.add(slot)
        slot = None if log is None else log.finish()
        if slot is not None:
            committer.add(slot)
        return tally

    def _opened(
        self, loop: asyncio.AbstractEventLoop, catalog: Catalog, tally: Tally, oldest: int
    ) -> ImportingLog | None:
        """The log for a partition's records; none, with the reason in `tally`, if refused.

        Args:
            loop: The task's.
            catalog: The store's.
            tally: Of the partition.
            oldest: Offset of its first record.
        """
        tip, sources = tally.topic_id_partition, tally.sources
        if len(sources) > 1:
            tally.trouble = without_order(sources)
            return None
        reader = catalog.reader(tip)
        try:
            loaded = loop.run_until_complete(reader.state())
            known = loaded.state.imported_offset(self.recorded_cluster, sources[0])
            held = array("q")
            if oldest <= known:
                held = loop.run_until_complete(_offsets(reader, self.recorded_cluster))
        except RemoteResourceNotFound:
            first = genesis(catalog.cluster_id, tip.topic_id, tip.partition)
            loaded, held = LoadedPartition(PartitionState(tip, first), 0), array("q")
        except DataError as error:
            tally.trouble = f"damaged: {error}"
            return None
        return ImportingLog(reader, loaded, tally, self.recorded_cluster, partial(_is_in, held))


async def _offsets(reader: PartitionReader, cluster: str) -> array[int]:
    """Offsets of the records that the log has of the recorded `cluster`, in their order.

    If the log's beginning was forgotten, `FORGOTTEN` stands in front of them.

    Raises:
        CorruptLog: The log does not verify.
    """
    offsets = array("q")
    first: int | None = None
    current: str | None = cluster  # Also before the first session that was not forgotten.
    async for event in reader.events():
        body = event.body
        first = event.position if first is None else first
        if isinstance(body, SessionOpened):
            current = body.import_cluster
        source = getattr(body, "source", None)
        if source is not None and current == cluster:
            offsets.append(source[1])
    return offsets if first == 0 else array("q", [FORGOTTEN, *offsets])


def _is_in(held: array[int], offset: int) -> bool:
    at = bisect_left(held, offset)
    if at == 1 and held[0] == FORGOTTEN:
        return True  # Of what the log has forgotten nobody can tell.
    return at < len(held) and held[at] == offset


def _rows_of(batches: Iterable[RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _entered(rows: Iterator[Row]) -> tuple[Tally, Row]:
    """A tally for the partition of `rows` with its metadata partitions; the first record."""
    sources: list[int] = []
    for row in rows:
        topic_id, partition, kind, source, *_, value, _ = row
        if kind != HOLDS:
            name = peek_partition(value).topic
            return Tally(TopicIdPartition(Uuid(topic_id), partition, name), sources), row
        if source not in sources:
            sources.append(source)
    raise AssertionError("who holds a partition holds a record of it")


def _outcome(tally: Tally) -> Outcome:
    tip = tally.topic_id_partition
    return Outcome(
        topic=tip.topic,
        topic_id=str(tip.topic_id),
        partition=tip.partition,
        metadata_partition=tally.sources[0] if len(tally.sources) == 1 else None,
        records=tally.records,
        repeated=tally.repeated,
        imported=tally.imported,
        dropped=tally.dropped.total(),
        refused=tally.refused,
        batches=tally.batches,
        position=tally.position,
        trouble=tally.trouble,
        dropped_by_reason=dict(tally.dropped),
        refused_records=tally.refused_records,
        missing={},
    )


def _batch_of(outcomes: list[Outcome]) -> RecordBatch:
    columns = zip(*outcomes, strict=True) if outcomes else [()] * len(_ARROW)
    arrays = [
        pa.array([list(v.items()) if isinstance(v, dict) else v for v in values], field.type)
        for values, field in zip(columns, _ARROW, strict=True)
    ]
    return pa.record_batch(arrays, schema=_ARROW)
