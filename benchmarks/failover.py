"""How long partitions cannot be written to when the host that leads them is lost."""

import asyncio
import os
import shutil
import signal
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from tierledger.benchmarks.bench import BUCKET, POSTGRESQL, SQLITE, Bench
from tierledger.benchmarks.ledger import copy_to
from tierledger.benchmarks.services import (
    PARTITIONS,
    OnRay,
    copied,
    followed,
    led,
    new_partitions,
    on_ray,
    per_second,
    unclaimed,
)
from tierledger.benchmarks.workload import Workload
from tierledger.events.identifiers import TopicIdPartition

HOSTS = 3
TAIL_SEGMENTS = 250
"""Segments since the last checkpoint when the host is lost: half a leader's interval."""

SERVED_S = 8.0
"""For how long all hosts serve before one is lost: the successor of the writing host starts a
few seconds after that."""

DATA, FILLERS = "lost", "elsewhere"


class Loss(NamedTuple):
    """A way of losing a host."""

    kinds: tuple[str, ...]
    """Of stores."""
    what: str
    number: signal.Signals
    place: int
    """The host's index among the hosts by name; host 0 is the one that writes for all."""


ONE_WRITER, ANY = (SQLITE, BUCKET), (POSTGRESQL,)

LOSSES = (
    Loss(ONE_WRITER, "SIGKILL of the writing host", signal.SIGKILL, 0),
    Loss(ONE_WRITER, "SIGSTOP of the writing host", signal.SIGSTOP, 0),
    Loss(ONE_WRITER, "SIGKILL of another host", signal.SIGKILL, 1),
    Loss(ONE_WRITER, "SIGSTOP of another host", signal.SIGSTOP, 1),
    Loss(ANY, "SIGKILL", signal.SIGKILL, 0),
    Loss(ANY, "SIGSTOP", signal.SIGSTOP, 0),
)


async def failover(bench: Bench) -> None:
    """Seconds until all of the partitions were written to again, and until half were."""
    tips, (kind, url) = new_partitions(DATA), bench.place
    await fill(bench, tips)
    async with on_ray(url, HOSTS) as service:
        leader, follower = await service.manager(1), await service.manager(2)
        workloads = unclaimed(tips, bench["failover_segments"])
        number = bench["failover_segments"]
        tail = min(TAIL_SEGMENTS, number)
        for loss in (one for one in LOSSES if kind in one.kinds):
            everywhere = _spread(tips, loss.place)
            for _ in bench.turns(f"failover, {loss.what}", "failovers"):
                await led(leader, everywhere)
                await followed(follower, tips)
                await per_second(copied(leader, workloads, tail * PARTITIONS, number))
                number += tail + 1
                await asyncio.sleep(SERVED_S)
                waited = await _lost(service, loss, workloads, number - 1)
                bench.note(**{f"{loss.what}, last": max(waited)})
                bench.note(**{f"{loss.what}, median": statistics.median(waited)})
                await service.all_serve()
                await leader.when_ready(everywhere)
                await service.stop({0: everywhere, 1: tips})


async def fill(bench: Bench, tips: Sequence[TopicIdPartition]) -> None:
    """Give the store at the scenario's place partitions of so many finished segments each."""
    built = bench.new_store(f"built-{tips[0].topic}")
    if not built.exists():
        for tip in tips:
            await bench.build(built, bench["failover_segments"], tip)
    if bench.place.kind == SQLITE:
        shutil.copy(built, bench.place.url.removeprefix("sqlite:"))
    else:
        await copy_to(bench.place.url, built)


async def _lost(
    service: OnRay, loss: Loss, workloads: list[Workload], number: int
) -> list[float]:
    """Lose the leader; returns seconds until each partition's segment `number` was added."""
    leader = service.managers[0]
    pid = await service.pid_of_leader([one.tip for one in workloads])
    begun = time.perf_counter()

    async def written(workload: Workload) -> float:
        await leader.add_remote_log_segment_metadata(workload.add(number).metadata)
        return time.perf_counter() - begun

    os.kill(pid, loss.number)
    try:
        return await asyncio.gather(*(written(one) for one in workloads))
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _spread(tips: list[TopicIdPartition], place: int) -> list[TopicIdPartition]:
    """The partitions among fillers, so that round-robin puts all of them on one host."""
    others = iter(new_partitions(FILLERS, (HOSTS - 1) * PARTITIONS))
    return [tip if host == place else next(others) for tip in tips for host in range(HOSTS)]
