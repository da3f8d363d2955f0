"""The feed through sockets: from a host in this process to replicas in another one."""

import asyncio
import itertools
import json
import sys
import time
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.feed.frames import Change, Subscription
from tierledger.actors.local_service import LocalService
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.services import (
    added,
    adds,
    led,
    new_partition,
    new_partitions,
    per_second,
    quantile,
    served,
    unclaimed,
)
from tierledger.benchmarks.workload import PARTITION
from tierledger.events.errors import NotLeader
from tierledger.events.identifiers import TopicIdPartition

DOOR = DoorSettings("127.0.0.1:0")

LINE_BYTES = 1 << 26
"""The longest line of a reader."""


class ReaderProcess:
    """A process that runs `reader`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, name: str, *given: int | TopicIdPartition) -> tuple[Any, float]:
        """The process's answer to a command, and the seconds it took there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        plain = [
            one if isinstance(one, int) else [one.topic_id.hex(), one.partition, one.topic]
            for one in given
        ]
        self._process.stdin.write(json.dumps([name, *plain]).encode() + b"\n")
        answer, seconds = json.loads(await self._process.stdout.readline())
        return answer, seconds


@asynccontextmanager
async def reading(service: LocalService) -> AsyncIterator[ReaderProcess]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tierledger.benchmarks.feed.reader", await service.url()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES,
    )
    try:
        yield ReaderProcess(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def snapshots(bench: Bench) -> None:
    """Rows of a snapshot per second, counted or kept, and adds beside them."""
    path = await bench.store(bench["segments"])
    tip = new_partition("feed-neighbour")
    [workload], numbers = unclaimed([tip]), itertools.count()
    waited: dict[str, list[float]] = {"counted": [], "kept": []}
    async with served(path, DOOR) as (service, manager):
        await led(manager, [tip, PARTITION])
        async with reading(service) as reader:
            for _ in bench.turns("feed: snapshots through a socket"):
                for way, waits in waited.items():
                    asked = asyncio.ensure_future(reader.ask(way, PARTITION))
                    waits.extend(await adds(manager, workload, numbers, asked))
                    _, seconds = await asked
                    bench.note(**{way: bench["segments"] / seconds})
        await manager.on_stop_partitions([tip, PARTITION])
    for way, waits in waited.items():
        p99, p50 = quantile(waits, 0.99), quantile(waits, 0.5)
        bench.note(**{f"{way}_p99": p99, f"{way}_p50": p50, f"{way}_adds": len(waits)})


async def changes(bench: Bench) -> None:
    """How long after a batch is stored a replica has it, with many calls outstanding."""
    for turn in bench.turns("feed: changes through a socket"):
        workloads = unclaimed(new_partitions("fed"))
        tips = [one.tip for one in workloads]
        async with served(bench.new_store(f"feed-{turn}"), DOOR) as (service, manager):
            await led(manager, tips)
            async with reading(service) as reader:
                applied = [AppliedTimes(service, tip) for tip in tips]
                await reader.ask("follow", *tips)
                writes = added(manager, workloads, range(bench["ray_calls"]))
                rate = await per_second(writes)
                moved, _ = await reader.ask("moves", *(one.moves[-1][0] for one in applied))
                for one in applied:
                    one.close()
        lags = [
            (moves[bisect_left(moves, [position])][1] - at) * 1e3
            for one, moves in zip(applied, moved, strict=True)
            for position, at in one.moves
        ]  # All processes of a machine share this clock.
        bench.note(late_p99=quantile(lags, 0.99), rate=rate)


class AppliedTimes:
    """Notes when the leader of a partition applies each batch, in the same step."""

    def __init__(self, service: LocalService, tip: TopicIdPartition) -> None:
        self.moves: list[tuple[int, float]] = []
        feeds = service.host("host-0").host.feeds
        self._fed = feeds.subscribe(Subscription(PartitionKey.of(tip), LEADER), self._note)
        while self._fed.take() is not None:
            pass
        self.close = self._fed.close

    def _note(self) -> None:
        with suppress(NotLeader):  # The service closes: the leader is gone.
            while (frame := self._fed.take()) is not None:
                if isinstance(frame, Change):
                    self.moves.append((frame.position, time.perf_counter()))
