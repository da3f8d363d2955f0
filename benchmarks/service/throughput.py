"""Throughput of the service in one process: single adds, and many outstanding calls."""

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Iterable, Iterator

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.benchmarks.report import Figure, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import led, new_partition, served
from tierledger.benchmarks.workload import OFFSETS_PER_SEGMENT, Workload
from tierledger.events.commands import Claim

OUTSTANDING = 64
PARTITIONS = 16

FIRST_COPIED = 1_000_000
"""The first number of copied segments, above those of single adds."""


async def measure(bench: Bench) -> list[Figure]:
    """Figures without a goal, which show what to expect of a machine."""
    scale = bench.scale
    alone, together, reads = [], [], []
    for turn in bench.turns("service:"):
        async with served(bench.new_store(f"service-{turn}")) as manager:
            workloads = [
                Workload(1, Claim(0, 0, 0), new_partition("served", number))
                for number in range(PARTITIONS)
            ]
            await led(manager, [workload.tip for workload in workloads])
            waited = await one_at_a_time(manager, workloads[0], range(scale.calls // 4))
            alone.append(statistics.median(waited))
            copies = scale.calls // 2
            together.append(await per_second(copied(manager, workloads, copies), events=2))
            reads.append(await per_second(read(manager, workloads, scale.calls)))
    return [
        median("service: durable add, one at a time", alone, "ms"),
        median(
            f"service: {OUTSTANDING} outstanding, {PARTITIONS} partitions", together, "events/s"
        ),
        median(f"service: linearizable lookups, {OUTSTANDING} outstanding", reads, "reads/s"),
    ]


async def one_at_a_time(
    manager: AsyncRemoteLogMetadataManager, workload: Workload, numbers: Iterable[int]
) -> list[float]:
    """Milliseconds of each add."""
    waited = []
    for number in numbers:
        metadata = workload.add(number).metadata
        begun = time.perf_counter()
        await manager.add_remote_log_segment_metadata(metadata)
        waited.append((time.perf_counter() - begun) * 1e3)
    return waited


def copied(
    manager: AsyncRemoteLogMetadataManager,
    workloads: list[Workload],
    count: int,
    first: int = FIRST_COPIED,
) -> Iterator[Awaitable[object]]:
    """Copies of segments, each an add and the finish that follows it, over all partitions.

    Each partition's segments are numbered from `first`.
    """

    async def copy(workload: Workload, number: int) -> None:
        await manager.add_remote_log_segment_metadata(workload.add(number).metadata)
        await manager.update_remote_log_segment_metadata(workload.finish(number).update)

    for number, workload in zip(range(count), itertools.cycle(workloads), strict=False):
        yield copy(workload, first + number // len(workloads))


def read(
    manager: AsyncRemoteLogMetadataManager, workloads: list[Workload], count: int
) -> Iterator[Awaitable[object]]:
    """Lookups on the leaders, over all partitions."""
    for _, workload in zip(range(count), itertools.cycle(workloads), strict=False):
        offset = FIRST_COPIED * OFFSETS_PER_SEGMENT
        epoch = workload.epoch_at(offset)
        yield manager.remote_log_segment_metadata(workload.tip, epoch, offset)


async def per_second(
    calls: Iterator[Awaitable[object]], events: int = 1, outstanding: int = OUTSTANDING
) -> float:
    """Events per second with so many `outstanding` of `calls` under way at any time."""
    done = 0

    async def work() -> None:
        nonlocal done
        for call in calls:
            await call
            done += events

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(outstanding)))
    return done / (time.perf_counter() - begun)
