"""The longest step on the loops of a host and of a coordinator, for partitions of any size.

A step is what runs between two turns of the loop, in processor time of its thread, so neither
other processes nor threads that write to the store count.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from tierledger.benchmarks.bench import COMMANDS_PER_COMMIT, Bench
from tierledger.benchmarks.ledger import LIMITS, SERDE, Ledger, opened, url_of
from tierledger.benchmarks.services import new_partitions
from tierledger.benchmarks.workload import BROKER, CLUSTER, LEADER_EPOCHS, PARTITION
from tierledger.events.commands import Claim
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.keys import DefaultMetadataKeyFactory

POLL_S = 0.005

KEY = PartitionKey.of(PARTITION)
KEYS = DefaultMetadataKeyFactory(CLUSTER)
HOSTS = ["host-0", "host-1", "host-2"]


class Steps:
    """Watches a running loop, and notes the longest step of each kind of work."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._longest = 0.0

    async def watch(self) -> None:
        """Observe every turn of the loop, until cancelled."""
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self._longest = max(self._longest, now - before)
            before = now

    def begin(self) -> None:
        """Forget the steps so far."""
        self._longest = 0.0

    def note(self, what: str) -> None:
        """All steps since the last note, or since `begin`, were `what`."""
        self._bench.note(**{what: self._longest * 1e3})
        self.begin()


@asynccontextmanager
async def watched(bench: Bench) -> AsyncIterator[Steps]:
    steps = Steps(bench)
    watch = asyncio.create_task(steps.watch())
    await asyncio.sleep(0)
    yield steps
    watch.cancel()


async def steps(bench: Bench) -> None:
    """The longest step of each kind of work for a partition of many segments."""
    rows = bench["rows"]
    path = bench.new_store(f"steps-{rows}")
    async with await Ledger.open(path, 1) as ledger:  # Of copies begun, without a checkpoint.
        bench.say(f"steps: building {rows:,} segments")
        for first in range(0, rows, COMMANDS_PER_COMMIT):
            numbers = range(first, min(first + COMMANDS_PER_COMMIT, rows))
            await ledger.commit([ledger.workload.add(number) for number in numbers])
    backend = await opened(path, read_only=False)
    keep_pauses_short()  # As in a host's process.
    async with watched(bench) as taken:
        first_life = await _first_life(backend, taken, rows)
        host = await _leading(backend, taken, 2)
        taken.note("checkpoint loaded")
        await host.close()
        del first_life  # Keeps its state alive until here.
    await backend.close()
    async with watched(bench) as taken:
        await _many_partitions(bench, taken)
    look_through_all_again()


async def _first_life(backend: MetadataStorageBackend, taken: Steps, rows: int) -> Host:
    host = await _leading(backend, taken, 1)
    taken.note(f"log of {rows:,} copies read, with its checkpoints")
    for kind, name in (("list_epoch", "list(epoch)"), ("list", "list()")):
        query = QueryCall(KEY, LEADER, Query(kind, LEADER_EPOCHS - 1), timeout_ms=600_000)
        answered = await _result(host, query)
        taken.note(f"first page of {name}")
        while answered.cursor is not None:
            answered = await _result(host, PageCall(answered.cursor))
        taken.note(f"other pages of {name}")
    await host.close()
    taken.note("close, with the last checkpoint")
    return host


async def _result(host: Host, call: Call) -> Any:  # noqa: ANN401 - What the call results in.
    return await host.call(call)


async def _leading(backend: MetadataStorageBackend, taken: Steps, number: int) -> Host:
    """A host that has taken up the partition."""
    host = Host(
        "host-0",
        process="steps",
        pid=1,
        cluster_id=CLUSTER,
        backend=backend,
        keys=KEYS,
        serde=SERDE,
        limits=LIMITS,
        clock=WallClock(),
        give_up=lambda: None,
    )
    host.start()
    await asyncio.sleep(POLL_S)
    taken.begin()
    claim = Claim(BROKER, number + 1, 1)
    assignment = Assignment(number, claim, topic=PARTITION.topic)
    await host.place([Placement(KEY, PARTITION.topic, LEADER, assignment)])
    while await host.call(ReadyCall(KEY, LEADER, claim)) is not True:  # noqa: ASYNC110
        await asyncio.sleep(POLL_S)
    return host


async def _many_partitions(bench: Bench, taken: Steps) -> None:
    """A service of many partitions, called as clients in other processes call it."""
    count = bench["coordinated"]
    store = {"metadata.storage.url": url_of(bench.new_store("steps-many"))}
    settings = ServiceSettings(CLUSTER, store, hosts=len(HOSTS), partitions_per_host=count)
    service = LocalService(settings, WallClock())
    tips = new_partitions("many", count)
    items = [(bytes(tip.topic_id), tip.partition, tip.topic) for tip in tips]
    await service.start()
    coordinator = service.coordinator
    taken.begin()
    for broker, role in ((BROKER, LEADER), (BROKER + 1, FOLLOWER)):
        await coordinator.register(broker, b"request", 0)
        for number, first in enumerate(range(0, count, ITEMS_MAX), 1):
            some = tuple(items[first : first + ITEMS_MAX])
            leads = tuple((*item, None, None) for item in some) if role == LEADER else ()
            follows = some if role == FOLLOWER else ()
            await coordinator.announce(
                Announcement(broker, 1, number, leads, follows, (), None)
            )
        await _placed(service)
        taken.note(f"{count:,} partitions announced to a {role}")
        await _settled(service, role, count)
        taken.note(f"{count:,} {role}s ready")
    for name in (await coordinator.status())["hosts"]:
        for _ in range(3):
            await service.host(name).ask(CountsCall())
            await service.host(name).ask(PartitionsCall())
    await coordinator.route([PartitionKey.of(tip) for tip in tips])
    taken.note("status, and a route to each")
    before = (await coordinator.hosts())["host-1"]
    await service.kill_host("host-1")
    while (await coordinator.hosts()).get("host-1", before) == before:  # noqa: ASYNC110
        await asyncio.sleep(POLL_S)
    await _placed(service)
    taken.note("a host lost, and replaced")
    await _settled(service, LEADER, count)
    taken.note("its partitions taken up")
    backend = await settings.connector().backend(read_only=True)
    await read_on(Fold(CLUSTER, KEYS, SERDE), backend, KEYS)
    await backend.close()
    taken.note("coordinator's log read")
    await service.close()
    taken.note("stopped")


async def _placed(service: LocalService) -> None:
    while (await service.coordinator.status())["unplaced"]:  # noqa: ASYNC110 - As below.
        await asyncio.sleep(POLL_S)


async def _settled(service: LocalService, role: str, count: int) -> None:
    """Return once a ready host leads, or follows, every partition."""
    left = count
    while left:
        await asyncio.sleep(10 * POLL_S)
        left, slices = count, Slices()
        for name in HOSTS:
            for one in await service.host(name).ask(PartitionsCall()):
                left -= one["role"] == role and one["phase"] in {"leading", "following"}
                await slices.yield_if_due()
