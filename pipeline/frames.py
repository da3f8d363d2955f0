"""The tables that are made from logs: each is a function from a store to a DataFrame.

One task makes all rows of a log: it folds it by `events.evolve`, the code that leaders run, or
makes them of columns where they are the same (`column_tables`). `events` alone are not folded:
Spark reads column files itself where it can. A job reads up to the ends of the logs when its
function was called.
"""

from __future__ import annotations

import asyncio
import pickle
from base64 import b64decode
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from typing_extensions import override

from tierledger.pipeline.digests import Digest, OptionalDigest
from tierledger.pipeline.fold import PlannedLog, point
from tierledger.pipeline.folding.plan import divided, divided_in_order
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.folding.task import Report as DamageReport
from tierledger.pipeline.prices import Prices, checked
from tierledger.pipeline.source.bounds import EventBounds
from tierledger.pipeline.source.native import copied, frame_of
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import PlannedTask, packed_tasks, planned_read
from tierledger.pipeline.source.scan import scanned
from tierledger.pipeline.source.schema import chosen_schema
from tierledger.pipeline.spark_tasks import cores_of, is_classic
from tierledger.pipeline.table_batches import batches_of
from tierledger.pipeline.table_columns import Table
from tierledger.pipeline.tables.arrow import (
    RecordBatch,
    Schema,
    blank_row,
    record_batch,
    schema_of,
    with_report,
)
from tierledger.pipeline.tables.costs import costs_table
from tierledger.pipeline.tables.plan import MADE_OF_COLUMNS, TablePlan, planned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

Store: TypeAlias = "str | Mapping[str, object]"
"""A store's URL, or its settings."""


Report: TypeAlias = "Callable[[type[_Reports], Sequence[Any]], None]"
"""Takes what a task reports, for the reports of that class."""

Run: TypeAlias = "Callable[[Iterable[RecordBatch], Report], Iterator[RecordBatch]]"
"""A task: batches that it makes of batches, and reports beside them."""

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

    def add(self, found: Sequence[Any]) -> None:
        """Add reports; tasks call it, in a Spark of this process."""
        self._added.add(list(found))

    def observe(self, seen: Observation) -> None:
        """Take further reports from the observation of a frame, by the class of this."""
        self._observed.append(seen)

    def all(self) -> list[Any]:
        """The reports so far. A task that Spark ran twice has reported twice."""
        if self.is_classic:
            return list(self._added.value)
        kept = " ".join(seen.get.get(REPORTS) or "" for seen in self._observed).split()
        each = [pickle.loads(b64decode(one)) for one in kept]  # noqa: S301 - Of our own tasks.
        return [report for one in each for report in one.get(type(self), ())]


class Damage(_Reports):
    """Collects the damaged logs that jobs left out; complete once an action has run."""

    def logs(self) -> list[DamagedLog]:
        """Each damaged log once, however often Spark ran its task."""
        by_log = {(one.topic_id, one.partition): one for one in self.all()}
        return [by_log[key] for key in sorted(by_log)]


class Digests(_Reports, Generic[OptionalDigest]):
    """Collects the digests of tasks, each with the task's number.

    Complete once an action has computed all rows.
    """

    def __init__(self, spark: SparkSession, empty: OptionalDigest) -> None:
        """Collect for one job of this session; each task begins with a copy of `empty`."""
        super().__init__(spark)
        self.empty = empty

    def joined(self) -> OptionalDigest:
        """The digest of all rows. Each task counts once, however often Spark ran it."""
        found = deepcopy(self.empty)
        if found is not None:
            for _, digest in sorted(dict(self.all()).items(), key=itemgetter(0)):
                found.join(digest)
        return found


class _Tasks:
    """Makes the rows of tasks, which Spark passes by their numbers; for `reported`."""

    def __init__(
        self,
        plan: TablePlan,
        tasks: list[list[PlannedLog]],
        empty: Digest | None,
        *,
        sets_aside: bool,
    ) -> None:
        """`sets_aside`: damaged logs are reported, and do not fail the task."""
        self._plan = plan
        self._tasks = tasks
        self._empty = empty
        self._sets_aside = sets_aside

    def __call__(self, numbers: Iterable[RecordBatch], report: Report) -> Iterator[RecordBatch]:
        damaged = partial(report, Damage) if self._sets_aside else None
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                if self._empty is None:
                    task = replace(self._plan, logs=tuple(self._tasks[number]))
                    yield from batches_of(task, damaged)
                else:
                    yield from self._digested(number, damaged, report)

    def _digested(
        self, number: int, damaged: DamageReport | None, report: Report
    ) -> Iterator[RecordBatch]:
        schema, digest = schema_of(self._plan.table), deepcopy(self._empty)
        for chunk in self._plan.fold(damaged).run(self._tasks[number], digest):
            yield record_batch(chunk, schema)
        report(Digests, [(number, digest)])


class _Adding:
    """Runs tasks that add what they report to accumulators; for `mapInArrow`."""

    def __init__(self, run: Run, reports: Sequence[_Reports]) -> None:
        self._run = run
        self._reports = {type(one): one for one in reports}

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        return self._run(batches, lambda kind, found: self._reports[kind].add(found))


class _InLastRow:
    """Runs tasks over Spark Connect: one more row has, in one more column, what they report."""

    def __init__(self, run: Run, schema: Schema) -> None:
        self._run = run
        self._schema = schema

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        reports: dict[type[_Reports], list[Any]] = {}
        row = blank_row(self._schema)

        def keep(kind: type[_Reports], found: Sequence[Any]) -> None:
            reports.setdefault(kind, []).extend(found)

        for batch in self._run(batches, keep):
            if batch.num_rows:
                row = batch.slice(0, 1)  # Arrow then has one schema for all.
            yield with_report(batch, None)
        yield with_report(row, pickle.dumps(reports))


