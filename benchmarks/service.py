"""What a service costs: calls, idle connections, followers, announcements, and neighbours."""

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.requests import DoorsCall
from tierledger.actors.door.addresses import url_of
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.replicas import FedReplica, Replicas
from tierledger.actors.door.client.streams import Streams
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.services import (
    FIRST_COPIED,
    PARTITIONS,
    OnRay,
    adds,
    copied,
    followed,
    led,
    new_partition,
    new_partitions,
    on_ray,
    per_second,
    quantile,
    read,
    served,
    unclaimed,
)
from tierledger.benchmarks.workload import CLUSTER, PARTITION, Workload
from tierledger.events import commands as cmd
from tierledger.events.errors import NotReady
from tierledger.events.identifiers import TopicIdPartition

MANY = 256

IDLE_S = 2.0
"""How long an idle host is watched."""

OPENED_AT_ONCE = 50

WARMING = range(FIRST_COPIED - 200, FIRST_COPIED)
"""Numbers of the segments that are added before measuring."""

FOLLOWING_HOSTS = 2
"""Two, so that no follower shares a process with its leader, which would notify it."""

SAMPLERS = 4
"""How many tasks look at followers, each one write at a time."""

NEVER_READY = cmd.Claim(2, 0, 0)
"""A claim with which a replica is fed by a follower only."""


