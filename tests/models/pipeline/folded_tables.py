"""Tables folded in this process without Spark, by direct calls of the tasks' functions."""

import asyncio
from pathlib import Path
from typing import Any

from tests.models.cli.command_line import Write, write
from tests.models.storage.stored_partitions import TRACES, StoredPartition, import_trace
from tierledger.events.as_of import NOW, AsOf
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.table_columns import Table
from tierledger.pipeline.tables.plan import TablePlan, planned
from tierledger.storage.backends.sqlite.backend import SqliteBackend

# A row is a dictionary from column to value.
TableRow = dict[str, Any]

REAL_TRACES = (
    "one-broker",
    "three-brokers-churn",
    "topic-deletion",
    "custom-metadata",
    "custom-metadata-over-limit",
    "large",
    "histories/seed-00",
    "histories/seed-01",
)


def written(path: Path, *steps: Write) -> JobStore:
    """A SQLite store at `path` that `steps` have filled."""
    write(path, *steps)
    return JobStore.of(f"sqlite:{path}")


def imported(path: Path, trace: str) -> tuple[JobStore, list[StoredPartition]]:
    """A store with a recorded trace, and its partitions in their leaders' states."""
    found: list[StoredPartition] = []

    async def step(backend: SqliteBackend) -> None:
        found.extend(await import_trace(backend, TRACES / trace))

    return written(path, step), found


def plan(
    name: str | Table,
    store: JobStore,
    as_of: AsOf = NOW,
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> TablePlan:
    return asyncio.run(planned(name, store, as_of=as_of, topic=topic, partition=partition))


def rows_of(made: TablePlan, damaged: list[DamagedLog] | None = None) -> list[TableRow]:
    """The rows of a planned table, computed in one task."""
    report = None if damaged is None else damaged.extend
    return [row for chunk in made.fold(report).run(made.logs) for row in chunk.rows()]


def folded(name: str, store: JobStore, as_of: AsOf = NOW) -> list[TableRow]:
    return rows_of(plan(name, store, as_of))


def of_log(rows: list[TableRow], partition: StoredPartition) -> list[TableRow]:
    """The rows of one log, without the columns that name the log."""
    wanted = (str(partition.tip.topic_id), partition.tip.partition)
    return [row for row in rows if (row["topic_id"], row["partition"]) == wanted]
