"""What another retention would delete in a whole cluster, computed by Spark."""

import statistics
import time

from tierledger.benchmarks.report import Figure, Goal
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.spark.stores import EVENTS_PER_SEGMENT, session, store_of_many
from tierledger.benchmarks.workload import OFFSETS_PER_SEGMENT, START_MS
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.jobs.retention.job import RetentionDigest, retention_table
from tierledger.pipeline.jobs.retention.plan import Question
from tierledger.pipeline.spark_files import make
from tierledger.pipeline.tables.frames import Digests, made
from tierledger.pipeline.tables.plan import planned

SECONDS_MAX = 60
"""The goal for a million segments."""

SEGMENT_BYTES = 1 << 30


async def measure(bench: Bench) -> list[Figure]:
    """Seconds for a million segments, if half of each partition goes: by size, by time."""
    path = await store_of_many(bench)
    scale = bench.scale
    segments = scale.spark_events // EVENTS_PER_SEGMENT
    each = segments // scale.spark_partitions
    now_ms = START_MS + each * OFFSETS_PER_SEGMENT
    half_ms = each * OFFSETS_PER_SEGMENT // 2
    questions = {
        "by size": Question(-1, each * SEGMENT_BYTES // 2, now_ms, now_ms),
        "by time": Question(half_ms, -1, now_ms, now_ms),
    }
    figures = []
    with session(2) as spark:
        for name, question in questions.items():
            took = []
            for _ in range(scale.spark_repetitions):
                bench.say(f"what-if {name}")
                begun = time.perf_counter()
                plan = await planned(retention_table(question), JobStore.of(f"sqlite:{path}"))
                digests = Digests(spark, RetentionDigest(question))
                make(made(plan, spark, digests=digests))
                rows = digests.joined().topics()
                took.append(time.perf_counter() - begun)
                gone = sum(row["segments_before"] - row["segments_after"] for row in rows)
                assert 0 < gone < segments, "about half of them go"
            seconds = statistics.median(took) * 1_000_000 / segments
            title = f"what-if {name}, local[2]: seconds per million segments, of {segments:,}"
            figures.append(Figure(title, seconds, "s", Goal(SECONDS_MAX)))
    return figures