async def throughput(bench: Bench) -> None:
    """Figures without a goal, which show what to expect of a machine."""
    calls = bench["calls"]
    for turn in bench.turns("service"):
        async with served(bench.new_store(f"service-{turn}")) as (_, manager):
            workloads = unclaimed(new_partitions("served"))
            await led(manager, [workload.tip for workload in workloads])
            waited = await adds(manager, workloads[0], range(calls // 4))
            copies = copied(manager, workloads, calls // 2)
            bench.note(
                add_ms=statistics.median(waited),
                events_per_s=await per_second(copies, events=2),
                reads_per_s=await per_second(read(manager, workloads, calls)),
            )


async def neighbour(bench: Bench) -> None:
    """Adds, one at a time, on a host that loads a large partition at the same time."""
    path = await bench.store(bench["segments"])
    for turn in bench.turns("neighbour"):
        tip = new_partition(f"neighbour-{turn}")
        async with served(path) as (_, manager):
            await led(manager, [tip])
            loading = asyncio.create_task(led(manager, [PARTITION]))
            [workload] = unclaimed([tip])
            waited = await adds(manager, workload, itertools.count(), loading)
            await loading
            # Else the next service would load the partition by itself, before it is measured.
            await manager.on_stop_partitions([tip, PARTITION])
        p99, p50 = quantile(waited, 0.99), quantile(waited, 0.5)
        bench.note(p99=p99, p50=p50, adds=len(waited))


async def door(bench: Bench) -> None:
    """Calls of a client through a host's door, and what idle clients cost the host."""
    async with on_ray(bench.place.url) as service:
        manager = await service.manager(1)
        tips = new_partitions("door")
        await led(manager, tips)
        workloads = unclaimed(tips)
        await adds(manager, workloads[0], WARMING)  # Finds routes, opens connections.
        (host,) = await service.pings()
        for turn in bench.turns("door"):
            await _calls(bench, manager, workloads, turn, host["pid"])
        await _idle(bench, service, host["pid"])


async def _calls(
    bench: Bench,
    manager: AsyncRemoteLogMetadataManager,
    workloads: list[Workload],
    turn: int,
    pid: int,
) -> None:
    calls = bench["ray_calls"]
    alone, copies = calls // 16, calls // 2
    waited = await adds(manager, workloads[0], range(turn * alone, (turn + 1) * alone))
    first = FIRST_COPIED + 2 * turn * copies
    used, own = cpu_s(pid), cpu_s(os.getpid())
    writes = await per_second(copied(manager, workloads, copies, first), events=2)
    used, own = cpu_s(pid) - used, cpu_s(os.getpid()) - own
    further = copied(manager, workloads, copies, first + copies)
    bench.note(
        p50_ms=quantile(waited, 0.5),
        p99_ms=quantile(waited, 0.99),
        writes_per_s=writes,
        many_per_s=await per_second(further, events=2, outstanding=MANY),
        reads_per_s=await per_second(read(manager, workloads, calls)),
        host_us=used / (2 * copies) * 1e6,
        client_us=own / (2 * copies) * 1e6,
    )


async def _idle(bench: Bench, service: OnRay, pid: int) -> None:
    count = bench["idle"]
    bench.say(f"{count:,} idle connections, {bench.place.kind}")
    (address,) = (await service.connection.coordinator.ask(DoorsCall())).values()
    alone, before_mb = await _percent_used(pid), _resident_mb(pid)
    clients = [Streams(greeting_of(CLUSTER)) for _ in range(count)]
    try:
        for first in range(0, count, OPENED_AT_ONCE):
            some = clients[first : first + OPENED_AT_ONCE]
            await asyncio.gather(*(one.to(address) for one in some))
        used = await _percent_used(pid)
        bench.note(more_mb=_resident_mb(pid) - before_mb, used=used, alone=alone)
    finally:
        await asyncio.gather(*(one.close() for one in clients))


async def _percent_used(pid: int) -> float:
    """How much of a core an idle process keeps busy."""
    used = exact_cpu_s(pid)
    await asyncio.sleep(IDLE_S)
    return (exact_cpu_s(pid) - used) / IDLE_S * 100


def exact_cpu_s(pid: int) -> float:
    """Like `cpu_s`, to the nanosecond, but without threads that have ended."""
    told = [one.read_text() for one in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(one.split()[0]) for one in told) / 1e9


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(pid: int) -> float:
    """The CPU time (s) of a process so far, all its threads together."""
    return _parent_and_cpu_s(pid)[1]


def family_cpu_s(pid: int) -> float:
    """The CPU time (s) so far of a process, and of those that it has started and that live."""
    known = dict[int, tuple[int, float]]()
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended.
            known[int(one.name)] = _parent_and_cpu_s(int(one.name))

    def of(pid: int) -> float:
        children = (one for one, (parent, _) in known.items() if parent == pid)
        return known[pid][1] + sum(map(of, children))

    return of(pid)


def _parent_and_cpu_s(pid: int) -> tuple[int, float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def announce(bench: Bench) -> None:
    """Seconds until many new partitions, announced at once, are ready on one host."""
    async with on_ray(bench.place.url) as service:
        manager = await service.manager(1)
        for turn in bench.turns("announcing"):
            tips = new_partitions(f"announced-{turn}", bench["announced"])
            with bench.timed("ready"):
                await led(manager, tips)
            await service.stop({0: tips})


async def all_at_once(bench: Bench) -> None:
    """A cluster's partitions, announced at once: until all are ready, and what they take."""
    async with on_ray(bench.place.url) as service:
        manager = await service.manager(1)
        tips = new_partitions("all", bench["announced_all"])
        with bench.timed("all_ready"):
            await manager.on_partition_leadership_changes(tips, [])
            await _ready(manager, tips)
        hosts = await service.pings()
        bench.note(hosts=len(hosts), gib=sum(_resident_mb(one["pid"]) for one in hosts) / 1024)


async def _ready(manager: AsyncRemoteLogMetadataManager, tips: list[TopicIdPartition]) -> None:
    """Return once all are ready, also if that takes longer than a call may."""
    while True:
        try:
            return await manager.when_ready(tips)
        except NotReady:
            continue


async def followers(bench: Bench) -> None:
    """How long after a write a follower on another host answers from it, under load."""
    async with on_ray(bench.place.url, FOLLOWING_HOSTS) as service:
        writer, reader = await service.manager(1), await service.manager(2)
        tips = new_partitions("followed")
        await led(writer, tips)
        await followed(reader, tips)
        doors = await service.connection.coordinator.ask(DoorsCall())
        looks, workloads = bench["lags"], unclaimed(tips)
        async with Replicas(url_of(doors.values(), tls=False), CLUSTER) as home:
            fed = {tip: home.of(tip, claim=NEVER_READY) for tip in tips}
            for turn in bench.turns("followers"):
                load = copied(writer, workloads, 10**9, (turn + 1) * FIRST_COPIED)
                looked = asyncio.Event()
                under_load = asyncio.create_task(per_second(_until(looked, load), events=2))
                numbers = iter(range(turn * looks, (turn + 1) * looks))
                lags = Lags(writer, reader, fed, workloads)
                await asyncio.gather(*(lags.look(numbers) for _ in range(SAMPLERS)))
                looked.set()
                bench.note(
                    p99=quantile(lags.asked, 0.99),
                    p50=quantile(lags.asked, 0.5),
                    replica_p99=quantile(lags.reached, 0.99),
                    replica_p50=quantile(lags.reached, 0.5),
                    load=await under_load,
                )


def _until(
    over: asyncio.Event, calls: Iterator[Awaitable[object]]
) -> Iterator[Awaitable[object]]:
    for call in calls:
        yield call
        if over.is_set():
            return


class Lags:
    """Milliseconds from a write's acknowledgement until a follower answers from it."""

    def __init__(
        self,
        writer: AsyncRemoteLogMetadataManager,
        reader: AsyncRemoteLogMetadataManager,
        fed: Mapping[TopicIdPartition, FedReplica],
        workloads: list[Workload],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._fed = fed
        self._workloads = workloads
        self.asked: list[float] = []
        self.reached: list[float] = []
        """Of every other round: until the follower's replica has it unasked."""

    async def look(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            workload = self._workloads[number % PARTITIONS]
            metadata = workload.add(number).metadata
            position = await self._writer.add_remote_log_segment_metadata(metadata)
            begun = time.perf_counter()
            is_asked = number // PARTITIONS % 2
            if is_asked:
                self._reader.observe(workload.tip, position)
                await self._reader.highest_offset_for_epoch(workload.tip, 0)
            else:
                await self._fed[workload.tip].reached(position)
            taken = self.asked if is_asked else self.reached
            taken.append((time.perf_counter() - begun) * 1e3)
