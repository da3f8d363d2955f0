"""A recorded topic imported into SQLite by Spark, and imported again without news."""

import time
from itertools import islice
from pathlib import Path

from pyspark.sql import Row, SparkSession

from tierledger.benchmarks.ledger import open_for_reading, partition_reader
from tierledger.benchmarks.report import Figure, Goal
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.spark.stores import partition_of_many, session, store_of_many
from tierledger.benchmarks.workload import CLUSTER
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.imports.job import import_into, outcomes
from tierledger.pipeline.imports.source import planned_source
from tierledger.storage.kafka_export import exported_records

RATE_MIN = 100_000


async def measure(bench: Bench) -> list[Figure]:
    """Records per second, at first and when nothing is new."""
    recorded = bench.new_store("recorded").with_suffix(".jsonl")
    count = await _recorded(bench, recorded)
    url = f"sqlite:{bench.new_store('imported')}"
    with session(2) as spark:
        bench.say(f"importing {count:,} records")
        took, rows = _imported(spark, recorded, url)
        assert sum(row.imported for row in rows) == count, "each record is an event"
        bench.say("importing them again")
        again, rows = _imported(spark, recorded, url)
        assert sum(row.imported for row in rows) == 0, "nothing is imported twice"
    title = f"import of {count:,} records into SQLite, local[2]"
    return [
        Figure(title, count / took, "records/s", Goal(RATE_MIN, at_least=True)),
        Figure(f"{title}, all there already", count / again, "records/s"),
    ]


async def _recorded(bench: Bench, out: Path) -> int:
    """Write the records of a topic as Kafka would hold them; returns how many there are."""
    path = await store_of_many(bench)
    scale = bench.scale
    wanted = min(scale.spark_imported, scale.spark_events)
    partitions = max(1, wanted * scale.spark_partitions // scale.spark_events)
    backend = await open_for_reading(path)
    numbers = islice(range(scale.spark_partitions), partitions)
    readers = [partition_reader(backend, partition_of_many(number)) for number in numbers]
    bench.say(f"recording {partitions} partitions")
    count = 0
    with out.open("w", encoding="ascii") as lines:
        async for record in exported_records(readers):
            lines.write(record.json_line())
            count += 1
    await backend.close()
    return count


def _imported(spark: SparkSession, recorded: Path, url: str) -> tuple[float, list[Row]]:
    store = JobStore.of(url, CLUSTER)
    begun = time.perf_counter()
    source = planned_source(str(recorded))
    with import_into(store) as socket:
        rows = outcomes(spark, source, store, socket, "recorded").collect()
    return time.perf_counter() - begun, rows
