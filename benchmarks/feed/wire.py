"""The feed through sockets: from a host in this process to replicas in another one."""

import asyncio
import itertools
import json
import statistics
import sys
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.feed.frames import Change, Subscription
from tierledger.actors.local_service import LocalService
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import led, new_partition, serving
from tierledger.benchmarks.service.neighbour import P99_MS_MAX, adds_until_done, quantile
from tierledger.benchmarks.service.throughput import OUTSTANDING, PARTITIONS
from tierledger.benchmarks.workload import PARTITION, Workload
from tierledger.events.commands import Claim
from tierledger.events.errors import NotLeader
from tierledger.events.identifiers import TopicIdPartition

ROWS_PER_S_MIN = 300_000
CHANGE_MS_MAX = 20.0

LINE_BYTES = 1 << 26
"""The longest line of a reader."""


class ReaderProcess:
    """A process that runs `feed_reader`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, name: str, *given: object) -> tuple[Any, float]:
        """The process's answer to a command, and the seconds it took there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = [name, *(_plain(one) for one in given)]
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        answer, seconds = json.loads(await self._process.stdout.readline())
        return answer, seconds


def _plain(given: Any) -> Any:  # noqa: ANN401 - A partition, or what JSON has.
    if isinstance(given, int):
        return given
    return [given.topic_id.hex(), given.partition, given.topic]


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[ReaderProcess]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tierledger.benchmarks.feed.reader", url),
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


async def measure(bench: Bench) -> list[Figure]:
    """How fast snapshots arrive, how long adds wait meanwhile, and how late changes are."""
    scale = bench.scale
    path = await bench.store(scale.segments)
    figures = await _snapshots(bench, path)
    late: list[float] = []
    rates: list[float] = []
    for turn in bench.turns("feed: changes through a socket,"):
        lags, rate = await _changes(bench.new_store(f"feed-{turn}"), scale.ray_calls)
        late.append(quantile(lags, 0.99))
        rates.append(rate)
    rate = statistics.median(rates)
    detail = f"{rate:,.0f} events/s, {OUTSTANDING} outstanding, {PARTITIONS} partitions"
    goal = Goal(CHANGE_MS_MAX)
    name = "feed: a change at a replica, p99"
    return [*figures, median(name, late, "ms", goal, detail)]


async def _snapshots(bench: Bench, path: Path) -> list[Figure]:
    rows = bench.scale.segments
    rates: dict[str, list[float]] = {"counted": [], "kept": []}
    waited: dict[str, list[float]] = {"counted": [], "kept": []}
    tip = new_partition("feed-neighbour")
    door = DoorSettings("127.0.0.1:0")
    async with serving(path, door) as (service, manager):
        await led(manager, [tip, PARTITION])
        numbers = itertools.count()
        async with reading(await service.url()) as reader:
            for turn in range(bench.scale.repetitions):
                bench.say(f"feed: snapshots through a socket, {turn + 1}")
                for way, into in rates.items():
                    asked = asyncio.ensure_future(reader.ask(way, PARTITION))
                    waited[way] += await adds_until_done(manager, tip, asked, numbers)
                    _, seconds = await asked
                    into.append(rows / seconds)
        await manager.on_stop_partitions([tip, PARTITION])
    goals = {"counted": Goal(ROWS_PER_S_MIN, at_least=True), "kept": None}
    names = {"counted": "counted", "kept": "kept by the model"}
    figures: list[Figure] = []
    for way, name in names.items():
        rate, waits = statistics.median(rates[way]), waited[way]
        head, p99 = f"feed: rows sent, and {name}", quantile(waits, 0.99)
        detail = f"p50 {quantile(waits, 0.5):.3g} ms, {len(waits):,} adds"
        figures += [
            Figure(head, rate, "rows/s", goals[way], f"{rows:,} segments"),
            Figure(f"{head}: p99 of an add", p99, "ms", Goal(P99_MS_MAX), detail),
        ]
    return figures


async def _changes(path: Path, calls: int) -> tuple[list[float], float]:
    """Milliseconds from storing each batch until a replica has it, and writes per second."""
    tips = [new_partition("fed", number) for number in range(PARTITIONS)]
    workloads = [Workload(1, Claim(0, 0, 0), tip) for tip in tips]
    async with serving(path, DoorSettings("127.0.0.1:0")) as (service, manager):
        await led(manager, tips)
        async with reading(await service.url()) as reader:
            applied = [Applied(service, tip) for tip in tips]
            await reader.ask("follow", *tips)
            writes = zip(range(calls), itertools.cycle(workloads), strict=False)
            begun = time.perf_counter()
            await asyncio.gather(*(_write(manager, writes) for _ in range(OUTSTANDING)))
            rate = calls / (time.perf_counter() - begun)
            moved, _ = await reader.ask("moves", *(one.moves[-1][0] for one in applied))
            for one in applied:
                one.close()
    lags: list[float] = []
    for one, moves in zip(applied, moved, strict=True):
        positions = [position for position, _ in moves]
        for position, at in one.moves:
            _, reached = moves[bisect_left(positions, position)]
            lags.append((reached - at) * 1e3)  # All processes of a machine share this clock.
    return lags, rate


class Applied:
    """Notes when the leader of a partition applies each batch, in the same step."""

    def __init__(self, service: LocalService, tip: TopicIdPartition) -> None:
        self.moves: list[tuple[int, float]] = []
        feeds = service.host("host-0").host.feeds
        self._fed = feeds.subscribe(Subscription(PartitionKey.of(tip), LEADER), self._note)
        while self._fed.take() is not None:
            pass

    def _note(self) -> None:
        with suppress(NotLeader):  # The service closes: the leader is gone.
            while (frame := self._fed.take()) is not None:
                if isinstance(frame, Change):
                    self.moves.append((frame.position, time.perf_counter()))

    def close(self) -> None:
        self._fed.close()


async def _write(
    manager: AsyncRemoteLogMetadataManager, writes: Iterator[tuple[int, Workload]]
) -> None:
    for number, workload in writes:
        await manager.add_remote_log_segment_metadata(workload.add(number).metadata)
