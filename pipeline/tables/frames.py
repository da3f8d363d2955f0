"""The tables that are made from logs: each is a function from a store to a DataFrame.

`events.evolve`, the code that leaders run, folds the logs; one task folds a whole log, in the
order of its positions. A job reads up to the ends of the logs when its function was called.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, Unpack

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from typing_extensions import override

from tierledger.pipeline.cores import cores_of, is_classic
from tierledger.pipeline.digests import Digest, OptionalDigest
from tierledger.pipeline.fold import PlannedLog, point
from tierledger.pipeline.folding.plan import divided
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import DamagedLog, FoldTask
from tierledger.pipeline.table_columns import Table
from tierledger.pipeline.tables.arrow import (
    RecordBatch,
    blank_row,
    record_batch,
    schema_of,
    with_report,
)
from tierledger.pipeline.tables.plan import TablePlan, planned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Store: TypeAlias = "str | Mapping[str, object]"
"""A store's URL, or its settings."""


REPORTS = "tierledger_reports"
"""A column of a frame over Spark Connect that its user does not see."""


class _Listed(AccumulatorParam["list[Any]"]):
    """A list to which every task adds."""

    @override
    def zero(self, value: list[Any]) -> list[Any]:
        return []

    @override
    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        value1 += value2
        return value1


class _Reports:
    """What tasks of a session report beside their rows; complete once an action has run.

    With Spark in this process tasks add to an accumulator. Spark Connect has none: there a
    frame's last rows are reports, and an observation keeps them from the frame's user.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.is_classic = is_classic(spark)
        self._observed: list[Observation] = []
        if self.is_classic:
            self._added = spark.sparkContext.accumulator([], _Listed())

    def add(self, found: list[Any]) -> None:
        """Add reports; tasks call it, in a Spark of this process."""
        self._added.add(found)

    def observe(self, seen: Observation) -> None:
        """Take further reports from the observation of a frame, by the class of this."""
        self._observed.append(seen)

    def all(self) -> list[Any]:
        """The reports so far. A task that Spark ran twice has reported twice."""
        if self.is_classic:
            return list(self._added.value)
        kept = [one for seen in self._observed for one in seen.get.get(REPORTS, ())]
        each = [pickle.loads(one) for one in kept]  # noqa: S301 - Our own tasks made them.
        return [report for one in each for report in one.get(type(self).__name__, ())]


class Damage(_Reports):
    """Collects the damaged logs that jobs left out; complete once an action has run."""

    def report(self, found: list[DamagedLog]) -> None:
        """Add damaged logs; tasks call it."""
        self.add(found)

    def logs(self) -> list[DamagedLog]:
        """Each damaged log once, however often Spark ran its task."""
        by_log = {(one.topic_id, one.partition): one for one in self.all()}
        return [by_log[key] for key in sorted(by_log)]


class Digests(_Reports, Generic[OptionalDigest]):
    """Collects the digests of tasks; complete once an action has computed all rows."""

    def __init__(self, spark: SparkSession, empty: OptionalDigest) -> None:
        """Collect for one job of this session; each task begins with a copy of `empty`."""
        super().__init__(spark)
        self.empty = empty

    def report(self, number: int, digest: Digest) -> None:
        """Add the digest of task `number`; tasks call it."""
        self.add([(number, digest)])

    def joined(self) -> OptionalDigest:
        """The digest of all rows. Each task counts once, however often Spark ran it."""
        found = deepcopy(self.empty)
        if found is not None:
            for _, digest in sorted(dict(self.all()).items(), key=itemgetter(0)):
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


class _ReportingTasks:
    """The same over Spark Connect: a last row has what the task reports, in one more column."""

    def __init__(
        self, plan: TablePlan, tasks: list[list[PlannedLog]], empty: Digest | None
    ) -> None:
        self._plan = plan
        self._tasks = tasks
        self._empty = empty

    def __call__(self, numbers: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        schema = schema_of(self._plan.table)
        damaged = list[DamagedLog]()
        fold = self._plan.fold(damaged.extend)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                digest = deepcopy(self._empty)
                for chunk in fold.run(self._tasks[number], digest):
                    yield with_report(record_batch(chunk, schema), None)
                digests = [] if digest is None else [(number, digest)]
                report = {Damage.__name__: list(damaged), Digests.__name__: digests}
                damaged.clear()
                yield with_report(blank_row(schema), pickle.dumps(report))


def tasks_of(plan: TablePlan, spark: SparkSession) -> list[list[PlannedLog]]:
    """The logs of each task, divided for the cores of this session."""
    return divided(plan.logs, cores_of(spark))


def made(
    plan: TablePlan,
    spark: SparkSession,
    damage: Damage | None = None,
    digests: Digests[Any] | None = None,
) -> DataFrame:
    """The table as a lazy frame: nothing is read before its rows are computed."""
    tasks = tasks_of(plan, spark)
    if not is_classic(spark) and (damage is not None or digests is not None):
        return _observed(plan, spark, tasks, damage, digests)
    fold = plan.fold(None if damage is None else damage.report)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    schema = from_arrow_schema(schema_of(plan.table))
    return numbers.mapInArrow(_Tasks(fold, plan.table, tasks, digests), schema)


def _observed(
    plan: TablePlan,
    spark: SparkSession,
    tasks: list[list[PlannedLog]],
    damage: Damage | None,
    digests: Digests[Any] | None,
) -> DataFrame:
    seen = Observation()
    for one in (damage, digests):
        if one is not None:
            one.observe(seen)
    run = _ReportingTasks(plan, tasks, None if digests is None else digests.empty)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    schema = from_arrow_schema(schema_of(plan.table)).add(REPORTS, "binary")
    rows = numbers.mapInArrow(run, schema)
    rows = rows.observe(seen, sql.collect_list(REPORTS).alias(REPORTS))
    return rows.where(f"{REPORTS} is null").drop(REPORTS)


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
