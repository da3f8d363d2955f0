"""The format `tierledger`: what a job finds is what the logs hold."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    LessThanOrEqual,
    StringStartsWith,
)

from tests.models.spark_rows import (
    Row,
    in_order,
    partition_of,
    read,
    row_of,
    rows,
    writing,
)
from tests.models.stored_partitions import (
    CLUSTER,
    TIME_MS,
    TIP,
    TRACES,
    StoredPartition,
    finished,
    import_trace,
)
from tierledger.events import log_events as log
from tierledger.events.event_codec import decode_events, genesis
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.plan import LogRange
from tierledger.pipeline.source.columns import DEFAULT_SCHEMA
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.source import EVENT_SCHEMA, TierledgerReader, events
from tierledger.storage.partition.event_log import encode_batch

IMPORTED = ["one-broker", "three-brokers-churn", "topic-deletion", "custom-metadata-over-limit"]
OTHER = TopicIdPartition(Uuid(bytes(range(1, 17))), 0, "payments")


async def imported(url: str) -> tuple[list[StoredPartition], list[Row]]:
    """Real traces in one store, and every event as a row."""
    async with writing(url) as backend:
        stored = [
            one for name in IMPORTED for one in await import_trace(backend, TRACES / name)
        ]
        found = [
            row_of(partition.tip, event)
            for partition in stored
            async for event in partition.reader().events()
        ]
    return stored, in_order(found)


def tasks_of(url: str, *filters: Filter, **options: object) -> list[LogRange]:
    """What tasks would read, once `filters` are pushed down."""
    texts = {name: str(value) for name, value in options.items()}
    reader = TierledgerReader(SourceOptions.of({"store": url} | texts), DEFAULT_SCHEMA)
    reader.pushFilters(list(filters))
    pieces = [piece for task in reader.partitions() for piece in task.pieces]
    assert all(isinstance(piece, LogRange) for piece in pieces)
    return pieces  # type: ignore[return-value]


def read_here(url: str, *filters: Filter, **options: object) -> list[pa.RecordBatch]:
    """What the tasks give, without Spark."""
    texts = {name: str(value) for name, value in options.items()}
    reader = TierledgerReader(SourceOptions.of({"store": url} | texts), DEFAULT_SCHEMA)
    reader.pushFilters(list(filters))
    return [batch for task in reader.partitions() for batch in reader.read(task)]


def test_every_event_of_real_traces_is_a_row_and_nothing_else_is(
    spark: SparkSession, store_url: str
) -> None:
    _, expected = asyncio.run(imported(store_url))

    found = read(spark, store_url)

    assert found.schema == DEFAULT_SCHEMA
    assert rows(found.collect()) == expected


def test_the_stored_bytes_are_the_logs_own(spark: SparkSession, sqlite_url: str) -> None:
    stored, expected = asyncio.run(imported(sqlite_url))

    found = events(spark, sqlite_url, columns=["topic_id", "partition", "position", "stored"])

    held = rows(found.collect())
    assert len(held) == len(expected)
    for partition in stored:
        tip = partition.tip
        bytes_of_log = [
            row["stored"]
            for row in held
            if (row["topic_id"], row["partition"]) == (str(tip.topic_id), tip.partition)
        ]
        _, last = decode_events(bytes_of_log, 0, genesis(CLUSTER, tip.topic_id, tip.partition))
        assert last == partition.state.chain_hash


def test_every_kind_of_event_has_its_row(spark: SparkSession, sqlite_url: str) -> None:
    bodies: list[log.Body] = [
        log.SessionOpened(1, 5, 2, 3, 4, None, "orders", None),
        log.SessionDisputed(5, None, 6, 7, 1),
        *finished(0),
        log.SegmentUpdated(bytes(16), 2, 1, -5, b"\0\xff", 9, None, (1, b"x")),
        log.SegmentAdded(
            bytes(16), 0, 9, (0, 0, 3, 5), 2**31 - 1, 5, 1, 5, b"", False, (49, 2**40)
        ),
        log.PartitionDeleteUpdated(2, 1, 2**62),
        log.ImportRecordDropped((3, 4), 'a "reason"', None),
        log.ImportRecordDropped((3, 5), "another", bytes(range(16))),
        log.TombstonesDropped(4, 2),
        log.SessionClosed(1, "über"),
    ]
    written = asyncio.run(write_each(sqlite_url, bodies))

    found = read(spark, sqlite_url)

    assert rows(found.collect()) == [row_of(TIP, event) for event in written]


async def write_each(url: str, bodies: list[log.Body]) -> list[log.Event]:
    async with writing(url) as backend:
        partition = StoredPartition(backend)
        made = [
            log.Event(at, 1, TIME_MS + at, 5, b"request" if at % 2 else None, body)
            for at, body in enumerate(bodies)
        ]
        # Not folded: no partition lives through all of this.
        batch = encode_batch(partition.reader().serde, made, partition.state.chain_hash)
        await backend.create(partition.keys.log_batch(TIP, 0), batch.value)
        return made


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
def test_a_log_read_in_ranges_gives_each_event_once(sqlite_url: str, size: int) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 50))
    asyncio.run(partition_of(sqlite_url, OTHER, 3))

    found = read_here(sqlite_url, rows_per_task=size)

    positions = [
        (row["topic"], row["position"]) for batch in found for row in batch.to_pylist()
    ]
    assert sorted(positions) == [
        *(("orders", at) for at in range(101)),
        *(("payments", at) for at in range(7)),
    ]
    assert len(tasks_of(sqlite_url, rows_per_task=size)) >= 107 // max(size, 2) // 2


def test_one_large_partition_is_shared_out_among_tasks(sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 100))

    ranges = tasks_of(sqlite_url, rows_per_task=50)

    lengths = [one.end.next_position - one.start.next_position for one in ranges if one.end]
    assert sum(lengths) == 201
    assert len(lengths) == 5
    assert max(lengths) <= 52


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (EqualTo(("topic",), "payments"), {"payments"}),
        (EqualTo(("topic_id",), str(TIP.topic_id)), {"orders"}),
        (In(("topic",), ("orders", "none")), {"orders"}),
        (StringStartsWith(("topic",), "pay"), {"payments"}),
        (EqualTo(("partition",), 3), {"orders"}),
        (GreaterThan(("partition",), 3), set()),
    ],
)
def test_partitions_that_a_filter_leaves_out_are_not_read(
    sqlite_url: str, one: EqualTo, wanted: set[str]
) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 2))
    asyncio.run(partition_of(sqlite_url, OTHER, 2))

    ranges = tasks_of(sqlite_url, one)

    assert {piece.topic_id_partition.topic for piece in ranges} == wanted


@pytest.mark.parametrize(
    ("one", "count"),
    [
        (LessThanOrEqual(("position",), 6), 1),
        (GreaterThan(("position",), 92), 1),
        (EqualTo(("position",), 50), 1),
        (LessThanOrEqual(("log_time_ms",), TIME_MS - 1), 1),
        (GreaterThan(("log_time_ms",), TIME_MS + 10**9), 0),
    ],
)
def test_ranges_that_a_filter_leaves_out_are_not_read(
    sqlite_url: str, one: EqualTo, count: int
) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 50))

    ranges = tasks_of(sqlite_url, one, rows_per_task=10)

    assert len(tasks_of(sqlite_url, rows_per_task=10)) == 11
    assert len(ranges) == count


def test_no_range_with_a_wanted_row_is_left_out(sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 12))
    every = [
        (row["position"], row["log_time_ms"])
        for batch in read_here(sqlite_url)
        for row in batch.to_pylist()
    ]

    for position, time_ms in every:
        for filters in (
            [EqualTo(("position",), position)],
            [
                GreaterThan(("position",), position - 1),
                LessThanOrEqual(("position",), position),
            ],
            [EqualTo(("log_time_ms",), time_ms)],
            [In(("log_time_ms",), (time_ms,)), In(("position",), (position,))],
        ):
            found = [
                row["position"]
                for batch in read_here(sqlite_url, *filters, rows_per_task=3)
                for row in batch.to_pylist()
            ]
            assert position in found
            assert len(found) <= 9


CONDITIONS = (
    "topic = 'orders'",
    "partition IN (0, 7)",
    "topic LIKE 'pay%' AND position BETWEEN 3 AND 5",
    "position > 17 OR topic = 'payments'",
    f"log_time_ms <= {TIME_MS + 5000}",
    f"log_time_ms > {TIME_MS + 5000} AND position < 30",
    "NOT topic = 'orders' AND position IS NOT NULL",
    "segment_id IS NOT NULL AND position IN (2, 4, 44)",
)


@pytest.fixture
def spark_as_it_is(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that hands no filters down, as Spark is by itself."""
    name = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(name, "false")
    yield spark
    spark.conf.set(name, "true")


