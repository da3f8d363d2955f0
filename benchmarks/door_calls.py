"""What a client gets through a host's door and through Ray, from one service in one run."""

from __future__ import annotations

import itertools
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
    from tierledger.actors.client import AsyncRemoteLogMetadataManager
    from tierledger.benchmarks.on_ray import OnRay
    from tierledger.benchmarks.scale import Bench
    from tierledger.benchmarks.workload import Workload

DOOR, RAY = "door", "through Ray"

MANY = 256

GOALS = {
    "p50_ms": Goal(1.0),
    "p99_ms": Goal(4.0),
    "writes_per_s": Goal(15_000.0, at_least=True),
    "many_per_s": Goal(20_000.0, at_least=True),
    "reads_per_s": Goal(20_000.0, at_least=True),
    "host_us": Goal(60.0),
}
"""Of the door."""

NAMES = {
    "p50_ms": ("durable add, one at a time: p50", "ms"),
    "p99_ms": ("durable add, one at a time: p99", "ms"),
    "writes_per_s": (f"{OUTSTANDING} outstanding, {PARTITIONS} partitions", "events/s"),
    "many_per_s": (f"{MANY} outstanding, {PARTITIONS} partitions", "events/s"),
    "reads_per_s": (f"linearizable lookups, {OUTSTANDING} outstanding", "reads/s"),
    "host_us": (f"the host's CPU per write, {OUTSTANDING} outstanding", "us"),
    "client_us": (f"the client's CPU per write, {OUTSTANDING} outstanding", "us"),
}

WARMING = range(FIRST_COPIED - 200, FIRST_COPIED)
"""Numbers of segments that are added before anything is measured."""


class Turn(NamedTuple):
    """One repetition, one way."""

    p50_ms: float
    p99_ms: float
    writes_per_s: float
    many_per_s: float
    reads_per_s: float
    host_us: float
    client_us: float


async def measure(bench: Bench) -> list[Figure]:
    """Figures of each kind of store, both ways by turns."""
    figures: list[Figure] = []
    with stores(bench, "door-calls") as urls:
        for kind, url in urls:
            async with on_ray(url) as service:
                turns = await _turns(bench, kind, service)
            for way, taken in turns.items():
                figures += _figures(kind, way, taken)
    return figures


async def _turns(bench: Bench, kind: str, service: OnRay) -> dict[str, list[Turn]]:
    managers = {DOOR: await service.door_manager(1), RAY: await service.manager(2)}
    workloads = {}
    for way, manager in managers.items():
        await led(manager, new_partitions(way, PARTITIONS))
        workloads[way] = led_workloads(manager, way, PARTITIONS)
        await one_at_a_time(manager, workloads[way][0], WARMING)
    turns: dict[str, list[Turn]] = {way: [] for way in managers}
    for turn, way in itertools.product(range(bench.scale.repetitions), managers):
        bench.say(f"{way}, {kind}: {turn + 1} of {bench.scale.repetitions}")
        taken = await _turn(service, managers[way], workloads[way], turn, bench.scale.ray_calls)
        turns[way].append(taken)
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
    (said,) = await service.pings()
    copies = calls // 2
    first = FIRST_COPIED + 2 * turn * copies
    used, own = cpu_s(said["pid"]), cpu_s(os.getpid())
    writes = await per_second(copied(manager, workloads, copies, first), events=2)
    used, own = cpu_s(said["pid"]) - used, cpu_s(os.getpid()) - own
    further = copied(manager, workloads, copies, first + copies)
    return Turn(
        p50_ms=quantile(waited, 0.5),
        p99_ms=quantile(waited, 0.99),
        writes_per_s=writes,
        many_per_s=await per_second(further, events=2, outstanding=MANY),
        reads_per_s=await per_second(read(manager, workloads, calls)),
        host_us=used / (2 * copies) * 1e6,
        client_us=own / (2 * copies) * 1e6,
    )


def cpu_s(pid: int) -> float:
    """What a process has used of the cores so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figures(kind: str, way: str, turns: list[Turn]) -> list[Figure]:
    middle = Turn(*(statistics.median(values) for values in zip(*turns, strict=True)))
    goals = GOALS if way == DOOR else {}
    return [
        Figure(f"{way}, {kind}: {name}", value, unit, goals.get(field))
        for (field, (name, unit)), value in zip(NAMES.items(), middle, strict=True)
    ]
