"""A planned table as Arrow batches: made of columns as far as that is worth it, else folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierledger.pipeline.column_files.locate import column_place
from tierledger.pipeline.column_files.place import Note, warn
from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.folding.task import Report
from tierledger.pipeline.tables.arrow import RecordBatch, record_batch, schema_of
from tierledger.pipeline.tables.plan import MADE_OF_COLUMNS, TablePlan

FEW_BATCHES = 50
"""Batches that are folded sooner than the modules are loaded that make tables of columns."""


def batches_of(
    plan: TablePlan, report: Report | None, note: Note = warn
) -> Iterator[RecordBatch]:
    """The rows of the plan's logs.

    Damaged logs go to `report`; `note` takes why column files are not used.

    Raises:
        DataError: A log is damaged, and there is no `report`.
        StorageUnavailable: The store cannot be reached.
        StoreRefused: The URL does not lead to a store any more.
    """
    schema = schema_of(plan.table)
    logs: Sequence[PlannedLog] = plan.logs
    if _has_many(plan):
        from tierledger.pipeline.column_tables import ColumnTable  # noqa: PLC0415 - Slow.

        made = ColumnTable(plan, note)
        yield from made.batches()
        logs = made.left
    for chunk in plan.fold(report).run(logs):
        yield record_batch(chunk, schema)


def _has_many(plan: TablePlan) -> bool:
    """Whether columns take less time than their modules, which take as long as a short fold."""
    if plan.table.name not in MADE_OF_COLUMNS:
        return False
    has_files = column_place(plan.store.config) is not None
    return has_files or sum(log.batches for log in plan.logs) > FEW_BATCHES
