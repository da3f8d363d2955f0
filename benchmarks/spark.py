"""The pipeline on Spark: events scanned, tables folded, a topic imported, a what-if."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from tierledger.benchmarks.bench import POSTGRESQL, Bench
from tierledger.benchmarks.ledger import copy_to, opened, partition_reader, url_of
from tierledger.benchmarks.workload import CLUSTER, OFFSETS_PER_SEGMENT, START_MS
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline import frames
from tierledger.pipeline.engine import made_here
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.frames import Digests, made
from tierledger.pipeline.imports.job import import_into, outcomes
from tierledger.pipeline.imports.source import planned_source
from tierledger.pipeline.jobs.retention.deletions import RetentionQuestion
from tierledger.pipeline.jobs.retention.job import RetentionDigest, retention_table
from tierledger.pipeline.session import spark_session
from tierledger.pipeline.source.columns import FILE_SCHEMA
from tierledger.pipeline.source.source import FORMAT
from tierledger.pipeline.spark_files import make
from tierledger.pipeline.tables.files import place
from tierledger.pipeline.tables.plan import planned
from tierledger.pipeline.tables.writers import writing
from tierledger.storage.kafka_export import exported_records

EVENTS_PER_SEGMENT = 2
"""The segment is added and finished."""

PARTITIONS_PER_TOPIC = 10
PARTITIONS_COMPARED = 20

SEGMENT_BYTES = 1 << 30

FEW = ("topic", "partition", "position", "state")

CONFIG = {
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
}


def partition_of_many(number: int) -> TopicIdPartition:
    topic, partition = divmod(number, PARTITIONS_PER_TOPIC)
    topic_id = Uuid(blake2b(b"%d" % topic, digest_size=16).digest())
    return TopicIdPartition(topic_id, partition, f"topic-{topic}")


async def store_of_many(
    bench: Bench, count: int | None = None, partitions: int | None = None
) -> Path:
    """A SQLite store of so many events and partitions, by default `spark_…`."""
    count, partitions = count or bench["spark_events"], partitions or bench["spark_partitions"]
    path = bench.new_store(f"events-{count}-{partitions}")
    if not path.exists():
        bench.say(f"building {partitions:,} partitions of {count:,} events together")
        for number in range(partitions):
            segments = count // partitions // EVENTS_PER_SEGMENT
            await bench.build(path, segments, partition_of_many(number))
    return path


@contextmanager
def session(cores: int) -> Iterator[SparkSession]:
    """A session on so many cores of this machine, warmed up."""
    spark = spark_session("benchmark", f"local[{cores}]", CONFIG)
    try:
        spark.range(1000).mapInPandas(lambda frames: frames, "id long").count()
        yield spark
    finally:
        spark.stop()


async def scan(bench: Bench) -> None:
    """Rows per second of a store's events: all columns, and a few."""
    path, url = await store_of_many(bench), bench.place.url
    if bench.place.kind == POSTGRESQL:
        bench.say("copying to PostgreSQL")
        await copy_to(url, path)
    else:
        url = url_of(path)
    with session(2) as spark:
        for name, columns in (("all", FILE_SCHEMA.names), ("few", FEW)):
            for _ in bench.turns(f"scan, {name} columns", "spark_repetitions"):
                rate = rows_per_s(partial(by_format, spark, url, columns))
                bench.note(**{f"{bench.place.kind}_{name}": rate})


def by_format(
    spark: SparkSession, url: str, columns: Sequence[str], **options: str
) -> DataFrame:
    """The events of a store with some columns, by the format."""
    named = {"store": url, "columns": ",".join(columns), **options}
    return spark.read.format(FORMAT).options(**named).load()


def rows_per_s(planned_frame: Callable[[], DataFrame]) -> float:
    """Rows per second of one pass over all rows, from planning to the last row."""
    counted = Observation()
    begun = time.perf_counter()
    observed = planned_frame().observe(counted, sql.count(sql.lit(1)).alias("rows"))
    observed.write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - begun
    rows: int = counted.get["rows"]
    return rows / took


