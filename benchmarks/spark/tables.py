"""Logs as tables: segments folded by Spark, on one core and on two, and without Spark."""

import asyncio
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tierledger.benchmarks.report import Figure, Goal, Sided, ratio
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.spark.stores import (
    EVENTS_PER_SEGMENT,
    partition_of_many,
    session,
    store_of_many,
)
from tierledger.pipeline.engine import made_here
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.tables import frames as tables
from tierledger.pipeline.tables.files import place
from tierledger.pipeline.tables.plan import planned
from tierledger.pipeline.tables.writers import writing

RATE_MIN = 200_000
CORES_GAIN_MIN = 1.4
WORKER_BYTES_MAX = 2 << 30

PARTITIONS_COMPARED = 20

SESSION_CORES = 2


async def measure(bench: Bench) -> list[Figure]:
    """Events per second, speedup by a second core, memory, and where Spark becomes faster."""
    path = await store_of_many(bench)
    seconds = {cores: _folded(bench, path, cores) for cores in (1, 2)}
    count = bench.scale.spark_events
    title = f"segments of {count:,} events, {bench.scale.spark_partitions:,} partitions"
    rate = Goal(RATE_MIN, at_least=True)
    figures = [
        Figure(f"{title}, local[2], to Parquet", count / seconds[2], "events/s", rate),
        Figure(
            f"{title}: two cores to one",
            seconds[1] / seconds[2],
            "x",
            Goal(CORES_GAIN_MIN, at_least=True),
            f"{seconds[1]:.1f} s; {seconds[2]:.1f} s",
        ),
        await _memory(bench),
    ]
    return figures + await _compared(bench)


def _folded(bench: Bench, path: Path, cores: int) -> float:
    """The median of the seconds that the table takes."""
    with session(cores) as spark:
        took = []
        for run in range(bench.scale.spark_repetitions):
            bench.say(f"segments on {cores} cores, run {run + 1}")
            took.append(_written(spark, path))
        return statistics.median(took)


def _written(spark: SparkSession, path: Path) -> float:
    begun = time.perf_counter()
    _write(tables.segments(spark, f"sqlite:{path}"), path.with_suffix(".spark"))
    return time.perf_counter() - begun


def _write(frame: DataFrame, folder: Path) -> None:
    frame.write.mode("overwrite").parquet(f"file:{folder}")


async def _memory(bench: Bench) -> Figure:
    """The peak memory of the one worker that folds a large partition."""
    count = bench.scale.spark_large
    path = await bench.store(count // EVENTS_PER_SEGMENT)
    with session(1) as spark:
        bench.say(f"one partition of {count:,} events")
        took = _written(spark, path)
        # The same worker process is used again, and tells its own peak.
        rows = spark.range(0, 1, 1, 1).mapInArrow(_peak, "bytes long").collect()
    return Figure(
        f"segments of one partition with {count:,} events: memory of its worker",
        rows[0]["bytes"] / (1 << 30),
        "GiB",
        Goal(WORKER_BYTES_MAX / (1 << 30)),
        f"{count / took:,.0f} events/s on its one core",
    )


def _peak(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (one for one in status.splitlines() if one.startswith("VmHWM:"))
    yield pa.RecordBatch.from_pydict({"bytes": [int(line.split()[1]) * 1024]})


async def _compared(bench: Bench) -> list[Figure]:
    """The same table by one Python process; Spark's time includes its start."""
    figures = []
    for count in bench.scale.spark_sizes:
        path = bench.new_store(f"compared-{count}")
        segments = count // PARTITIONS_COMPARED // EVENTS_PER_SEGMENT
        for number in range(PARTITIONS_COMPARED):
            await bench.build(path, segments, partition_of_many(number))
        bench.say(f"{count:,} events with and without Spark")
        plain = await asyncio.to_thread(_plain, path)
        begun = time.perf_counter()
        with session(SESSION_CORES) as spark:
            _written(spark, path)
        with_spark = Sided(
            count, time.perf_counter() - begun, "s with Spark, its start included"
        )
        without = Sided(count, plain, "s on one core of plain Python")
        figures.append(
            ratio(f"segments of {count:,} events, Spark to Python", with_spark, without, None)
        )
    return figures


def _plain(path: Path) -> float:
    begun = time.perf_counter()
    plan = asyncio.run(planned("segments", JobStore.of(f"sqlite:{path}")))
    with (
        place(path.with_suffix(".python")) as folder,
        writing(plan.table, folder, "parquet") as write,
    ):
        made_here(plan, plan.logs, None, write)
    return time.perf_counter() - begun
