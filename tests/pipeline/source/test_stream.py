"""`readStream`: every event once, whatever stops in between."""

import asyncio
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.models.actors.local_world import eventually
from tests.models.spark.rows import in_order, options_of, row_of, rows, writing
from tests.models.storage.stored_partitions import TIP, StoredPartition, finished
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.source.columns import BOUNDARY, CORRUPT
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.schema import DEFAULT_SCHEMA
from tierledger.pipeline.source.stream import Offset, TierledgerStreamReader
from tierledger.storage.partition.forgetting import forget

STARTS = 4
QUERY_TIMEOUT_S = 100


def tip_of(number: int) -> TopicIdPartition:
    return TopicIdPartition(Uuid(number.to_bytes(16, "big")), number, f"topic-{number}")


class Writer:
    """Appends to a store, a round at a time; each round begins a partition, too."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.rounds = 0

    async def round(self) -> None:
        async with writing(self._url) as backend:
            self.rounds += 1
            for number in range(1, self.rounds + 1):
                begin = (
                    StoredPartition.led if number == self.rounds else StoredPartition.resumed
                )
                partition = await begin(backend, tip_of(number))
                await partition.fill(range(self.rounds * 10, self.rounds * 10 + 3))

    async def expected(self) -> list[dict[str, object]]:
        async with writing(self._url) as backend:
            return in_order(
                [
                    row_of(tip, event)
                    for tip in map(tip_of, range(1, self.rounds + 1))
                    async for event in StoredPartition(backend, tip).reader().events()
                ]
            )


def deliver(spark: SparkSession, url: str, place: Path, **options: object) -> None:
    """Run the query until it has delivered all that was there when it started."""
    query = delivery(spark, url, place, **options).trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_TIMEOUT_S)


def delivery(spark: SparkSession, url: str, place: Path, **options: object) -> DataStreamWriter:
    """The query, before it starts."""
    given = options_of(url, **options)
    return (
        spark.readStream.format("tierledger")
        .options(**given)
        .load()
        .writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
    )


@pytest.mark.parametrize(
    ("store_url", "limit"),
    [
        pytest.param("sqlite", {"max_rows_per_trigger": 10}, marks=pytest.mark.long),
        ("postgresql", {}),
    ],
    indirect=["store_url"],
    ids=["sqlite-ten", "postgresql-all"],
)
def test_a_query_that_is_stopped_and_started_delivers_every_event_once(
    spark: SparkSession, store_url: str, tmp_path: Path, limit: dict[str, int]
) -> None:
    writer = Writer(store_url)

    for _ in range(STARTS):
        asyncio.run(writer.round())
        deliver(spark, store_url, tmp_path, **limit)

    expected = asyncio.run(writer.expected())
    assert rows(spark.read.parquet(str(tmp_path / "out")).collect()) == expected


def test_a_query_that_goes_on_while_somebody_writes_delivers_every_event_once(
    spark: SparkSession, sqlite_url: str, tmp_path: Path
) -> None:
    writer = Writer(sqlite_url)
    asyncio.run(writer.round())
    for _ in range(3):
        made = delivery(spark, sqlite_url, tmp_path)
        query = made.trigger(processingTime="50 milliseconds").start()
        asyncio.run(writer.round())
        asyncio.run(eventually(partial(has_begun, query)))
        asyncio.run(writer.round())
        query.stop()  # In the middle of whatever it does.

    deliver(spark, sqlite_url, tmp_path)

    expected = asyncio.run(writer.expected())
    assert rows(spark.read.parquet(str(tmp_path / "out")).collect()) == expected


def has_begun(query: StreamingQuery) -> bool:
    return bool(query.recentProgress)


def reader_of(url: str, **options: object) -> TierledgerStreamReader:
    return TierledgerStreamReader(SourceOptions.of(options_of(url, **options)), DEFAULT_SCHEMA)


def positions(
    reader: TierledgerStreamReader, start: Offset, end: Offset
) -> list[tuple[str, int, str]]:
    found = [
        (row["topic"], row["position"], row["type"])
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]
    return sorted(found)


def test_what_lies_between_two_offsets_never_changes(sqlite_url: str) -> None:
    writer = Writer(sqlite_url)
    asyncio.run(writer.round())
    first = reader_of(sqlite_url)
    end = first.latestOffset({}, ReadAllAvailable())
    before = positions(first, {}, end)
    asyncio.run(writer.round())

    again = positions(reader_of(sqlite_url), {}, end)  # As after a restart.

    assert again == before
    assert len(before) == 7


def test_an_offset_stays_where_nothing_was_appended(sqlite_url: str) -> None:
    writer = Writer(sqlite_url)
    asyncio.run(writer.round())
    reader = reader_of(sqlite_url)

    end = reader.latestOffset({}, ReadAllAvailable())

    assert end == {f"{tip_of(1).topic_id}/1": [4, 7]}
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert reader.partitions(end, end) == []


def test_a_limit_leaves_no_partition_waiting_and_ends(sqlite_url: str) -> None:
    writer = Writer(sqlite_url)
    for _ in range(3):
        asyncio.run(writer.round())
    reader = reader_of(sqlite_url)
    steps: list[Offset] = [{}]

    while len(steps) < 2 or steps[-1] != steps[-2]:
        steps.append(reader.latestOffset(steps[-1], ReadMaxRows(10)))

    assert steps[-1] == reader.latestOffset({}, ReadAllAvailable())
    assert len(steps[1]) == 3
    sizes = [len(positions(reader, *pair)) for pair in pairwise(steps)]
    assert sum(sizes) == len(asyncio.run(writer.expected()))
    assert max(sizes) <= 14


def test_an_empty_store_has_nothing_to_deliver_yet(sqlite_url: str) -> None:
    async def make() -> None:
        async with writing(sqlite_url):
            pass

    asyncio.run(make())
    reader = reader_of(sqlite_url)

    assert reader.initialOffset() == {}
    assert reader.latestOffset({}, ReadAllAvailable()) == {}


def test_a_stream_says_once_where_a_log_is_damaged(sqlite_url: str) -> None:
    async def write() -> None:
        async with writing(sqlite_url) as backend:
            partition = await StoredPartition.led(backend)
            await partition.append(finished(0))
            await backend.create(partition.keys.log_batch(TIP, 2), b"no batch")

    asyncio.run(write())
    reader = reader_of(sqlite_url)

    end = reader.latestOffset({}, ReadAllAvailable())

    found = positions(reader, {}, end)
    assert [one for one in found if one[2] == CORRUPT] == [("orders", 3, CORRUPT)]
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_a_stream_says_once_that_a_log_lost_what_it_has_read(sqlite_url: str) -> None:
    async def write() -> None:
        async with writing(sqlite_url) as backend:
            partition = await StoredPartition.led(backend)
            await partition.fill(range(5))

    async def lose() -> None:
        async with writing(sqlite_url) as backend:
            await StoredPartition(backend).lose(4, 5)

    asyncio.run(write())
    reader = reader_of(sqlite_url)
    before = reader.latestOffset({}, ReadAllAvailable())
    asyncio.run(lose())

    after = reader.latestOffset(before, ReadAllAvailable())

    assert [one[2] for one in positions(reader, before, after)] == [CORRUPT]
    assert reader.latestOffset(after, ReadAllAvailable()) == after


def test_a_batch_that_is_repeated_after_its_log_was_forgotten_says_so(sqlite_url: str) -> None:
    async def write() -> None:
        async with writing(sqlite_url) as backend:
            await (await StoredPartition.led(backend)).close()

    async def forgotten() -> None:
        async with writing(sqlite_url) as backend:
            await forget(StoredPartition(backend).reader())

    asyncio.run(write())
    first = reader_of(sqlite_url)
    end = first.latestOffset({}, ReadAllAvailable())
    before = positions(first, {}, end)
    assert before
    asyncio.run(forgotten())

    again = positions(reader_of(sqlite_url), {}, end)  # As after a restart.

    assert again == [("orders", before[-1][1], BOUNDARY)]
