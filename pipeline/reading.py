"""Tables in this process, as Arrow; neither Spark nor Java takes part."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tierledger.events.as_of import NOW, AsOf
from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.column_files.place import Note, warn
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import Report
from tierledger.pipeline.prices import Prices, checked
from tierledger.pipeline.table_batches import batches_of
from tierledger.pipeline.table_columns import Table
from tierledger.pipeline.tables.arrow import RecordBatch, Schema, schema_of
from tierledger.pipeline.tables.costs import COSTS, costs_table
from tierledger.pipeline.tables.plan import TABLES, planned

EVENTS = "events"

NAMES = (EVENTS, *TABLES)
"""The tables that need no prices: the raw events, and the folded ones."""


class ReadableTable(NamedTuple):
    """A table that is planned: its schema, and its rows up to the present ends of the logs."""

    schema: Schema
    batches: Iterator[RecordBatch]


@dataclass(frozen=True, slots=True)
class StoredTables:
    """The tables of chosen logs of a store, up to a point of these."""

    store: JobStore
    as_of: AsOf = NOW
    topic: str | None = None
    partition: int | None = None
    note: Note = warn
    """Takes why column files are not used."""
    prices: Prices | None = None
    """With prices there is one more table, `costs`."""
    since: AsOf = NOW
    """Where `events` begins; no other table knows it."""

    @property
    def folded(self) -> dict[str, Table]:
        """The folded tables by name."""
        return TABLES if self.prices is None else {**TABLES, COSTS: costs_table(self.prices)}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tables."""
        return (EVENTS, *self.folded)

    def table(self, name: str, report: Report | None = None) -> ReadableTable:
        """The table `name`; damaged logs are left out and go to `report`, if there is one.

        Raises:
            InvalidArgument: There is no such table, a position was given for several logs, the
                store holds several clusters and none was named, or the prices do not fit the
                store's topics.
            RemoteResourceNotFound: There is no such cluster, topic or partition.
            StoreRefused: The URL does not lead to a store.
            CorruptLog: Raised by the batches: a log is damaged, and there is no `report`.
        """
        if name == COSTS and self.prices is None:
            raise InvalidArgument("costs: expected prices, got none")
        if name not in self.names:
            raise InvalidArgument(f"expected one of {', '.join(self.names)}, got {name!r}")
        if name == COSTS and self.prices is not None:
            asyncio.run(checked(self.prices, self.store))
        coming = planned(
            self.folded.get(name, TABLES["segments"]),
            self.store,
            as_of=self.as_of,
            topic=self.topic,
            partition=self.partition,
        )
        plan = asyncio.run(coming)
        if name != EVENTS:
            return ReadableTable(schema_of(plan.table), batches_of(plan, report, self.note))
        return _events(self, report)


def _events(stored: StoredTables, report: Report | None) -> ReadableTable:
    # PySpark has the schema; the folded tables do without it.
    from tierledger.pipeline.source.bounds import EventBounds  # noqa: PLC0415
    from tierledger.pipeline.source.local import event_batches, event_schema  # noqa: PLC0415
    from tierledger.pipeline.source.options import SourceOptions  # noqa: PLC0415

    options = SourceOptions(
        stored.store.config,
        stored.store.cluster,
        topic=stored.topic,
        partition=stored.partition,
        bounds=EventBounds.between(stored.since, stored.as_of),
    )
    return ReadableTable(event_schema(), event_batches(options, report, stored.note))


def whole(table: ReadableTable) -> Any:  # noqa: ANN401 - Arrow has no types.
    """The table in memory."""
    return pa.Table.from_batches(table.batches, table.schema)
