"""The events of a store's logs, read by this process: neither Spark nor Java takes part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from tierledger.events.errors import CorruptLog
from tierledger.pipeline.folding.task import DamagedLog, Report
from tierledger.pipeline.source.columns import CORRUPT, DEFAULT_SCHEMA, EventColumns
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import ReadTask, plan_batch
from tierledger.pipeline.source.scan import Scanner
from tierledger.pipeline.table_columns import EPOCH_MAP, Column, RowChunk, Table, Values
from tierledger.pipeline.tables.arrow import RecordBatch, Schema


def _no_rows() -> Any:  # noqa: ANN401 - It raises.
    raise NotImplementedError("events are not folded")


EVENTS = Table(
    "events",
    "the logs as they are, one row for each event",
    tuple(
        Column(one.name, one.dataType.simpleString(), "", one.nullable)
        for one in DEFAULT_SCHEMA.fields
    ),
    _no_rows,
    identity=(),
)
"""The events as a table for `tables.writers`."""

NO_IDENTITY: Any = ()


def planned_here(options: SourceOptions) -> list[ReadTask]:
    """The tasks that read all events which the store holds now; raises as `plan_batch`."""
    return asyncio.run(plan_batch(options))


def written_events(
    options: SourceOptions,
    tasks: list[ReadTask],
    bound: tuple[str, int],
    write: Callable[[RowChunk], None],
) -> tuple[int, list[DamagedLog]]:
    """Write the events of `tasks`; the number of rows, and the logs that end in damage.

    Args:
        options: The options for which the tasks were planned.
        tasks: What to read, each of them in order.
        bound: A column and its highest value; "" for none.
        write: Takes the rows, in chunks.
    """
    rows, damaged = 0, list[DamagedLog]()
    for batch in _batches(options, tasks, bound):
        columns: list[Values] = [_plain(batch, one) for one in EVENTS.columns]
        if batch.num_rows:
            write(RowChunk(EVENTS, NO_IDENTITY, columns))
        rows += batch.num_rows
        damaged += _damage_in(batch)
    return rows, damaged


def event_schema() -> Schema:
    """The Arrow schema of the events, without the stored bytes."""
    return to_arrow_schema(DEFAULT_SCHEMA)


def event_batches(
    options: SourceOptions, bound: tuple[str, int], report: Report | None
) -> Iterator[RecordBatch]:
    """All events that the store holds now, up to `bound`, as `written_events` has it.

    Raises:
        CorruptLog: A log ends in damage, and there is no `report`.
    """
    for batch in _batches(options, planned_here(options), bound):
        damaged = _damage_in(batch)
        if damaged and report is None:
            raise CorruptLog(f"{damaged[0].name}: {damaged[0].message}")
        if damaged and report is not None:
            report(damaged)
        yield batch


def _damage_in(batch: RecordBatch) -> list[DamagedLog]:
    return [
        DamagedLog(
            one["topic"], one["topic_id"], one["partition"], one["position"], one["reason"]
        )
        for one in batch.filter(pc.equal(batch["type"], CORRUPT)).to_pylist()
    ]


def _batches(
    options: SourceOptions, tasks: list[ReadTask], bound: tuple[str, int]
) -> Iterator[RecordBatch]:
    schema = event_schema()
    name, highest = bound
    for task in tasks:
        scanner = Scanner(options, task.cluster, EventColumns(schema, task.cluster))
        for batch in scanner.batches(task.pieces):
            yield batch.filter(pc.less_equal(batch[name], highest)) if name else batch


def _plain(batch: RecordBatch, column: Column) -> list[Any]:
    values: list[Any] = batch[column.name].to_pylist()
    if column.type != EPOCH_MAP:
        return values
    return [None if one is None else dict(one) for one in values]
