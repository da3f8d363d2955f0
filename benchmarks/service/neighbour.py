"""How long adds wait on a host that loads a large partition at the same time."""

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import led, new_partition, served
from tierledger.benchmarks.workload import PARTITION, Workload
from tierledger.events.commands import Claim
from tierledger.events.identifiers import TopicIdPartition

P99_MS_MAX = 20.0

NEIGHBOUR = "neighbour"


async def measure(bench: Bench) -> list[Figure]:
    """The 99th percentile of a neighbour's adds, one at a time, while the large one loads."""
    scale = bench.scale
    path = await bench.store(scale.segments)
    p99s, p50s, counts = [], [], []
    for turn in bench.turns("neighbour:"):
        waited = await waits(path, turn)
        p99s.append(quantile(waited, 0.99))
        p50s.append(quantile(waited, 0.5))
        counts.append(len(waited))
    detail = f"{statistics.median(counts):.0f} adds while {scale.segments:,} segments load"
    return [
        median("neighbour: p99 of an add", p99s, "ms", Goal(P99_MS_MAX), detail),
        median("neighbour: p50 of an add", p50s, "ms"),
    ]


async def waits(path: Path, turn: int) -> list[float]:
    """Milliseconds that each add took, from the announcement of the large partition on."""
    tip = new_partition(f"{NEIGHBOUR}-{turn}")
    async with served(path) as manager:
        await led(manager, [tip])
        loading = asyncio.create_task(led(manager, [PARTITION]))
        waited = await adds_until_done(manager, tip, loading)
        await loading
        # Else the next service would load the partition by itself, before it is measured.
        await manager.on_stop_partitions([tip, PARTITION])
    return waited


async def adds_until_done(
    manager: AsyncRemoteLogMetadataManager,
    tip: TopicIdPartition,
    done: asyncio.Future[Any],
    numbers: Iterator[int] | None = None,
) -> list[float]:
    """Milliseconds of each add, one at a time, until `done` is done.

    `numbers`: of the segments; to continue a partition, pass the same iterator.
    """
    workload = Workload(1, Claim(0, 0, 0), tip)
    numbers = numbers or itertools.count()
    waited: list[float] = []
    while not done.done():
        metadata = workload.add(next(numbers)).metadata
        begun = time.perf_counter()
        await manager.add_remote_log_segment_metadata(metadata)
        waited.append((time.perf_counter() - begun) * 1e3)
    return waited


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of `values` lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