def assert_filtered(spark: SparkSession, url: str, *conditions: str) -> None:
    asyncio.run(partition_of(url, TIP, 20))
    asyncio.run(partition_of(url, OTHER, 10))
    every = read(spark, url, rows_per_task=20).collect()
    known = spark.createDataFrame(every, DEFAULT_SCHEMA).cache()
    for condition in conditions:
        found = read(spark, url, rows_per_task=20).where(condition)
        assert rows(found.collect()) == rows(known.where(condition).collect()), condition


def test_a_filter_that_is_pushed_down_gives_the_same_rows(
    spark: SparkSession, sqlite_url: str
) -> None:
    assert_filtered(spark, sqlite_url, *CONDITIONS)


def test_a_filter_that_is_not_pushed_down_gives_the_same_rows(
    spark_as_it_is: SparkSession, sqlite_url: str
) -> None:
    assert_filtered(spark_as_it_is, sqlite_url, CONDITIONS[2])


def test_columns_that_are_left_out_are_not_made(spark: SparkSession, sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 1))
    by_schema = spark.read.format("tierledger").schema("state string, position long")

    few = read(spark, sqlite_url, columns="position, type")
    own = by_schema.option("store", sqlite_url).load()

    assert few.columns == ["position", "type"]
    assert [tuple(row) for row in few.collect()] == [
        (0, "SessionOpened"),
        (1, "SegmentAdded"),
        (2, "SegmentUpdated"),
    ]
    assert [tuple(row) for row in own.collect()] == [
        (None, 0),
        ("COPY_SEGMENT_STARTED", 1),
        ("COPY_SEGMENT_FINISHED", 2),
    ]


