"""The format `tierledger`: what a job finds is what the logs hold."""

import asyncio
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.models.spark.rows import (
    Row,
    in_order,
    partition_of,
    read,
    read_here,
    reader_of,
    row_of,
    rows,
    writing,
)
from tests.models.storage.stored_partitions import (
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
from tierledger.pipeline.frames import events
from tierledger.pipeline.log_ranges import LogRange
from tierledger.pipeline.source.schema import DEFAULT_SCHEMA
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


def tasks_of(url: str, **options: object) -> list[LogRange]:
    """The parts of the log that tasks would read."""
    tasks = reader_of(url, **options).partitions()
    pieces = [piece for task in tasks for piece in task.pieces]
    assert all(isinstance(piece, LogRange) for piece in pieces)
    return pieces  # type: ignore[return-value]


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
        log.SegmentKept(bytes(16), 9, 1, 3, 5, "undo"),
        log.SegmentPurgeStarted(bytes(16), 2**40),
        log.SegmentPurged(bytes(16)),
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

    positions = [(row["topic"], row["position"]) for row in found]
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


CONDITIONS = (
    "topic LIKE 'pay%' AND position BETWEEN 3 AND 5",
    "position > 17 OR topic = 'payments'",
    f"log_time_ms > {TIME_MS + 5000} AND position < 30",
)


@pytest.mark.parametrize("hands_down", ["true", "false"])
def test_a_frame_that_is_used_again_gives_what_each_filter_asks_for(
    spark: SparkSession, sqlite_url: str, hands_down: str
) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 20))
    asyncio.run(partition_of(sqlite_url, OTHER, 10))
    frame = read(spark, sqlite_url, rows_per_task=20)
    known = spark.createDataFrame(frame.collect(), DEFAULT_SCHEMA).cache()

    spark.conf.set("spark.sql.python.filterPushdown.enabled", hands_down)
    try:
        for condition in (*CONDITIONS, "true"):
            found = frame.where(condition)
            assert rows(found.collect()) == rows(known.where(condition).collect()), condition
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


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
    reader = reader_of(sqlite_url)
    tasks = reader.partitions()

    asyncio.run(partition_of(sqlite_url, OTHER, 3))
    asyncio.run(append_more(sqlite_url))
    found = [batch.num_rows for task in tasks for batch in reader.read(task)]

    assert sum(found) == 7


async def append_more(url: str) -> None:
    async with writing(url) as backend:
        partition = await StoredPartition.resumed(backend)
        await partition.append(finished(99))


def test_a_time_or_a_position_cuts_each_log(spark: SparkSession, sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 20))
    asyncio.run(partition_of(sqlite_url, OTHER, 2))
    moment = datetime.fromtimestamp(TIME_MS / 1000 + 5, UTC)

    at_position = events(spark, sqlite_url, as_of=3, columns=["topic"])
    at_time = events(spark, sqlite_url, moment)

    assert at_position.columns == ["topic"]
    assert at_position.count() == 8
    assert at_time.schema == DEFAULT_SCHEMA
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