async def tables(bench: Bench) -> None:
    """Segments folded on one core and on two, a worker's memory, and without Spark."""
    path, count = await store_of_many(bench), bench["spark_events"]
    for cores in (1, 2):
        with session(cores) as spark:
            for _ in bench.turns(f"segments on {cores} cores", "spark_repetitions"):
                with bench.timed(f"cores_{cores}"), bench.rated(f"rate_{cores}", count):
                    _written(spark, path)
    await _memory(bench)
    sizes = {"more": bench["spark_compared"], "fewer": bench["spark_compared"] // 10}
    for name, size in sizes.items():
        path = await store_of_many(bench, size, min(PARTITIONS_COMPARED, size))
        bench.say(f"{size:,} events with and without Spark")
        bench.note(**{name: size})
        with bench.timed(f"python_{name}"):
            await asyncio.to_thread(_plain, path)
        with bench.timed(f"spark_{name}"), session(2) as spark:  # Its start included.
            _written(spark, path)


def _written(spark: SparkSession, path: Path) -> None:
    segments = frames.segments(spark, url_of(path))
    segments.write.mode("overwrite").parquet(f"file:{path.with_suffix('.spark')}")


def _plain(path: Path) -> None:
    """The same table by one Python process."""
    plan = asyncio.run(planned("segments", JobStore.of(url_of(path))))
    with (
        place(path.with_suffix(".python")) as folder,
        writing(plan.table, folder, "parquet") as write,
    ):
        made_here(plan, plan.logs, None, write)


async def _memory(bench: Bench) -> None:
    """The peak memory of the one worker that folds a large partition."""
    count = bench["spark_large"]
    path = await bench.store(count // EVENTS_PER_SEGMENT)
    with session(1) as spark:
        bench.say(f"one partition of {count:,} events")
        with bench.rated("large_rate", count):
            _written(spark, path)
        # The same worker process is used again, and tells its own peak.
        rows = spark.range(0, 1, 1, 1).mapInArrow(_peak, "bytes long").collect()
    bench.note(peak_gib=rows[0]["bytes"] / (1 << 30))


def _peak(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (one for one in status.splitlines() if one.startswith("VmHWM:"))
    yield pa.RecordBatch.from_pydict({"bytes": [int(line.split()[1]) * 1024]})


async def imports(bench: Bench) -> None:
    """A recorded topic imported into SQLite, and imported again without news."""
    recorded = bench.new_store("recorded").with_suffix(".jsonl")
    count = await _recorded(bench, recorded)
    bench.note(records=count)
    store = JobStore.of(url_of(bench.new_store("imported")), CLUSTER)
    with session(2) as spark:
        for name, news in (("first", count), ("again", 0)):
            bench.say(f"importing {count:,} records: {name}")
            with bench.rated(name, count):
                source = planned_source(str(recorded))
                with import_into(store) as socket:
                    rows = outcomes(spark, source, store, socket, "recorded").collect()
            imported = sum(row.imported for row in rows)
            assert imported == news, "each record is an event, and imported once"


async def _recorded(bench: Bench, out: Path) -> int:
    """Write the records of a topic as Kafka would hold them; returns how many there are."""
    path, partitions = await store_of_many(bench), bench["spark_partitions"]
    wanted = min(bench["spark_imported"], bench["spark_events"])
    backend = await opened(path)
    numbers = range(max(1, wanted * partitions // bench["spark_events"]))
    readers = [partition_reader(backend, partition_of_many(number)) for number in numbers]
    bench.say(f"recording {len(readers)} partitions")
    count = 0
    with out.open("w", encoding="ascii") as lines:
        async for record in exported_records(readers):
            lines.write(record.json_line())
            count += 1
    await backend.close()
    return count


async def retention(bench: Bench) -> None:
    """Seconds for a million segments, if half of each partition goes: by size, by time."""
    path = await store_of_many(bench)
    segments = bench["spark_events"] // EVENTS_PER_SEGMENT
    each = segments // bench["spark_partitions"]
    now_ms = START_MS + each * OFFSETS_PER_SEGMENT
    half_ms = each * OFFSETS_PER_SEGMENT // 2
    bench.note(segments_there=segments)
    questions = {
        "by_size": RetentionQuestion(-1, each * SEGMENT_BYTES // 2, now_ms, now_ms),
        "by_time": RetentionQuestion(half_ms, -1, now_ms, now_ms),
    }
    with session(2) as spark:
        for name, question in questions.items():
            for _ in bench.turns(f"what-if {name}", "spark_repetitions"):
                with bench.timed(name, 1_000_000 / segments):
                    table = retention_table(question)
                    plan = await planned(table, JobStore.of(url_of(path)))
                    digests = Digests(spark, RetentionDigest(question))
                    make(made(plan, spark, digests=digests))
                    rows = digests.joined().topics()
                gone = sum(row["segments_before"] - row["segments_after"] for row in rows)
                assert 0 < gone < segments, "about half of them go"
