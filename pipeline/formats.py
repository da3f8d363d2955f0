"""`spark.read.format("tierledger.segments")` and its like: each folded table as a format.

So SQL and clients that have no tierledger read the tables, too. A damaged log fails the query:
what a `Damage` collects has no place in a format.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from typing_extensions import override

from tierledger.events.as_of import AsOf
from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.folding.plan import divided
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.source.options import (
    keeping,
    kept,
    number_of,
    own_options,
    point_of,
)
from tierledger.pipeline.source.read_only import ReadOnlySource
from tierledger.pipeline.source.source import TierledgerSource, checked_schema
from tierledger.pipeline.tables.arrow import RecordBatch, record_batch, schema_of
from tierledger.pipeline.tables.plan import TABLES, TablePlan, planned
from tierledger.storage.keys import INT32_MAX

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS = ("store", "cluster", "topic", "partition", "as_of")
CORES = 16
"""For how many cores a read is divided: the format does not learn how many Spark has."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of one read."""

    store: JobStore
    as_of: AsOf
    topic: str | None
    partition: int | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> TableOptions:
        """The checked form of `given`, whose names are in lower case.

        Raises:
            InvalidArgument: An option is unknown or invalid, or `store` is missing.
        """
        options = own_options(given)
        for name in sorted(options.keys() - set(OPTIONS)):
            raise InvalidArgument(f"expected options {', '.join(OPTIONS)}; got {name!r}")
        store = options.get("store")
        if not store:
            raise InvalidArgument("expected the option store, for example sqlite:FILE")
        return cls(
            JobStore.of(store, options.get("cluster")),
            point_of(options, "as_of"),
            options.get("topic"),
            number_of(options, "partition", 0, INT32_MAX),
        )

    def plan(self, table: str) -> TablePlan:
        """The plan of a table, up to the present ends of the logs."""
        coming = planned(
            table, self.store, as_of=self.as_of, topic=self.topic, partition=self.partition
        )
        return asyncio.run(coming)


class EventsSource(TierledgerSource):
    """The format `tierledger.events`: the raw events, under the name of their table."""

    @classmethod
    @override
    def name(cls) -> str:
        return "tierledger.events"


class LogsTask(InputPartition):
    """The logs that one Spark task folds."""

    def __init__(self, plan: TablePlan, logs: list[PlannedLog]) -> None:
        super().__init__(None)
        self.plan = plan
        self.logs = logs


class TableReader(DataSourceReader):
    """Folds the logs that a store holds now."""

    def __init__(self, options: TableOptions, table: str, columns: list[str]) -> None:
        self._options = options
        self._table = table
        self._columns = columns

    @override
    def partitions(self) -> list[LogsTask]:
        whole = self._options.plan(self._table)
        plan = TablePlan(whole.table, whole.store, (), whole.as_of)
        return [LogsTask(plan, logs) for logs in divided(whole.logs, CORES) if logs]

    @override
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        if not isinstance(partition, LogsTask):
            return  # Without tasks Spark passes a partition of its own.
        schema = schema_of(partition.plan.table)
        for chunk in partition.plan.fold(None).run(partition.logs):
            yield record_batch(chunk, schema).select(self._columns)


class TableSource(ReadOnlySource):
    """The format of one table; those that Spark finds are derived from it."""

    TABLE: ClassVar[str]

    @classmethod
    @override
    def name(cls) -> str:
        return f"tierledger.{cls.TABLE}"

    @override
    def schema(self) -> StructType:
        TableOptions.of(self.options)
        return keeping(self._whole(), self.options)

    @override
    def reader(self, schema: StructType) -> TableReader:
        options = TableOptions.of(kept(schema, self.options))
        names = checked_schema(schema, self._whole()).fieldNames()
        return TableReader(options, self.TABLE, names)

    def _whole(self) -> StructType:
        return from_arrow_schema(schema_of(TABLES[self.TABLE]))


class SegmentsSource(TableSource):
    """The format `tierledger.segments`."""

    TABLE = "segments"


class TrashSource(TableSource):
    """The format `tierledger.trash`."""

    TABLE = "trash"


class EpochsSource(TableSource):
    """The format `tierledger.epochs`."""

    TABLE = "epochs"


class SizesSource(TableSource):
    """The format `tierledger.sizes`."""

    TABLE = "sizes"


class TransitionsSource(TableSource):
    """The format `tierledger.transitions`."""

    TABLE = "transitions"


class AnomaliesSource(TableSource):
    """The format `tierledger.anomalies`."""

    TABLE = "anomalies"
