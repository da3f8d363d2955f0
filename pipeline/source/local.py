"""The events of a store's logs, read by this process: neither Spark nor Java takes part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.compute as pc

from tierledger.events.errors import CorruptLog
from tierledger.pipeline.column_files.place import Note, warn
from tierledger.pipeline.folding.task import DamagedLog, Report
from tierledger.pipeline.source.columns import (
    CORRUPT,
    EVENT_COLUMNS,
    FILE_SCHEMA,
)
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import PlannedTask, plan_batch
from tierledger.pipeline.source.scan import scanned
from tierledger.pipeline.table_columns import EPOCH_MAP, Column, RowChunk, Table, Values
from tierledger.pipeline.tables.arrow import RecordBatch, Schema
from tierledger.pipeline.worker import without_cycles


def _no_rows() -> Any:  # noqa: ANN401 - It raises.
    raise NotImplementedError("events are not folded")


EVENTS = Table(
    "events",
    "the logs as they are, one row for each event",
    EVENT_COLUMNS[:-1],
    _no_rows,
    identity=(),
)
"""The events as a table for `tables.writers`."""

NO_IDENTITY: Any = ()


def planned_here(options: SourceOptions, note: Note = warn) -> list[PlannedTask]:
    """The tasks that read what `options` select; raises as `plan_batch`."""
    with without_cycles():
        return asyncio.run(plan_batch(options, note))


def written_events(
    options: SourceOptions,
    tasks: list[PlannedTask],
    write: Callable[[RowChunk], None],
    note: Note = warn,
) -> tuple[int, list[DamagedLog]]:
    """Write the events of `tasks`; the number of rows, and the logs that end in damage.

    Args:
        options: The options for which the tasks were planned.
        tasks: What to read, each of them in order.
        write: Takes the rows, in chunks.
        note: Takes what was wrong with column files.
    """
    rows, damaged = 0, list[DamagedLog]()
    for batch in _batches(options, tasks, note):
        columns: list[Values] = [_plain(batch, one) for one in EVENTS.columns]
        if batch.num_rows:
            write(RowChunk(EVENTS, NO_IDENTITY, columns))
        rows += batch.num_rows
        damaged += _damage_in(batch)
    return rows, damaged


def event_schema() -> Schema:
    """The Arrow schema of the events, without the stored bytes."""
    return FILE_SCHEMA


def event_batches(
    options: SourceOptions, report: Report | None, note: Note = warn
) -> Iterator[RecordBatch]:
    """The events that the store holds now, within the bounds of `options`.

    Raises:
        CorruptLog: A log ends in damage, and there is no `report`.
    """
    for batch in _batches(options, planned_here(options, note), note):
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
    options: SourceOptions, tasks: list[PlannedTask], note: Note
) -> Iterator[RecordBatch]:
    for task in tasks:
        yield from scanned(options, task.cluster, event_schema(), task.pieces, note)


def _plain(batch: RecordBatch, column: Column) -> list[Any]:
    values: list[Any] = batch[column.name].to_pylist()
    if column.type != EPOCH_MAP:
        return values
    return [None if one is None else dict(one) for one in values]
