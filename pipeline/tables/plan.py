"""The tables, and the plan of making one, for either engine."""

from __future__ import annotations

from dataclasses import dataclass

from tierledger.events.as_of import NOW, AsOf
from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.folding.plan import AheadLog, ahead_logs, planned_logs
from tierledger.pipeline.folding.store import JobStore, with_cluster
from tierledger.pipeline.folding.task import FoldTask, Report
from tierledger.pipeline.table_columns import Table
from tierledger.pipeline.tables.anomalies import ANOMALIES
from tierledger.pipeline.tables.epochs import EPOCHS
from tierledger.pipeline.tables.segments import SEGMENTS
from tierledger.pipeline.tables.sizes import SIZES
from tierledger.pipeline.tables.transitions import TRANSITIONS
from tierledger.pipeline.tables.trash import TRASH
from tierledger.pipeline.worker import without_cycles

TABLES: dict[str, Table] = {
    table.name: table for table in (SEGMENTS, TRASH, EPOCHS, SIZES, TRANSITIONS, ANOMALIES)
}
"""Every folded table by name. The raw events are in `frames.events`."""

MADE_OF_COLUMNS = (SEGMENTS.name, SIZES.name)
"""Those that `column_tables` makes."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The plan of a table: its logs, and how far each is read."""

    table: Table
    store: JobStore
    logs: tuple[PlannedLog, ...]
    as_of: AsOf

    def fold(self, report: Report | None) -> FoldTask:
        """A task that makes the table's rows from its logs; damaged logs go to `report`."""
        return FoldTask(self.store, self.table, self.as_of, report)

    async def ahead_logs(self, now_ms: int) -> list[AheadLog]:
        """Its logs whose time is ahead of `now_ms`, the furthest first."""
        async with self.store.opened() as catalog:
            return await ahead_logs(catalog, self.logs, now_ms)


async def planned(
    name: str | Table,
    store: JobStore,
    *,
    as_of: AsOf = NOW,
    topic: str | None = None,
    partition: int | None = None,
) -> TablePlan:
    """The plan of the table `name`, or of a job's own table; it needs no Spark.

    Raises:
        InvalidArgument: There is no such table, a position was given for several logs, or the
            store holds several clusters and none was named.
        RemoteResourceNotFound: There is no such cluster, topic or partition.
        StoreRefused: The URL does not lead to a store.
    """
    table = TABLES.get(name) if isinstance(name, str) else name
    if table is None:
        raise InvalidArgument(f"expected one of {', '.join(TABLES)}, got {name!r}")
    with without_cycles():
        async with store.opened() as catalog:
            store = await with_cluster(store, catalog)
            logs = await planned_logs(catalog, topic, partition)
    if as_of.position is not None and len(logs) != 1:
        raise InvalidArgument(
            f"a position is one partition's, but {len(logs)} are meant: give a time, or a "
            "topic and partition"
        )
    return TablePlan(table, store, tuple(logs), as_of)
