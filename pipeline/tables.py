"""The tables that logs become: each a function from a store to a DataFrame.

The logs are folded by `events.evolve`, the code that leaders run; each by one task, in the
order of its positions. A job reads as far as the logs went when its function was called.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

from pyspark.accumulators import AccumulatorParam
from pyspark.sql.pandas.types import from_arrow_schema
from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.fold import NOW, point
from tierledger.pipeline.fold_plan import divided, planned_logs
from tierledger.pipeline.fold_store import JobStore, require_cluster
from tierledger.pipeline.fold_task import DamagedLog, FoldTask
from tierledger.pipeline.table_anomalies import ANOMALIES
from tierledger.pipeline.table_epochs import EPOCHS
from tierledger.pipeline.table_segments import SEGMENTS
from tierledger.pipeline.table_sizes import SIZES
from tierledger.pipeline.table_transitions import TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from tierledger.pipeline.fold import AsOf, PlannedLog
    from tierledger.pipeline.table_columns import Table

TABLES: dict[str, Table] = {
    table.name: table for table in (SEGMENTS, EPOCHS, SIZES, TRANSITIONS, ANOMALIES)
}
"""Every table that is folded, by name; `source.events` gives the logs as they are."""

Store: TypeAlias = "str | Mapping[str, object]"
"""A store's URL, or its settings."""


class _Listed(AccumulatorParam["list[DamagedLog]"]):
    """A list to which every task adds."""

    @override
    def zero(self, value: list[DamagedLog]) -> list[DamagedLog]:
        return []

    @override
    def addInPlace(
        self, value1: list[DamagedLog], value2: list[DamagedLog]
    ) -> list[DamagedLog]:
        value1 += value2
        return value1


class Damage:
    """Collects the logs that jobs had to set aside; complete once an action has run."""

    def __init__(self, spark: SparkSession) -> None:
        """Collect for jobs of this session."""
        self._listed = spark.sparkContext.accumulator([], _Listed())

    def report(self, found: list[DamagedLog]) -> None:
        """Called by tasks."""
        self._listed.add(found)

    def logs(self) -> list[DamagedLog]:
        """Each log once, however often Spark ran its task."""
        by_log = {(one.topic_id, one.partition): one for one in self._listed.value}
        return [by_log[key] for key in sorted(by_log)]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table that is going to be made: of which logs, and how far each."""

    table: Table
    store: JobStore
    logs: tuple[PlannedLog, ...]
    as_of: AsOf

    def tasks(self, spark: SparkSession) -> list[list[PlannedLog]]:
        """Which logs each task folds, for the cores that this session has."""
        return divided(self.logs, spark.sparkContext.defaultParallelism)

    def made(self, spark: SparkSession, damage: Damage | None = None) -> DataFrame:
        """The table; nothing is read before it is asked for rows."""
        tasks = self.tasks(spark)
        report = None if damage is None else damage.report
        fold = FoldTask(self.store, self.table, tasks, self.as_of, report)
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        return numbers.mapInArrow(fold, from_arrow_schema(self.table.schema))


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


class Selection(TypedDict, total=False):
    """What a table is made of; all of the only cluster if nothing is said."""

    cluster: str | None
    """The Kafka cluster, if the store holds several."""

    topic: str | None
    """Only topics of that name or id."""

    partition: int | None
    """Only partitions of that number."""

    damage: Damage | None
    """Told of damaged logs, which are left out; else the first one fails the query with
    `CorruptLog`."""


def segments(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """Every segment that the metadata knows, one row each.

    Args:
        spark: Where it is made.
        store: Its URL, or its settings.
        as_of: A time (UTC unless it says), or a position if there is one partition; else now.
        of: See `Selection`.

    Raises:
        InvalidArgument: Several clusters and none named; a position for several partitions.
        RemoteResourceNotFound: There is no such cluster, topic or partition.
        StoreRefused: It is no store.
    """
    return _table("segments", spark, store, as_of, of)


def epochs(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """What the leaders answer about each leader epoch. Takes and raises as `segments` does."""
    return _table("epochs", spark, store, as_of, of)


def sizes(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """Segments and bytes by partition, leader epoch and state. As `segments` otherwise."""
    return _table("sizes", spark, store, as_of, of)


def transitions(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """How long segments stay in each state. As `segments` otherwise.

    Of a damaged log, the stays that ended before the damage are there.
    """
    return _table("transitions", spark, store, as_of, of)


def anomalies(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """What was odd in the logs. As `segments` otherwise.

    Of a damaged log, what was odd before the damage is there, and the damage itself.
    """
    return _table("anomalies", spark, store, as_of, of)


def _table(
    name: str, spark: SparkSession, store: Store, as_of: int | datetime | None, of: Selection
) -> DataFrame:
    coming = planned(
        name,
        JobStore.of(store, of.get("cluster")),
        as_of=point(as_of),
        topic=of.get("topic"),
        partition=of.get("partition"),
    )
    # A notebook has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as thread:
        plan = thread.submit(asyncio.run, coming).result()
    return plan.made(spark, of.get("damage"))
