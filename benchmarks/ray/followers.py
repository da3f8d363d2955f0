"""How long after an acknowledged write a follower on another host answers from it."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Iterator, Mapping
from typing import NamedTuple

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.requests import DoorsCall
from tierledger.actors.door.addresses import url_of
from tierledger.actors.door.client.replicas import FedReplica, Replicas
from tierledger.benchmarks.on_ray import led_workloads, new_partitions, on_ray, stores
from tierledger.benchmarks.report import Figure, Goal
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import led
from tierledger.benchmarks.service.neighbour import quantile
from tierledger.benchmarks.service.throughput import (
    FIRST_COPIED,
    PARTITIONS,
    copied,
    per_second,
)
from tierledger.benchmarks.workload import CLUSTER, Workload
from tierledger.events import commands as cmd
from tierledger.events.identifiers import TopicIdPartition

P99_MS_MAX = 100.0

HOSTS = 2
"""Two, so that no follower shares a process with its leader, which would notify it."""

SAMPLERS = 4
"""How many tasks sample, each one write at a time."""

TOPIC = "followed"


NEVER_READY = cmd.Claim(2, 0, 0)
"""A claim with which a replica is fed by a follower only."""


class Turn(NamedTuple):
    """One repetition."""

    p99_ms: float
    p50_ms: float
    replica_p99_ms: float
    replica_p50_ms: float
    events_per_s: float


class Load:
    """An endless series of copies, until it is stopped."""

    def __init__(
        self, manager: AsyncRemoteLogMetadataManager, workloads: list[Workload], first: int
    ) -> None:
        self.is_over = False
        self._copies = copied(manager, workloads, 10**9, first)

    def __iter__(self) -> Iterator[Awaitable[object]]:
        for copy in self._copies:
            yield copy
            if self.is_over:
                return


async def measure(bench: Bench) -> list[Figure]:
    """The 99th percentile and the median, with the load at the same time."""
    figures: list[Figure] = []
    with stores(bench, "ray-followers") as urls:
        for kind, url in urls:
            async with on_ray(url, HOSTS) as service:
                writer, reader = await service.manager(1), await service.manager(2)
                tips = new_partitions(TOPIC, PARTITIONS)
                await led(writer, tips)
                await reader.on_partition_leadership_changes([], tips)
                await reader.when_ready(tips)
                doors = await service.connection.coordinator.ask(DoorsCall())
                async with Replicas(url_of(doors.values(), tls=False), CLUSTER) as home:
                    fed = {tip: home.of(tip, claim=NEVER_READY) for tip in tips}
                    turns = await _turns(bench, kind, writer, reader, fed)
            figures += _figures(kind, turns)
    return figures


async def _turns(
    bench: Bench,
    kind: str,
    writer: AsyncRemoteLogMetadataManager,
    reader: AsyncRemoteLogMetadataManager,
    fed: Mapping[TopicIdPartition, FedReplica],
) -> list[Turn]:
    workloads = led_workloads(writer, TOPIC, PARTITIONS)
    looks = bench.scale.lags
    turns = []
    for turn in bench.turns(f"followers, {kind}:"):
        load = Load(writer, workloads, (turn + 1) * FIRST_COPIED)
        under_load = asyncio.create_task(per_second(iter(load), events=2))
        numbers = iter(range(turn * looks, (turn + 1) * looks))
        asked: list[float] = []
        reached: list[float] = []
        samplers = [
            _sample(writer, reader, fed, workloads, numbers, asked, reached)
            for _ in range(SAMPLERS)
        ]
        await asyncio.gather(*samplers)
        load.is_over = True
        asked_ms, reached_ms = (
            (quantile(some, 0.99), quantile(some, 0.5)) for some in (asked, reached)
        )
        turns.append(Turn(*asked_ms, *reached_ms, await under_load))
    return turns


async def _sample(
    writer: AsyncRemoteLogMetadataManager,
    reader: AsyncRemoteLogMetadataManager,
    fed: Mapping[TopicIdPartition, FedReplica],
    workloads: list[Workload],
    numbers: Iterator[int],
    asked: list[float],
    reached: list[float],
) -> None:
    """Note in `asked` the ms from a write's acknowledgement until a follower answers from it.

    In every other round, note in `reached` the ms until the follower's replica has it unasked.
    """
    for number in numbers:
        workload = workloads[number % len(workloads)]
        metadata = workload.add(number).metadata
        position = await writer.add_remote_log_segment_metadata(metadata)
        begun = time.perf_counter()
        is_asked = number // len(workloads) % 2
        if is_asked:
            reader.observe(workload.tip, position)
            await reader.highest_offset_for_epoch(workload.tip, 0)
        else:
            await fed[workload.tip].reached(position)
        (asked if is_asked else reached).append((time.perf_counter() - begun) * 1e3)


def _figures(kind: str, turns: list[Turn]) -> list[Figure]:
    middle = Turn(*(statistics.median(values) for values in zip(*turns, strict=True)))
    return [
        Figure(
            f"ray, {kind}: p99 of a follower's lag",
            middle.p99_ms,
            "ms",
            Goal(P99_MS_MAX),
            f"under {middle.events_per_s:,.0f} events/s",
        ),
        Figure(f"ray, {kind}: p50 of a follower's lag", middle.p50_ms, "ms"),
        Figure(f"ray, {kind}: p99 of a follower's replica", middle.replica_p99_ms, "ms"),
        Figure(f"ray, {kind}: p50 of a follower's replica", middle.replica_p50_ms, "ms"),
    ]
