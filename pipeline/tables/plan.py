"""Which tables there are, and what one is made of: planned for either engine."""

from __future__ import annotations

from dataclasses import dataclass

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.fold import NOW, AsOf, PlannedLog
from tierledger.pipeline.folding.plan import planned_logs
from tierledger.pipeline.folding.store import JobStore, require_cluster
from tierledger.pipeline.folding.task import FoldTask, Report
from tierledger.pipeline.table_columns import Table
from tierledger.pipeline.tables.anomalies import ANOMALIES
from tierledger.pipeline.tables.epochs import EPOCHS
from tierledger.pipeline.tables.segments import SEGMENTS
from tierledger.pipeline.tables.sizes import SIZES
from tierledger.pipeline.tables.transitions import TRANSITIONS

TABLES: dict[str, Table] = {
    table.name: table for table in (SEGMENTS, EPOCHS, SIZES, TRANSITIONS, ANOMALIES)
}
"""Every table that is folded, by name; `source.events` gives the logs as they are."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table that is going to be made: of which logs, and how far each."""

    table: Table
    store: JobStore
    logs: tuple[PlannedLog, ...]
    as_of: AsOf

    def fold(self, report: Report | None) -> FoldTask:
        """What makes its rows of some of its logs; damaged ones go to `report`."""
        return FoldTask(self.store, self.table, self.as_of, report)


async def planned(
    name: str | Table,
    store: JobStore,
    *,
    as_of: AsOf = NOW,
    topic: str | None = None,
    partition: int | None = None,
) -> TablePlan:
    """The table `name` of a store, or a job's own; needs no Spark yet.

    Raises:
        InvalidArgument: There is no such table, or a position was given for several logs.
        RemoteResourceNotFound: There is no such cluster, topic or partition.
        StoreRefused: It is no store.
    """
    table = TABLES.get(name) if isinstance(name, str) else name
    if table is None:
        raise InvalidArgument(f"expected one of {', '.join(TABLES)}, got {name!r}")
    store = await require_cluster(store)
    async with store.opened() as catalog:
        logs = await planned_logs(catalog, topic, partition)
    if as_of.position is not None and len(logs) != 1:
        raise InvalidArgument(
            f"a position is one partition's, but {len(logs)} are meant: give a time, or a "
            "topic and partition"
        )
    return TablePlan(table, store, tuple(logs), as_of)
