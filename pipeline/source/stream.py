"""`spark.readStream.format("tierledger")`: the events of a store's logs as they are appended.

Rule: a stream offset names the next batch of each partition. So the events between two offsets
never change, and a micro-batch that Spark repeats after a restart reads the same events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from typing_extensions import override

from tierledger.events.errors import DataError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.log_ranges import LogPlace, LogPlanner, Piece, corrupt, packed
from tierledger.pipeline.source.columns import EventColumns
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import (
    READS_AT_A_TIME,
    PlannedTask,
    opened,
    partitions,
    whole_log,
)
from tierledger.pipeline.source.scan import Scanner
from tierledger.pipeline.source.schema import ReadTask
from tierledger.storage.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Offset: TypeAlias = "dict[str, list[int]]"
"""By `topic id/partition`: number of the next batch, and its first position. A partition that
is missing begins at the start of its log."""


class TierledgerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the events that are appended to a store; it also finds new partitions."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._target: Offset | None = None
        self._known: dict[str, TopicIdPartition] = {}

    @override
    def initialOffset(self) -> Offset:
        return {}

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.max_rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = asyncio.run(self._ends({}))

    @override
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return asyncio.run(self._latest(start, limit))

    @override
    def partitions(self, start: Offset, end: Offset) -> list[ReadTask]:
        return asyncio.run(self._tasks(start, end))

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadTask)
        schema = to_arrow_schema(self._schema)
        columns = EventColumns(schema, partition.cluster)
        scanner = Scanner(self._options, partition.cluster, columns)
        yield from scanner.batches(partition.pieces)

    async def _latest(self, start: Offset, limit: ReadLimit) -> Offset:
        ends = self._target if self._target is not None else await self._ends(start)
        # A forgotten partition keeps the offset up to which it was read.
        latest = start | {
            name: place for name, place in ends.items() if place[0] > _batch(start, name)
        }
        if isinstance(limit, ReadMaxRows):
            latest = await self._bounded(start, latest, limit.max_rows)
        return latest

    async def _ends(self, start: Offset) -> Offset:
        """The present end of each log that has grown behind `start`."""
        async with opened(self._options) as catalog:
            if catalog is None:
                return {}
            tips = await partitions(catalog, self._options)
            self._known = {_name(tip): tip for tip in tips}
            free = asyncio.Semaphore(READS_AT_A_TIME)

            async def end_of(tip: TopicIdPartition) -> list[int] | None:
                async with free:
                    return await _end(LogPlanner(catalog.reader(tip)), start.get(_name(tip)))

            found = await asyncio.gather(*map(end_of, tips))
            pairs = zip(tips, found, strict=True)
            return {_name(tip): end for tip, end in pairs if end is not None}

    async def _bounded(self, start: Offset, latest: Offset, rows: int) -> Offset:
        """An offset about `rows` events after `start`, shared between partitions by growth."""
        sizes = {
            name: place[1] - _position(start, name)
            for name, place in latest.items()
            if place[0] > _batch(start, name)
        }
        total = sum(sizes.values())
        if total <= rows:
            return latest
        async with opened(self._options) as catalog:
            assert catalog is not None
            bounded = dict(start)
            tips = await self._tips(catalog, list(sizes))
            for name, size in sizes.items():
                planner = LogPlanner(catalog.reader(tips[name]))
                first, last = _batch(start, name), latest[name][0]
                # At least one batch per partition, so that none waits for ever.
                share = max((last - first) * rows // total, 1)
                bounded[name] = await _place(planner, first + share) if size else latest[name]
            return bounded

    async def _tasks(self, start: Offset, end: Offset) -> list[ReadTask]:
        grown = [name for name, place in end.items() if place[0] > _batch(start, name)]
        async with opened(self._options) as catalog:
            if catalog is None or not grown:
                return []
            tips = await self._tips(catalog, grown)
            pieces: list[Piece] = []
            for name in sorted(grown):
                planner = LogPlanner(catalog.reader(tips[name]))
                pieces += await self._between(
                    planner, tips[name], start.get(name), end[name][0]
                )
            tasks = packed(pieces, self._options.rows_per_task)
            return [ReadTask(PlannedTask(catalog.cluster_id, one)) for one in tasks]

    async def _between(
        self, planner: LogPlanner, tip: TopicIdPartition, start: list[int] | None, end: int
    ) -> list[Piece]:
        if start is None:
            return await whole_log(planner, tip, self._options, end)
        try:
            place = await planner.place(start[0])
        except DataError as error:
            return [corrupt(tip, LogPlace(start[0], start[1], b"", 0), error)]
        return await planner.ranges(place, end, self._options.rows_per_task)

    async def _tips(self, catalog: Catalog, names: list[str]) -> dict[str, TopicIdPartition]:
        if not self._known.keys() >= set(names):
            # Forgotten ones, too: a batch that Spark repeats may be older than that.
            async for entry in catalog.partitions():
                tip = entry.topic_id_partition
                self._known[_name(tip)] = tip
        return {name: self._known.get(name) or _tip(name) for name in names}


async def _end(planner: LogPlanner, start: list[int] | None) -> list[int] | None:
    """Where the log ends; none if that is not behind `start`."""
    end = await planner.end()
    if start is not None:
        if end < start[0]:
            # The log lost batches that were read. One batch more makes the next read report it
            # by a `corrupt` row. Position 0 marks it as reported, so there is only one row.
            return [start[0] + 1, 0] if start[1] else None
        return await _place(planner, end) if end > start[0] else None
    try:
        first = (await planner.start())[0].next_batch
    except DataError:
        return [1, 0]  # The start is damaged: reading this one batch yields a `corrupt` row.
    return await _place(planner, end) if end > first else None


async def _place(planner: LogPlanner, next_batch: int) -> list[int]:
    """The offset's entry for batch `next_batch`; position 0 if the place cannot be read."""
    try:
        return [next_batch, (await planner.place(next_batch)).next_position]
    except DataError:
        return [next_batch, 0]


def _name(tip: TopicIdPartition) -> str:
    return f"{tip.topic_id}/{tip.partition}"


def _tip(name: str) -> TopicIdPartition:
    topic_id, _, partition = name.partition("/")
    return TopicIdPartition(Uuid.parse(topic_id), int(partition), "")


def _batch(offset: Offset, name: str) -> int:
    return offset[name][0] if name in offset else 0


def _position(offset: Offset, name: str) -> int:
    return offset[name][1] if name in offset else 0
