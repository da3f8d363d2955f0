"""The longest step on the loops of a host and of a coordinator, for partitions of any size.

A step is what runs between two turns of the loop, in processor time of its thread, so neither
other processes nor threads that write to the store count.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    Call,
    CountsCall,
    PageCall,
    PartitionKey,
    PartitionsCall,
    Placement,
    QueryCall,
    ReadyCall,
)
from tierledger.actors.coordinator.events import ITEMS_MAX, Announcement
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.log import read_on
from tierledger.actors.host.host import Host
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.local_service import LocalService
from tierledger.actors.messages import Assignment, Query
from tierledger.actors.ray.collector import keep_pauses_short, look_through_all_again
from tierledger.actors.slices import Slices
from tierledger.actors.wall_clock import WallClock
from tierledger.benchmarks.ledger import Ledger, open_for_writing, store_settings
from tierledger.benchmarks.report import Figure, Goal
from tierledger.benchmarks.scale import COMMANDS_PER_COMMIT, Bench
from tierledger.benchmarks.served import new_partition
from tierledger.benchmarks.workload import BROKER, CLUSTER, LEADER_EPOCHS, PARTITION
from tierledger.events.commands import Claim
from tierledger.events.partition.decide import Limits
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.serde import MsgpackSerDe

STEP_MS_MAX = 10.0

POLL_S = 0.005

KEY = PartitionKey.of(PARTITION)


class Steps:
    """Watches a running loop: `longest_ms` since it was last taken."""

    def __init__(self) -> None:
        self._longest = 0.0

    async def watch(self) -> None:
        """Observe every turn of the loop, until cancelled."""
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self._longest = max(self._longest, now - before)
            before = now

    def take_ms(self) -> float:
        longest, self._longest = self._longest, 0.0
        return longest * 1e3


@asynccontextmanager
async def watched() -> AsyncIterator[Steps]:
    steps = Steps()
    watch = asyncio.create_task(steps.watch())
    await asyncio.sleep(0)
    yield steps
    watch.cancel()


async def measure(bench: Bench) -> list[Figure]:
    """The longest step of each kind of work for a partition of many segments."""
    rows = bench.scale.rows
    path = bench.new_store(f"steps-{rows}")
    await _log_of_copies(bench, path, rows)
    taken: dict[str, float] = {}
    backend = await open_for_writing(path)
    keep_pauses_short()  # As in a host's process.
    async with watched() as steps:
        first = await _first_life(backend, steps, taken, rows)
        await _second_life(backend, steps, taken)
        del first  # Keeps its state alive until here.
    await backend.close()
    async with watched() as steps:
        await _many_partitions(
            bench.new_store("steps-many"), bench.scale.coordinated, steps, taken
        )
    look_through_all_again()
    return [
        Figure(f"longest step: {name}", ms, "ms", Goal(STEP_MS_MAX))
        for name, ms in taken.items()
    ]


async def _log_of_copies(bench: Bench, path: Path, rows: int) -> None:
    """A partition of so many copies that were begun, without a checkpoint."""
    ledger = await Ledger.open(path, 1)
    for first in range(0, rows, COMMANDS_PER_COMMIT):
        if first % (COMMANDS_PER_COMMIT * 400) == 0:
            bench.say(f"steps: building {rows:,} segments, {first * 100 // rows} %")
        numbers = range(first, min(first + COMMANDS_PER_COMMIT, rows))
        await ledger.commit([ledger.workload.add(number) for number in numbers])
    await ledger.close()


async def _first_life(
    backend: MetadataStorageBackend, steps: Steps, taken: dict[str, float], rows: int
) -> Host:
    host = _host(backend)
    await asyncio.sleep(POLL_S)
    steps.take_ms()
    await _led(host)
    taken[f"log of {rows:,} copies read, with its checkpoints"] = steps.take_ms()
    for kind, name in (("list_epoch", "list(epoch)"), ("list", "list()")):
        query = QueryCall(KEY, LEADER, Query(kind, LEADER_EPOCHS - 1), timeout_ms=600_000)
        answered = await _result(host, query)
        taken[f"first page of {name}"] = steps.take_ms()
        while answered.cursor is not None:
            answered = await _result(host, PageCall(answered.cursor))
        taken[f"other pages of {name}"] = steps.take_ms()
    await host.close()
    taken["close, with the last checkpoint"] = steps.take_ms()
    return host


async def _second_life(
    backend: MetadataStorageBackend, steps: Steps, taken: dict[str, float]
) -> None:
    host = _host(backend)
    await asyncio.sleep(POLL_S)
    steps.take_ms()
    await _led(host, 2)
    taken["checkpoint loaded"] = steps.take_ms()
    await host.close()


async def _result(host: Host, call: Call) -> Any:  # noqa: ANN401 - What the call results in.
    return await host.call(call)


def _host(backend: MetadataStorageBackend) -> Host:
    host = Host(
        "host-0",
        process="steps",
        cluster_id=CLUSTER,
        backend=backend,
        keys=DefaultMetadataKeyFactory(CLUSTER),
        serde=MsgpackSerDe(),
        limits=Limits(),
        clock=WallClock(),
        give_up=lambda: None,
    )
    host.start()
    return host


async def _led(host: Host, number: int = 1) -> None:
    claim = Claim(BROKER, number + 1, 1)
    assignment = Assignment(number, claim, topic=PARTITION.topic)
    await host.place([Placement(KEY, PARTITION.topic, LEADER, assignment)])
    ready = ReadyCall(KEY, LEADER, claim)
    while await host.call(ready) is not True:  # noqa: ASYNC110 - It has none.
        await asyncio.sleep(POLL_S)


class _Service:
    """A service of many partitions, called as clients in other processes call it."""

    def __init__(self, path: Path, count: int) -> None:
        self._settings = ServiceSettings(
            CLUSTER, store_settings(path), hosts=3, partitions_per_host=count
        )
        self._service = LocalService(self._settings, WallClock())
        tips = [new_partition("many", number) for number in range(count)]
        self._items = [(bytes(tip.topic_id), tip.partition, tip.topic) for tip in tips]
        self.start, self.close = self._service.start, self._service.close

    async def announce(self, broker: int, *, leads: bool) -> None:
        """Announce all partitions, in pieces; returns when all are placed."""
        coordinator = self._service.coordinator
        await coordinator.register(broker, b"request", 0)
        for number, first in enumerate(range(0, len(self._items), ITEMS_MAX), 1):
            items = tuple(self._items[first : first + ITEMS_MAX])
            led = tuple((*item, None, None) for item in items) if leads else ()
            followed = () if leads else items
            await coordinator.announce(Announcement(broker, 1, number, led, followed, (), None))
        await self._placed()

    async def _placed(self) -> None:
        while (await self._service.coordinator.status())["unplaced"]:  # noqa: ASYNC110 - As below.
            await asyncio.sleep(POLL_S)

    async def settled(self, role: str) -> None:
        """Return once a ready host leads, or follows, every partition."""
        left, running = len(self._items), ["host-0", "host-1", "host-2"]
        while left:
            await asyncio.sleep(10 * POLL_S)
            left, slices = len(self._items), Slices()
            for name in running:
                for one in await self._service.host(name).ask(PartitionsCall()):
                    left -= one["role"] == role and one["phase"] in {"leading", "following"}
                    await slices.yield_if_due()

    async def look(self) -> None:
        """Ask what `status` and the metrics ask."""
        for _ in range(3):
            for name in (await self._service.coordinator.status())["hosts"]:
                await self._service.host(name).ask(CountsCall())
                await self._service.host(name).ask(PartitionsCall())
        await self._service.coordinator.route([PartitionKey(*one[:2]) for one in self._items])

    async def lose_host(self) -> None:
        before = (await self._service.coordinator.hosts())["host-1"]
        await self._service.kill_host("host-1")
        while (await self._service.coordinator.hosts()).get("host-1", before) == before:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        await self._placed()

    async def read_log(self) -> None:
        """Read the coordinator's log as a coordinator does that starts."""
        backend = await self._settings.connector().backend(read_only=True)
        keys = DefaultMetadataKeyFactory(CLUSTER)
        await read_on(Fold(CLUSTER, keys, MsgpackSerDe()), backend, keys)
        await backend.close()


async def _many_partitions(
    path: Path, count: int, steps: Steps, taken: dict[str, float]
) -> None:
    """Measure a service of many partitions: its hosts and its coordinator."""
    service = _Service(path, count)
    await service.start()
    steps.take_ms()
    for broker, role in ((BROKER, LEADER), (BROKER + 1, FOLLOWER)):
        await service.announce(broker, leads=role == LEADER)
        taken[f"{count:,} partitions announced to a {role}"] = steps.take_ms()
        await service.settled(role)
        taken[f"{count:,} {role}s ready"] = steps.take_ms()
    await service.look()
    taken["status, and a route to each"] = steps.take_ms()
    await service.lose_host()
    taken["a host lost, and replaced"] = steps.take_ms()
    await service.settled(LEADER)
    taken["its partitions taken up"] = steps.take_ms()
    await service.read_log()
    taken["coordinator's log read"] = steps.take_ms()
    await service.close()
    taken["stopped"] = steps.take_ms()
