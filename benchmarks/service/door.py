"""Throughput of a client through a host's door, and what an idle client costs the host."""

import asyncio
import os
import statistics
from pathlib import Path
from typing import NamedTuple

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.requests import DoorsCall
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.streams import Streams
from tierledger.benchmarks.on_ray import OnRay, led_workloads, new_partitions, on_ray, stores
from tierledger.benchmarks.report import Figure, Goal
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import led
from tierledger.benchmarks.service.neighbour import quantile
from tierledger.benchmarks.service.throughput import (
    FIRST_COPIED,
    OUTSTANDING,
    PARTITIONS,
    copied,
    one_at_a_time,
    per_second,
    read,
)
from tierledger.benchmarks.workload import CLUSTER, Workload

MANY = 256

IDLE_S = 2.0
"""How long an idle host is watched."""

OPENED_AT_ONCE = 50

IDLE_MB_MAX = 50.0
IDLE_PERCENT_MAX = 10.0
"""Percent of one core; a busy loop takes all of it."""

GOALS = {
    "p50_ms": Goal(1.0),
    "p99_ms": Goal(4.0),
    "writes_per_s": Goal(15_000.0, at_least=True),
    "many_per_s": Goal(20_000.0, at_least=True),
    "reads_per_s": Goal(20_000.0, at_least=True),
    "host_us": Goal(60.0),
}

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
"""Numbers of the segments that are added before measuring."""


class Turn(NamedTuple):
    """One repetition."""

    p50_ms: float
    p99_ms: float
    writes_per_s: float
    many_per_s: float
    reads_per_s: float
    host_us: float
    client_us: float


async def measure(bench: Bench) -> list[Figure]:
    """The figures of each kind of store."""
    figures: list[Figure] = []
    with stores(bench, "door-calls") as urls:
        for kind, url in urls:
            async with on_ray(url) as service:
                turns = await _turns(bench, kind, service)
                idle = await _idle(bench, kind, service)
            figures += [*_figures(kind, turns), *idle]
    return figures


async def _turns(bench: Bench, kind: str, service: OnRay) -> list[Turn]:
    manager = await service.manager(1)
    await led(manager, new_partitions("door", PARTITIONS))
    workloads = led_workloads(manager, "door", PARTITIONS)
    await one_at_a_time(manager, workloads[0], WARMING)  # Finds routes, opens connections.
    return [
        await _turn(service, manager, workloads, turn, bench.scale.ray_calls)
        for turn in bench.turns(f"door, {kind}:")
    ]


async def _turn(
    service: OnRay,
    manager: AsyncRemoteLogMetadataManager,
    workloads: list[Workload],
    turn: int,
    calls: int,
) -> Turn:
    alone = calls // 16
    waited = await one_at_a_time(manager, workloads[0], range(turn * alone, (turn + 1) * alone))
    (host,) = await service.pings()
    copies = calls // 2
    first = FIRST_COPIED + 2 * turn * copies
    used, own = cpu_s(host["pid"]), cpu_s(os.getpid())
    writes = await per_second(copied(manager, workloads, copies, first), events=2)
    used, own = cpu_s(host["pid"]) - used, cpu_s(os.getpid()) - own
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


async def _idle(bench: Bench, kind: str, service: OnRay) -> list[Figure]:
    """What idle connections cost a host."""
    count = bench.scale.idle
    bench.say(f"{count:,} idle connections, {kind}")
    (host,) = await service.pings()
    (door,) = (await service.connection.coordinator.ask(DoorsCall())).values()
    pid = host["pid"]
    alone, before_mb = await _cores_used(pid), _resident_mb(pid)
    clients = [Streams(greeting_of(CLUSTER)) for _ in range(count)]
    try:
        for first in range(0, count, OPENED_AT_ONCE):
            some = clients[first : first + OPENED_AT_ONCE]
            await asyncio.gather(*(one.to(door) for one in some))
        used = await _cores_used(pid)
        more_mb = _resident_mb(pid) - before_mb
    finally:
        await asyncio.gather(*(one.close() for one in clients))
    name = f"door, {kind}: {count:,} idle connections"
    detail = f"{alone * 100:.1f} % without"
    cpu = used * 100
    return [
        Figure(f"{name}: the host's memory", more_mb, "MB more", Goal(IDLE_MB_MAX)),
        Figure(f"{name}: the host's CPU", cpu, "% of a core", Goal(IDLE_PERCENT_MAX), detail),
    ]


async def _cores_used(pid: int) -> float:
    """How many cores an idle process keeps busy."""
    used = _exact_cpu_s(pid)
    await asyncio.sleep(IDLE_S)
    return (_exact_cpu_s(pid) - used) / IDLE_S


def _exact_cpu_s(pid: int) -> float:
    """Like `cpu_s`, to the nanosecond, but without threads that have ended."""
    told = [one.read_text() for one in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(one.split()[0]) for one in told) / 1e9


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(pid: int) -> float:
    """The CPU time (s) of a process so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figures(kind: str, turns: list[Turn]) -> list[Figure]:
    middle = Turn(*(statistics.median(values) for values in zip(*turns, strict=True)))
    return [
        Figure(f"door, {kind}: {name}", value, unit, GOALS.get(field))
        for (field, (name, unit)), value in zip(NAMES.items(), middle, strict=True)
    ]