def test_a_job_reads_what_was_there_when_it_was_planned(sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 3))
    reader = TierledgerReader(SourceOptions.of({"store": sqlite_url}), DEFAULT_SCHEMA)
    tasks = reader.partitions()

    asyncio.run(partition_of(sqlite_url, OTHER, 3))
    asyncio.run(append_more(sqlite_url))
    found = [batch.num_rows for task in tasks for batch in reader.read(task)]

    assert sum(found) == 7


async def append_more(url: str) -> None:
    async with writing(url) as backend:
        partition = StoredPartition(backend)
        loaded = await partition.reader().state()
        partition.state, partition.next_batch = loaded
        await partition.append(finished(99))


def test_a_time_or_a_position_cuts_each_log(spark: SparkSession, sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 20))
    asyncio.run(partition_of(sqlite_url, OTHER, 2))
    moment = datetime.fromtimestamp(TIME_MS / 1000 + 5, UTC)

    at_position = events(spark, sqlite_url, as_of=3, columns=["topic"])
    at_time = events(spark, sqlite_url, as_of=moment, rows_per_task=4)

    assert at_position.columns == ["topic"]
    assert at_position.count() == 8
    assert at_time.columns == EVENT_SCHEMA.fieldNames()
    times = sorted(row.log_time_ms - TIME_MS for row in at_time.collect())
    every = sorted(row.log_time_ms - TIME_MS for row in events(spark, sqlite_url).collect())
    assert times == [one for one in every if one <= 5000]
    assert times[-1] == 5000 < every[-1]


def test_one_topic_and_one_partition_can_be_named(spark: SparkSession, sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 2))
    asyncio.run(partition_of(sqlite_url, OTHER, 1))

    by_name = read(spark, sqlite_url, topic="payments")
    by_id = read(spark, sqlite_url, topic=TIP.topic_id, partition=3)

    assert by_name.count() == 3
    assert by_id.count() == 5
    with pytest.raises(PySparkException, match="does not have topic 'orders' with partition 4"):
        read(spark, sqlite_url, topic="orders", partition=4).count()
