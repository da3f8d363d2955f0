"""`tierledger.records`: what a consumer got, out of the tier, without a broker."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.models.spark.tier import (
    BROKERS_TIER,
    consumed_rows,
    copy_segments,
    copy_written,
    delete_partition,
    delete_segment,
    directly,
    keep_segment,
    plain,
    read_all,
    reader_of,
    records,
)
from tests.models.tiering import tier_trace
from tests.models.tiering.read_tier import read
from tests.models.tiering.written_log import (
    ABORT,
    COMMIT,
    TIP,
    WrittenLog,
    WrittenTier,
    encoded,
)
from tierledger.events.errors import PartitionDeleted
from tierledger.pipeline.records.source import RECORD_SCHEMA
from tierledger.tiering.reader.reader import IsolationLevel

TOPICS = sorted({tip.topic for tip in tier_trace.topics()})
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
ISOLATIONS = pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
PAYMENTS = "payments-tx"


@pytest.mark.parametrize("topic", TOPICS)
@ISOLATIONS
def test_it_gives_what_a_consumer_got_with_a_task_for_each_segment(
    store: str, topic: str, isolation: str
) -> None:
    """Every codec, transactions, and large records."""
    found, tasks = directly(store, BROKERS_TIER, topic=topic, isolation=isolation)

    assert found == consumed_rows(isolation, topic)
    assert found
    segments = [one for one in tier_trace.segments() if _topic(one) == topic]
    assert tasks == len(segments)


def _topic(segment: tier_trace.TieredSegment) -> str:
    return segment.metadata.topic_id_partition.topic


@ISOLATIONS
def test_spark_gives_it_without_a_registration(
    spark: SparkSession, store: str, isolation: str
) -> None:
    found = records(spark, store, BROKERS_TIER, topic=PAYMENTS, isolation=isolation)

    assert found.schema == RECORD_SCHEMA
    assert found.rdd.getNumPartitions() == 8
    assert plain(found) == consumed_rows(isolation, PAYMENTS)


def test_some_columns_are_given_alone_and_in_any_order(spark: SparkSession, store: str) -> None:
    schema = "offset bigint, headers array<struct<key:string,value:binary>>, key binary"
    reading = spark.read.format("tierledger.records").schema(schema)

    found = reading.options(store=store, tier=BROKERS_TIER, topic="large").load()

    names = ("offset", "headers", "key")
    expected = [
        {name: row[name] for name in names} for row in consumed_rows(UNCOMMITTED, "large")
    ]
    assert [
        {
            "offset": row.offset,
            "headers": row.headers
            and [
                (one.key, None if one.value is None else bytes(one.value))
                for one in row.headers
            ],
            "key": None if row.key is None else bytes(row.key),
        }
        for row in found.sort("offset").collect()
    ] == expected


@pytest.mark.parametrize("start", [0, 40, 81, 82, 83, 84, 200, 256, 257])
@pytest.mark.parametrize("end", [0, 82, 90, 257, 1000])
def test_a_range_of_offsets_has_no_more(store: str, start: int, end: int) -> None:
    if end < start:
        return
    options = {"partition": 0, "startingOffset": start, "endingOffset": end}
    for isolation in (UNCOMMITTED, COMMITTED):
        found, tasks = directly(
            store, BROKERS_TIER, topic=PAYMENTS, isolation=isolation, **options
        )

        expected = consumed_rows(isolation, PAYMENTS, [0])
        assert found == [row for row in expected if start <= row["offset"] < end]
        touched = [
            one
            for one in tier_trace.segments_of(PAYMENTS, 0)
            if start <= one.metadata.end_offset and one.metadata.start_offset < end
        ]
        assert tasks == (len(touched) if end > start else 0)


def test_a_range_of_times_begins_and_ends_with_the_first_record_that_is_not_earlier(
    store: str,
) -> None:
    expected = consumed_rows(UNCOMMITTED, "codec-none")
    times = sorted({row["timestamp_ms"] for row in expected})
    some = [times[0] - 1, *times[:: len(times) // 5], times[-1] + 1]
    assert len(some) > 5
    for start, end in pairwise(some):
        options = {"startingTimestamp": start, "endingTimestamp": end}

        found, _ = directly(store, BROKERS_TIER, topic="codec-none", **options)

        wanted = []
        for number in (0, 1):
            rows = [row for row in expected if row["partition"] == number]
            first, last = (_first_since(rows, time) for time in (start, end))
            wanted += [row for row in rows if first <= row["offset"] < last]
        assert found == wanted


def _first_since(rows: list[dict[str, int]], time: int) -> int:
    later = (row["offset"] for row in rows if row["timestamp_ms"] >= time)
    return next(later, rows[-1]["offset"] + 1)


@ISOLATIONS
def test_our_own_layout_gives_the_same(sqlite_url: str, tmp_path: Path, isolation: str) -> None:
    segments = tier_trace.segments_of(PAYMENTS, 1)
    tier = asyncio.run(copy_segments(sqlite_url, tmp_path / "copies", segments))

    found, tasks = directly(sqlite_url, tier, topic=PAYMENTS, isolation=isolation)

    assert found == consumed_rows(isolation, PAYMENTS, [1])
    assert tasks == 3


def test_a_transaction_whose_end_is_not_in_the_tier_ends_the_partition(
    sqlite_url: str, tmp_path: Path
) -> None:
    written, log = WrittenTier(), WrittenLog()
    log.append(5)
    log.append(5, producer=7)
    log.end_transaction(7, ABORT)
    log.append(4, producer=8)
    asyncio.run(written.copy(log, 0, 15))
    log.append(5)
    log.end_transaction(8, COMMIT)
    log.append(4, producer=9)
    asyncio.run(written.copy(log, 15, 25))
    tier = asyncio.run(copy_written(sqlite_url, tmp_path / "copies", written))

    found, tasks = directly(sqlite_url, tier, topic="orders", isolation=COMMITTED)

    assert [row["offset"] for row in found] == [0, 1, 2, 3, 4, *range(11, 20)]
    assert tasks == 2


def test_overlapping_segments_and_a_lost_lineage_give_each_offset_once(
    sqlite_url: str, tmp_path: Path
) -> None:
    """A new leader copied again what the one before had copied in part, and lost the rest."""
    written, log = WrittenTier(), WrittenLog()
    log.fill(10, 2)
    asyncio.run(written.copy(log, 0, 12))
    asyncio.run(written.copy(log, 12, 20))
    log.elect(3, end=16)
    log.fill(8, 2)
    asyncio.run(written.copy(log, 6, 24))
    asyncio.run(written.copy(log, 20, 32))
    expected, error = asyncio.run(read(written))
    tier = asyncio.run(copy_written(sqlite_url, tmp_path / "copies", written))

    found, tasks = directly(sqlite_url, tier, topic="orders")

    assert error is None
    assert [row["offset"] for row in found] == expected == list(range(32))
    assert [row["leader_epoch"] for row in found] == [0] * 16 + [3] * 16
    assert tasks == len({row["segment_id"] for row in found})
    assert asyncio.run(read(written, None, IsolationLevel.READ_COMMITTED))[0] == expected


def test_a_segment_that_is_superseded_and_deleted_after_the_planning_is_found_elsewhere(
    sqlite_url: str, tmp_path: Path
) -> None:
    written, log = WrittenTier(), WrittenLog()
    log.fill(10, 2)
    old = asyncio.run(written.copy(log, 0, 10))
    asyncio.run(written.copy(log, 10, 20))
    tier = asyncio.run(copy_written(sqlite_url, tmp_path / "copies", written))
    reader = reader_of(sqlite_url, tier, topic="orders")
    tasks = reader.partitions()
    asyncio.run(written.copy(log, 0, 20))
    asyncio.run(copy_written(sqlite_url, tmp_path / "copies", written, first=2))
    asyncio.run(delete_segment(sqlite_url, tier, old))

    found = read_all(reader, tasks)

    assert [row["offset"] for row in found] == list(range(20))
    whole, second = (str(written.copied[at][0].remote_log_segment_id.id) for at in (2, 1))
    assert [row["segment_id"] for row in found] == [whole] * 10 + [second] * 10


def test_a_record_without_key_or_value_and_with_the_brokers_time_says_so(
    sqlite_url: str, tmp_path: Path
) -> None:
    written, log = WrittenTier(), WrittenLog()
    batch = log.append(2)
    data = encoded(0, 0, [(5, b"k", None), (6, None, b"")], append_time_ms=77)
    log.batches[0] = batch._replace(data=data, timestamps=(77, 77))
    asyncio.run(written.copy(log, 0, 2))
    tier = asyncio.run(copy_written(sqlite_url, tmp_path / "copies", written))

    found, _ = directly(sqlite_url, tier, topic="orders")

    shown = [
        (row["key"], row["value"], row["timestamp_ms"], row["timestampType"]) for row in found
    ]
    assert shown == [(b"k", None, 77, 1), (None, b"", 77, 1)]


@ISOLATIONS
def test_what_was_deleted_and_kept_is_read_as_it_was(
    sqlite_url: str, tmp_path: Path, isolation: str
) -> None:
    """An open transaction goes on in the second segment, and is aborted there."""
    written, log = WrittenTier(), WrittenLog()
    log.append(2, producer=7)
    log.append(2)
    asyncio.run(written.copy(log, 0, 4))
    log.end_transaction(7, ABORT)
    log.append(3)
    asyncio.run(written.copy(log, 4, 8))
    tier = asyncio.run(copy_written(sqlite_url, tmp_path / "copies", written))
    wanted = {"topic": "orders", "isolation": isolation}
    before = directly(sqlite_url, tier, **wanted)
    assert len(before[0]) == (7 if isolation == UNCOMMITTED else 5)

    for metadata, _ in written.copied:
        asyncio.run(keep_segment(sqlite_url, metadata))
    assert directly(sqlite_url, tier, **wanted) == ([], 0)
    assert directly(sqlite_url, tier, **wanted, deleted="true") == before

    asyncio.run(delete_partition(sqlite_url, TIP))
    assert (
        directly(sqlite_url, tier, **wanted, deleted="true", partition=TIP.partition) == before
    )


def test_a_partition_whose_deletion_is_finished_has_no_records(
    sqlite_url: str, tmp_path: Path
) -> None:
    written, log = WrittenTier(), WrittenLog()
    log.append(2)
    asyncio.run(written.copy(log, 0, 2))
    tier = asyncio.run(copy_written(sqlite_url, tmp_path / "copies", written))
    asyncio.run(delete_partition(sqlite_url, TIP))

    assert directly(sqlite_url, tier, topic="orders") == ([], 0)
    with pytest.raises(PartitionDeleted):
        directly(sqlite_url, tier, topic="orders", partition=TIP.partition)
