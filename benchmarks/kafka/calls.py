"""Writes of one leader, singly and many at once, and of a thousand leaders at once."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from tierledger.benchmarks.kafka.managers import Compared, Managers, managers
from tierledger.benchmarks.report import Figure, Goal, number
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.service.neighbour import quantile

OUTSTANDING = 64
PARTITIONS = 16
FINISHED = "COPY_SEGMENT_FINISHED"
PLENTY = 1_000_000
"""The first of the segment numbers that no other measurement uses."""

MEMORY = Path("/dev/shm")  # noqa: S108 - A folder of our own in it.
"""A folder in which a store's fsync costs nothing; Kafka's topic does not fsync either."""

UNSYNCED = " (a store that does not fsync)"


class Turn(NamedTuple):
    """The times of one manager."""

    mean_ms: float
    p99_ms: float
    outstanding_us: float
    lifecycle_ms: float
    delete_s: float
    leaders_s: float


async def measure(bench: Bench) -> list[Figure]:
    """Figures of a service whose commits are on disk, and the same of one in memory."""
    scale = bench.scale
    async with managers(f"sqlite:{bench.new_store('kafka-calls')}") as both:
        await both.open_kafkas()
        bench.say("Kafka's manager: adds, segments, a topic's deletion, leaders")
        kafkas = await _turn(both, "kafkas", bench, scale.kafka_calls // 10)
        await both.ask("kafkas", "forget")
        await both.open_ours()
        bench.say("tierledger: the same")
        figures = _figures(bench, await _turn(both, "ours", bench, scale.kafka_calls), kafkas)
    if not os.access(MEMORY, os.W_OK):
        bench.say(f"{MEMORY} is not there: no figures of a store that does not fsync")
        return figures
    with tempfile.TemporaryDirectory(prefix="tierledger-bench-", dir=MEMORY) as folder:
        async with managers(f"sqlite:{Path(folder) / 'store.sqlite'}") as both:
            await both.open_ours()
            unsynced = await _turn(both, "ours", bench, scale.kafka_calls)
    return [*figures, *_written(unsynced, kafkas, UNSYNCED)]


async def _turn(both: Managers, name: str, bench: Bench, calls: int) -> Turn:
    scale = bench.scale
    await both.lead(name, "calls", count=PARTITIONS)
    many = (scale.kafka_many, OUTSTANDING)
    await both.write(name, "calls", PLENTY, calls // 4)  # Warms up the JVM.
    await both.write(name, "calls", 2 * PLENTY, *many, partitions=PARTITIONS)
    _, *took = await both.write(name, "calls", 0, calls)
    outstanding, *_ = await both.write(name, "calls", 3 * PLENTY, *many, partitions=PARTITIONS)
    lifecycle, *_ = await both.write(name, "calls", 4 * PLENTY, calls // 4, state=FINISHED)
    await both.lead(name, "deleted")
    await both.write(name, "deleted", 0, scale.medium, OUTSTANDING, state=FINISHED)
    deleted, count = await both.figures(name, "delete", "deleted", 0)
    assert count == scale.medium, f"{count} segments were deleted, of {scale.medium}"
    return Turn(
        statistics.fmean(took) * 1e3,
        quantile(took, 0.99) * 1e3,
        outstanding / scale.kafka_many * 1e6,
        lifecycle / (calls // 4) * 1e3,
        deleted,
        await both.lead(name, "leaders", count=scale.announced),
    )


def _figures(bench: Bench, ours: Turn, kafkas: Turn) -> list[Figure]:
    scale = bench.scale
    deleted = Compared(ours.delete_s, kafkas.delete_s, "s")
    return [
        *_written(ours, kafkas, ""),
        deleted.times_faster(f"deleting a topic of {scale.medium:,} segments", 1.5),
        Figure(
            f"{scale.announced:,} leaders: ready",
            ours.leaders_s,
            "s",
            Goal(2.0),
            f"Kafka's {number(kafkas.leaders_s)} s",
        ),
    ]


def _written(ours: Turn, kafkas: Turn, where: str) -> list[Figure]:
    def both(field: str, unit: str) -> Compared:
        return Compared(getattr(ours, field), getattr(kafkas, field), unit)

    return [
        both("mean_ms", "ms").times_faster(f"durable add, mean{where}", 20),
        both("p99_ms", "ms").times_faster(f"durable add, p99{where}", 10),
        both("outstanding_us", "us each").times_faster(f"{OUTSTANDING} outstanding{where}", 5),
        both("lifecycle_ms", "ms").times_faster(f"add and finish, one worker{where}", 20),
    ]
