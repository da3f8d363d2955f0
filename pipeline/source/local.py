"""The events of a store's logs, read by this process: neither Spark nor Java takes part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow.compute as pc

from tierledger.events.errors import CorruptLog
from tierledger.pipeline.column_files.place import Note, warn
from tierledger.pipeline.folding.task import DamagedLog, Report
from tierledger.pipeline.log_ranges import FileRanges, LogRange, Notice, Piece
from tierledger.pipeline.source.columns import (
    CORRUPT,
    EVENT_COLUMNS,
    FILE_SCHEMA,
    EventColumns,
)
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import PlannedTask, plan_batch
from tierledger.pipeline.source.scan import Scanner
from tierledger.pipeline.table_columns import EPOCH_MAP, Column, RowChunk, Table, Values
from tierledger.pipeline.tables.arrow import RecordBatch, Schema


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
    """The tasks that read all events which the store holds now; raises as `plan_batch`."""
    return asyncio.run(plan_batch(options, note))


def written_events(
    options: SourceOptions,
    tasks: list[PlannedTask],
    bound: tuple[str, int],
    write: Callable[[RowChunk], None],
    note: Note = warn,
) -> tuple[int, list[DamagedLog]]:
    """Write the events of `tasks`; the number of rows, and the logs that end in damage.

    Args:
        options: The options for which the tasks were planned.
        tasks: What to read, each of them in order.
        bound: A column and its highest value; "" for none.
        write: Takes the rows, in chunks.
        note: Takes what was wrong with column files.
    """
    rows, damaged = 0, list[DamagedLog]()
    for batch in _batches(options, tasks, bound, note):
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
    options: SourceOptions, bound: tuple[str, int], report: Report | None, note: Note = warn
) -> Iterator[RecordBatch]:
    """All events that the store holds now, up to `bound`, as `written_events` has it.

    Raises:
        CorruptLog: A log ends in damage, and there is no `report`.
    """
    for batch in _batches(options, planned_here(options, note), bound, note):
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
    options: SourceOptions, tasks: list[PlannedTask], bound: tuple[str, int], note: Note
) -> Iterator[RecordBatch]:
    schema = event_schema()
    name, highest = bound
    for task in tasks:
        scanner = Scanner(options, task.cluster, EventColumns(schema, task.cluster), note)
        for batch in scanner.batches(_within(task.pieces, bound)):
            yield batch.filter(pc.less_equal(batch[name], highest)) if name else batch


def _within(pieces: Sequence[Piece], bound: tuple[str, int]) -> list[Piece]:
    """`pieces` without ranges that begin behind `bound`."""
    name, highest = bound
    if not name:
        return list(pieces)

    def may_have(one: LogRange) -> bool:
        start = one.start
        return (start.next_position if name == "position" else start.log_time_ms) <= highest

    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, FileRanges):
            parts = tuple(part for part in piece.parts if may_have(part[1]))
            found += [piece._replace(parts=parts)] if parts else []
        elif isinstance(piece, Notice) or may_have(piece):
            found.append(piece)
    return found


def _plain(batch: RecordBatch, column: Column) -> list[Any]:
    values: list[Any] = batch[column.name].to_pylist()
    if column.type != EPOCH_MAP:
        return values
    return [None if one is None else dict(one) for one in values]
