"""How long partitions cannot be written to when the host that leads them is lost."""

import asyncio
import os
import shutil
import signal
import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tierledger.actors.calls import CountsCall
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.benchmarks.ledger import copy_to
from tierledger.benchmarks.on_ray import OnRay, new_partitions, on_ray, stores
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import POSTGRESQL, SQLITE, Bench
from tierledger.benchmarks.served import led
from tierledger.benchmarks.service.throughput import PARTITIONS, copied, per_second
from tierledger.benchmarks.workload import Workload
from tierledger.events.commands import Claim
from tierledger.events.identifiers import TopicIdPartition

HOSTS = 3
TAIL_SEGMENTS = 250
"""Segments since the last checkpoint when the host is lost: half a leader's interval."""

DATA, FILLERS = "lost", "elsewhere"


class Loss(NamedTuple):
    """A way of losing a host."""

    kind: str
    what: str
    number: signal.Signals
    place: int
    """The host's index among the hosts by name; host 0 is the one that writes to a file."""
    seconds_max: float


LOSSES = (
    Loss(SQLITE, "SIGKILL of the writing host", signal.SIGKILL, 0, 3.0),
    Loss(SQLITE, "SIGSTOP of the writing host", signal.SIGSTOP, 0, 10.0),
    Loss(SQLITE, "SIGKILL of another host", signal.SIGKILL, 1, 3.0),
    Loss(SQLITE, "SIGSTOP of another host", signal.SIGSTOP, 1, 10.0),
    Loss(POSTGRESQL, "SIGKILL", signal.SIGKILL, 0, 3.0),
    Loss(POSTGRESQL, "SIGSTOP", signal.SIGSTOP, 0, 10.0),
)


async def measure(bench: Bench) -> list[Figure]:
    """Seconds until all of the partitions were written to again."""
    figures: list[Figure] = []
    built = bench.new_store("failover-built")
    for tip in new_partitions(DATA, PARTITIONS):
        await bench.build(built, bench.scale.failover_segments, tip)
    with stores(bench, "failover") as urls:
        for kind, url in urls:
            await _fill(kind, url, built)
            async with on_ray(url, HOSTS) as service:
                drill = Drill(bench, service)
                await drill.start()
                for loss in LOSSES:
                    if loss.kind == kind:
                        figures += await _measured(bench, drill, loss)
    return figures


async def _measured(bench: Bench, drill: "Drill", loss: Loss) -> list[Figure]:
    lasts, middles = [], []
    for _ in bench.turns(f"failover, {loss.kind}, {loss.what}:", bench.scale.failovers):
        waited = await drill.lose(loss)
        lasts.append(max(waited))
        middles.append(statistics.median(waited))
    name = f"failover, {loss.kind}: {loss.what}"
    detail = f"{PARTITIONS} partitions of {bench.scale.failover_segments:,} segments"
    return [
        median(f"{name}, last of all", lasts, "s", Goal(loss.seconds_max), detail),
        median(f"{name}, median", middles, "s"),
    ]


async def _fill(kind: str, url: str, built: Path) -> None:
    """Copy the prepared store to the one at `url`."""
    if kind == SQLITE:
        shutil.copy(built, url.removeprefix("sqlite:"))
        return
    await copy_to(url, built)


class Drill:
    """Loses hosts of one service repeatedly."""

    def __init__(self, bench: Bench, service: OnRay) -> None:
        self._bench = bench
        self._service = service
        self._tips = new_partitions(DATA, PARTITIONS)
        self._workloads = [
            Workload(bench.scale.failover_segments, Claim(0, 0, 0), tip) for tip in self._tips
        ]
        self._copied = bench.scale.failover_segments
        self._leader: AsyncRemoteLogMetadataManager
        self._follower: AsyncRemoteLogMetadataManager

    async def start(self) -> None:
        """Register the brokers."""
        self._leader = await self._service.manager(1)
        self._follower = await self._service.manager(2)

    async def lose(self, loss: Loss) -> list[float]:
        """Lose a host; returns seconds until each partition's next write was acknowledged."""
        everywhere = self._spread(loss.place)
        await led(self._leader, everywhere)
        await self._follower.on_partition_leadership_changes([], self._tips)
        await self._follower.when_ready(self._tips)
        await self._leave_tail()
        pid = await self._pid_of_leader()
        begun = time.perf_counter()
        os.kill(pid, loss.number)
        try:
            ends = await asyncio.gather(*(self._written(one) for one in self._workloads))
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._copied += 1
        await self._service.all_serve()
        await self._leader.when_ready(everywhere)
        for manager, tips in ((self._leader, everywhere), (self._follower, self._tips)):
            await manager.on_stop_partitions(tips)
        await self._service.all_released()
        return [end - begun for end in ends]

    def _spread(self, place: int) -> list[TopicIdPartition]:
        """The partitions among fillers, so that round-robin puts all of them on one host."""
        others = iter(new_partitions(FILLERS, (HOSTS - 1) * PARTITIONS))
        return [
            tip if host == place else next(others)
            for tip in self._tips
            for host in range(HOSTS)
        ]

    async def _leave_tail(self) -> None:
        """Copy segments in each partition, as brokers would since a checkpoint."""
        tail = min(TAIL_SEGMENTS, self._bench.scale.failover_segments)
        count = tail * PARTITIONS
        await per_second(copied(self._leader, self._workloads, count, self._copied))
        self._copied += tail

    async def _pid_of_leader(self) -> int:
        addresses = sorted({str(one) for one in await self._service.addresses(self._tips)})
        assert len(addresses) == 1, f"expected one host to lead them all, got {addresses}"
        pid: int = (await self._service.connection.host(addresses[0]).ask(CountsCall()))["pid"]
        return pid

    async def _written(self, workload: Workload) -> float:
        """The time at which the next write was acknowledged."""
        metadata = workload.add(self._copied).metadata
        await self._leader.add_remote_log_segment_metadata(metadata)
        return time.perf_counter()