def reported(
    rows: DataFrame, run: Run, schema: Schema, reports: Sequence[_Reports | None]
) -> DataFrame:
    """`rows` as `run` turns them into batches of `schema`; `reports` take what it reports."""
    wanted = [one for one in reports if one is not None]
    of_spark = from_arrow_schema(schema)
    if all(one.is_classic for one in wanted):
        return rows.mapInArrow(_Adding(run, wanted), of_spark)
    seen = Observation()
    for one in wanted:
        one.observe(seen)
    found = rows.mapInArrow(_InLastRow(run, schema), of_spark.add(REPORTS, "binary"))
    # One text: a server of Spark 4.0 cannot send an array of an observation.
    texts = sql.collect_list(sql.translate(sql.base64(REPORTS), "\r\n", ""))
    found = found.observe(seen, sql.array_join(texts, " ").alias(REPORTS))
    return found.where(f"{REPORTS} is null").drop(REPORTS)


class _EventTasks:
    """Reads the events of tasks, which Spark passes by their numbers; for `mapInArrow`."""

    def __init__(
        self, options: SourceOptions, tasks: Sequence[PlannedTask], schema: Schema
    ) -> None:
        self._options = options
        self._tasks = tasks
        self._schema = schema

    def __call__(self, numbers: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                task = self._tasks[number]
                yield from scanned(self._options, task.cluster, self._schema, task.pieces)


def tasks_of(plan: TablePlan, spark: SparkSession) -> list[list[PlannedLog]]:
    """The logs of each task, divided for the cores of this session."""
    divide = divided_in_order if plan.table.name in MADE_OF_COLUMNS else divided
    return divide(plan.logs, cores_of(spark))


def made(
    plan: TablePlan,
    spark: SparkSession,
    damage: Damage | None = None,
    digests: Digests[Any] | None = None,
) -> DataFrame:
    """The table as a lazy frame: nothing is read before its rows are computed."""
    tasks = tasks_of(plan, spark)
    empty = None if digests is None else digests.empty
    run = _Tasks(plan, tasks, empty, sets_aside=damage is not None)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return reported(numbers, run, schema_of(plan.table), [damage, digests])


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


def events(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    *,
    since: int | datetime | None = None,
    columns: Sequence[str] = (),
    cluster: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> DataFrame:
    """Every event of the logs, and rows that mark damage, one row each, in no order.

    A Spark of this machine reads column files itself. So it reads of them no more columns and
    groups of rows than a query on the frame needs.

    Args:
        spark: The session that reads.
        store: The store's URL, or its settings.
        as_of: Only events up to that time (UTC if it has no zone), or up to that position in
            each log.
        since: Only events from that time, or from that position in each log, on.
        columns: The frame's columns; all but `stored` if none is named. What no file has is
            decoded into these alone. With `stored`, no files are used.
        cluster: The Kafka cluster's id; needed if the store holds several.
        topic: Only topics of that name or id.
        partition: Only partitions of that number.

    Raises:
        InvalidArgument: The store holds several clusters and none was named, a column is
            unknown, or `as_of` is before `since`.
        RemoteResourceNotFound: There is no such cluster, topic or partition.
        StoreRefused: The URL does not lead to a store.
    """
    options = SourceOptions(
        JobStore.of(store).config,
        cluster,
        topic,
        partition,
        tuple(columns),
        EventBounds.between(point(since), point(as_of)),
    )
    schema = chosen_schema(options)
    read = _now(planned_read(options))
    if read is None:
        return spark.createDataFrame([], schema)
    copies = copied(spark, options, read)
    in_tasks = [one for one in read.in_files if one.file not in copies]
    tasks = packed_tasks(read.cluster, [*in_tasks, *read.of_logs], options)
    run = _EventTasks(options, tasks, to_arrow_schema(schema))
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    frame = numbers.mapInArrow(run, schema)
    if not copies:
        return frame
    of_files = frame_of(spark, options, read, copies.values()).select(schema.names)
    return of_files.unionAll(frame) if tasks else of_files


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


def trash(
    spark: SparkSession,
    store: Store,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """Every segment that was deleted and whose data stays. As `segments` otherwise."""
    return _table("trash", spark, store, as_of, of)


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


def costs(
    spark: SparkSession,
    store: Store,
    prices: Prices,
    as_of: int | datetime | None = None,
    **of: Unpack[Selection],
) -> DataFrame:
    """What each partition costs, at prices of `prices.read_prices`. As `segments` otherwise."""

    async def fitting() -> TablePlan:
        await checked(prices, JobStore.of(store, of.get("cluster")))
        return await _planned(costs_table(prices), store, as_of, of)

    return _frame(fitting(), spark, of)


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
    return _frame(_planned(name, store, as_of, of), spark, of)


def _planned(
    table: str | Table, store: Store, as_of: int | datetime | None, of: Selection
) -> Coroutine[Any, Any, TablePlan]:
    return planned(
        table,
        JobStore.of(store, of.get("cluster")),
        as_of=point(as_of),
        topic=of.get("topic"),
        partition=of.get("partition"),
    )


def _frame(
    coming: Coroutine[Any, Any, TablePlan], spark: SparkSession, of: Selection
) -> DataFrame:
    return made(_now(coming), spark, of.get("damage"))


def _now(coming: Coroutine[Any, Any, T]) -> T:
    # In a notebook this thread already runs an event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coming).result()
