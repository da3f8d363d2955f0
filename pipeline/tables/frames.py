"""The tables that are made from logs: each is a function from a store to a DataFrame.

`events.evolve`, the code that leaders run, folds the logs; one task folds a whole log, in the
order of its positions. A job reads up to the ends of the logs when its function was called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, Unpack

from pyspark.accumulators import AccumulatorParam
from pyspark.sql.pandas.types import from_arrow_schema
from typing_extensions import override

from tierledger.pipeline.digests import Digest, OptionalDigest
from tierledger.pipeline.fold import PlannedLog, point
from tierledger.pipeline.folding.plan import divided
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import DamagedLog, FoldTask
from tierledger.pipeline.table_columns import Table
from tierledger.pipeline.tables.arrow import RecordBatch, record_batch, schema_of
from tierledger.pipeline.tables.plan import TablePlan, planned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Store: TypeAlias = "str | Mapping[str, object]"
"""A store's URL, or its settings."""


class _Listed(AccumulatorParam["list[Any]"]):
    """A list to which every task adds."""

    @override
    def zero(self, value: list[Any]) -> list[Any]:
        return []

    @override
    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        value1 += value2
        return value1


class Damage:
    """Collects the damaged logs that jobs left out; complete once an action has run."""

    def __init__(self, spark: SparkSession) -> None:
        self._listed = spark.sparkContext.accumulator([], _Listed())

    def report(self, found: list[DamagedLog]) -> None:
        """Add damaged logs; tasks call it."""
        self._listed.add(found)

    def logs(self) -> list[DamagedLog]:
        """Each damaged log once, however often Spark ran its task."""
        by_log = {(one.topic_id, one.partition): one for one in self._listed.value}
        return [by_log[key] for key in sorted(by_log)]


class Digests(Generic[OptionalDigest]):
    """Collects the digests of tasks; complete once an action has computed all rows."""

    def __init__(self, spark: SparkSession, empty: OptionalDigest) -> None:
        """Collect for one job of this session; each task begins with a copy of `empty`."""
        self.empty = empty
        self._listed = spark.sparkContext.accumulator([], _Listed())

    def report(self, number: int, digest: Digest) -> None:
        """Add the digest of task `number`; tasks call it."""
        self._listed.add([(number, digest)])

    def joined(self) -> OptionalDigest:
        """The digest of all rows. Each task counts once, however often Spark ran it."""
        found = deepcopy(self.empty)
        if found is not None:
            for _, digest in sorted(dict(self._listed.value).items(), key=itemgetter(0)):
                found.join(digest)
        return found


class _Tasks:
    """Folds the logs of tasks, which Spark passes by their numbers; for `mapInArrow`."""

    def __init__(
        self,
        fold: FoldTask,
        table: Table,
        tasks: list[list[PlannedLog]],
        digests: Digests[Any] | None,
    ) -> None:
        self._fold = fold
        self._table = table
        self._tasks = tasks
        self._digests = digests

    def __call__(self, numbers: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        schema = schema_of(self._table)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                digest = None if self._digests is None else deepcopy(self._digests.empty)
                for chunk in self._fold.run(self._tasks[number], digest):
                    yield record_batch(chunk, schema)
                if self._digests is not None and digest is not None:
                    self._digests.report(number, digest)


def tasks_of(plan: TablePlan, spark: SparkSession) -> list[list[PlannedLog]]:
    """The logs of each task, divided for the cores of this session."""
    return divided(plan.logs, spark.sparkContext.defaultParallelism)


def made(
    plan: TablePlan,
    spark: SparkSession,
    damage: Damage | None = None,
    digests: Digests[Any] | None = None,
) -> DataFrame:
    """The table as a lazy frame: nothing is read before its rows are computed."""
    tasks = tasks_of(plan, spark)
    fold = plan.fold(None if damage is None else damage.report)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    schema = from_arrow_schema(schema_of(plan.table))
    return numbers.mapInArrow(_Tasks(fold, plan.table, tasks, digests), schema)


class Selection(TypedDict, total=False):
    """The logs that a table covers; by default all logs of the store's only cluster."""

    cluster: str | None
    """The Kafka cluster's id; needed if the store holds several."""

    topic: str | None
    """Only topics of that name or id."""

    partition: int | None
    """Only partitions of that number."""

    damage: Damage | None
    """Collects damaged logs, which are left out. Without it, the first damaged log fails the
    query with `CorruptLog`."""


def segments(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """Every segment that the metadata knows, one row each.

    Args:
        spark: The session that makes the table.
        store: The store's URL, or its settings.
        as_of: A time (UTC if it has no zone), or a position if only one partition is selected;
            none is the present.
        of: See `Selection`.

    Raises:
        InvalidArgument: The store holds several clusters and none was named, or a position was
            given for several partitions.
        RemoteResourceNotFound: There is no such cluster, topic or partition.
        StoreRefused: The URL does not lead to a store.
    """
    return _table("segments", spark, store, as_of, of)


def epochs(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """The leaders' answers about each leader epoch. Takes and raises as `segments` does."""
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

    A damaged log has rows for the stays that ended before the damage.
    """
    return _table("transitions", spark, store, as_of, of)


def anomalies(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """Unusual events and states in the logs. As `segments` otherwise.

    A damaged log has rows for the anomalies before the damage, and one for the damage.
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
    # In a notebook this thread already runs an event loop.
    with ThreadPoolExecutor(1) as thread:
        plan = thread.submit(asyncio.run, coming).result()
    return made(plan, spark, of.get("damage"))
