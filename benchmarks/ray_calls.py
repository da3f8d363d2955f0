"""What a client gets from a service on Ray: adds one at a time, and many calls outstanding."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.calls import CommandCall, PartitionKey, Pending, ResumeCall
from tierledger.benchmarks.neighbour import quantile
from tierledger.benchmarks.on_ray import led_workloads, new_partitions, on_ray, stores
from tierledger.benchmarks.report import Figure, Goal
from tierledger.benchmarks.served import led
from tierledger.benchmarks.service import (
    FIRST_COPIED,
    OUTSTANDING,
    PARTITIONS,
    copied,
    one_at_a_time,
    per_second,
    read,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from tierledger.actors.calls import Call
    from tierledger.actors.client import AsyncRemoteLogMetadataManager
    from tierledger.actors.ports import HostHandle
    from tierledger.benchmarks.on_ray import OnRay
    from tierledger.benchmarks.scale import Bench
    from tierledger.benchmarks.workload import Workload
    from tierledger.events.commands import Command

P50_MS_MAX = 3.0
EVENTS_PER_S_MIN = 5_000.0
READS_PER_S_MIN = 5_000.0

FIRST_SINGLE = 2 * FIRST_COPIED
"""Of the numbers of segments that are copied without coalescing."""

WARMING = range(FIRST_COPIED - 50, FIRST_COPIED)
"""Numbers of segments that are added before anything is measured."""

TOPIC = "called"


class Turn(NamedTuple):
    """One repetition."""

    p50_ms: float
    p99_ms: float
    events_per_s: float
    commits_per_s: float
    singles_per_s: float
    reads_per_s: float


async def measure(bench: Bench) -> list[Figure]:
    """Figures of each kind of store."""
    figures: list[Figure] = []
    with stores(bench, "ray-calls") as urls:
        for kind, url in urls:
            async with on_ray(url) as service:
                turns = await _turns(bench, kind, service)
            figures += _figures(kind, turns)
    return figures


async def _turns(bench: Bench, kind: str, service: OnRay) -> list[Turn]:
    manager = await service.manager(1)
    await led(manager, new_partitions(TOPIC, PARTITIONS))
    workloads = led_workloads(manager, TOPIC, PARTITIONS)
    await one_at_a_time(manager, workloads[0], WARMING)  # Routes and connections.
    turns = []
    for turn in range(bench.scale.repetitions):
        bench.say(f"ray, {kind}: {turn + 1} of {bench.scale.repetitions}")
        turns.append(await _turn(service, manager, workloads, turn, bench.scale.ray_calls))
    return turns


async def _turn(
    service: OnRay,
    manager: AsyncRemoteLogMetadataManager,
    workloads: list[Workload],
    turn: int,
    calls: int,
) -> Turn:
    alone = calls // 16
    waited = await one_at_a_time(manager, workloads[0], range(turn * alone, (turn + 1) * alone))
    behind = turn * calls
    commits = await service.commits()
    together = await per_second(
        copied(manager, workloads, calls // 2, FIRST_COPIED + behind), events=2
    )
    commits = await service.commits() - commits
    host = await service.host_of(workloads[0].tip)
    singles = await per_second(
        copied_singly(host, workloads, calls // 8, FIRST_SINGLE + behind), events=2
    )
    return Turn(
        p50_ms=quantile(waited, 0.5),
        p99_ms=quantile(waited, 0.99),
        events_per_s=together,
        commits_per_s=commits * together / (calls // 2 * 2),
        singles_per_s=singles,
        reads_per_s=await per_second(read(manager, workloads, calls)),
    )


def copied_singly(
    host: HostHandle, workloads: list[Workload], count: int, first: int
) -> Iterator[Awaitable[object]]:
    """The same copies, but each call travels alone: what coalescing is to be held against."""

    async def copy(workload: Workload, number: int) -> None:
        await change_alone(host, workload, workload.add(number))
        await change_alone(host, workload, workload.finish(number))

    for number, workload in zip(range(count), itertools.cycle(workloads), strict=False):
        yield copy(workload, first + number // len(workloads))


async def change_alone(host: HostHandle, workload: Workload, command: Command) -> None:
    """Have the leader carry out `command`, in a call of its own."""
    call: Call = CommandCall(PartitionKey.of(workload.tip), command)
    (result,) = await host.submit([call])
    while isinstance(result, Pending):
        (result,) = await host.submit([ResumeCall(result.ticket)])
    if isinstance(result, BaseException):
        raise result


def _figures(kind: str, turns: list[Turn]) -> list[Figure]:
    middle = Turn(*(statistics.median(values) for values in zip(*turns, strict=True)))
    many = f"ray, {kind}: {OUTSTANDING} outstanding"
    return [
        Figure(f"ray, {kind}: p50 of a durable add", middle.p50_ms, "ms", Goal(P50_MS_MAX)),
        Figure(f"ray, {kind}: p99 of a durable add", middle.p99_ms, "ms"),
        Figure(
            f"{many}, {PARTITIONS} partitions",
            middle.events_per_s,
            "events/s",
            Goal(EVENTS_PER_S_MIN, at_least=True),
            f"{middle.events_per_s / middle.commits_per_s:.0f} events per commit",
        ),
        Figure(f"{many}: commits", middle.commits_per_s, "commits/s"),
        Figure(f"{many}, without coalescing", middle.singles_per_s, "events/s"),
        Figure(
            f"{many}: linearizable lookups",
            middle.reads_per_s,
            "reads/s",
            Goal(READS_PER_S_MIN, at_least=True),
        ),
    ]
