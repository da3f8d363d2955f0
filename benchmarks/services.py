"""The service that a scenario calls, in this process or on Ray, and calls by the thousand."""

import asyncio
import itertools
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierledger.actors.calls import CountsCall, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.requests import HostsCall, RouteCall
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.local_service import LocalService
from tierledger.actors.wall_clock import RandomIds, WallClock
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.ledger import url_of
from tierledger.benchmarks.workload import BROKER, CLUSTER, OFFSETS_PER_SEGMENT, Workload
from tierledger.events.commands import Claim
from tierledger.events.identifiers import TopicIdPartition, Uuid

if TYPE_CHECKING:
    from tierledger.actors.ray.service import RayConnection

OUTSTANDING = 64
PARTITIONS = 16

FIRST_COPIED = 1_000_000
"""The first number of copied segments, above those of single adds."""

LOOK_S = 0.05
LOOKS_S = 60.0
"""How often, and how long at most, a service is checked for the expected state."""


@asynccontextmanager
async def served(
    path: Path, door: DoorSettings | None = None
) -> AsyncIterator[tuple[LocalService, AsyncRemoteLogMetadataManager]]:
    """A service in this process on the store at `path`, and a manager connected to it.

    `door` makes it listen for other processes.
    """
    async with served_from(url_of(path), door) as both:
        yield both


@asynccontextmanager
async def served_from(
    url: str, door: DoorSettings | None = None
) -> AsyncIterator[tuple[LocalService, AsyncRemoteLogMetadataManager]]:
    """The same on the store at `url`."""
    settings = {"metadata.storage.url": url}
    service = LocalService(ServiceSettings(CLUSTER, settings), WallClock(), door=door)
    await service.start()
    manager = AsyncRemoteLogMetadataManager(service.connect, RandomIds())
    try:
        await manager.configure({"cluster.id": CLUSTER, "broker.id": BROKER, **settings})
        yield service, manager
    finally:
        await manager.close()
        await service.close()


class OnRay:
    """A running service, and the managers of its brokers."""

    def __init__(self, settings: ServiceSettings, connection: "RayConnection") -> None:
        self.connection = connection
        self.managers: list[AsyncRemoteLogMetadataManager] = []
        self._settings = settings

    async def manager(self, broker_id: int) -> AsyncRemoteLogMetadataManager:
        """A broker's manager, which finds the service through its store."""
        manager = AsyncRemoteLogMetadataManager()
        identity = {"cluster.id": CLUSTER, "broker.id": broker_id}
        await manager.configure({**self._settings.storage, **identity})
        self.managers.append(manager)
        return manager

    async def pid_of_leader(self, tips: Sequence[TopicIdPartition]) -> int:
        """The process of the one host that leads all of `tips`."""
        asked = RouteCall([PartitionKey.of(tip) for tip in tips])
        routes = await self.connection.coordinator.ask(asked)
        hosts = sorted({str(route.leader_host) for route in routes})
        assert len(hosts) == 1, f"expected one host to lead them all, got {hosts}"
        pid: int = (await self.connection.host(hosts[0]).ask(CountsCall()))["pid"]
        return pid

    async def all_serve(self) -> None:
        """Return once all wanted hosts serve."""

        async def do() -> bool:
            hosts = await self.connection.coordinator.ask(HostsCall())
            return len(hosts) >= self._settings.hosts

        await _until(do)

    async def stop(self, tips: Mapping[int, Sequence[TopicIdPartition]]) -> None:
        """Each manager, by its index, gives up partitions; return once no host holds any."""
        for index, stopped in tips.items():
            await self.managers[index].on_stop_partitions(stopped)

        async def are_released() -> bool:
            return not any(one["leaders"] or one["followers"] for one in await self.pings())

        await _until(are_released)

    async def pings(self) -> list[dict[str, Any]]:
        """What each host reports about itself."""
        addresses = (await self.connection.coordinator.ask(HostsCall())).values()
        return [await self.connection.host(address).ask(CountsCall()) for address in addresses]


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LOOKS_S):
        while not await is_so():  # noqa: ASYNC110 - Another process has no events for us.
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def on_ray(store: str, hosts: int = 1, cluster: str = CLUSTER) -> AsyncIterator[OnRay]:
    """A service with so many hosts on the store that `store` names; it ends with the block."""
    # Ray takes a second to import, which other measurements avoid.
    from tierledger.actors.ray.service import RayConnection, RayService  # noqa: PLC0415

    settings = ServiceSettings(cluster, {"metadata.storage.url": store}, hosts=hosts)
    service = RayService(settings)
    await service.start()
    running = OnRay(service.settings, RayConnection(service.settings))
    try:
        await running.all_serve()
        yield running
    finally:
        for manager in running.managers:
            await manager.close()
        await service.close()


def new_partition(topic: str, partition: int = 0) -> TopicIdPartition:
    return TopicIdPartition(Uuid(topic.encode().ljust(16, b".")), partition, topic)


def new_partitions(topic: str, count: int = PARTITIONS) -> list[TopicIdPartition]:
    return [new_partition(topic, number) for number in range(count)]


def unclaimed(tips: Iterable[TopicIdPartition], segments: int = 1) -> list[Workload]:
    """Workloads whose metadata is sent through a manager, which has the claim."""
    return [Workload(segments, Claim(0, 0, 0), tip) for tip in tips]


async def led(
    manager: AsyncRemoteLogMetadataManager, partitions: Sequence[TopicIdPartition]
) -> None:
    """Lead `partitions`; they are ready on return."""
    await manager.on_partition_leadership_changes(partitions, [])
    await manager.when_ready(partitions)


async def followed(
    manager: AsyncRemoteLogMetadataManager, partitions: Sequence[TopicIdPartition]
) -> None:
    """Follow `partitions`; they are ready on return."""
    await manager.on_partition_leadership_changes([], partitions)
    await manager.when_ready(partitions)


async def adds(
    manager: AsyncRemoteLogMetadataManager,
    workload: Workload,
    numbers: Iterable[int],
    until: asyncio.Future[Any] | None = None,
) -> list[float]:
    """Milliseconds of each add, one at a time, at most `until` that is done."""
    waited: list[float] = []
    for number in numbers:
        metadata = workload.add(number).metadata
        begun = time.perf_counter()
        await manager.add_remote_log_segment_metadata(metadata)
        waited.append((time.perf_counter() - begun) * 1e3)
        if until is not None and until.done():
            break
    return waited


async def adds_beside(
    bench: Bench,
    manager: AsyncRemoteLogMetadataManager,
    workload: Workload,
    work: Coroutine[Any, Any, float],
) -> float:
    """The result of `work`, with what adds take while it is done, and before it, as samples."""
    numbers = itertools.count()
    alone = await adds(manager, workload, itertools.islice(numbers, bench["calls"]))
    doing = asyncio.create_task(work)
    waited = await adds(manager, workload, numbers, doing)
    p99, p50 = quantile(waited, 0.99), quantile(waited, 0.5)
    bench.note(p99=p99, p50=p50, alone_p99=quantile(alone, 0.99), adds=len(waited))
    return await doing


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of `values` lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def added(
    manager: AsyncRemoteLogMetadataManager, workloads: list[Workload], numbers: Iterable[int]
) -> Iterator[Awaitable[object]]:
    """An add of each number, over all partitions."""
    for number, workload in zip(numbers, itertools.cycle(workloads), strict=False):
        yield manager.add_remote_log_segment_metadata(workload.add(number).metadata)


def copied(
    manager: AsyncRemoteLogMetadataManager,
    workloads: list[Workload],
    count: int,
    first: int = FIRST_COPIED,
) -> Iterator[Awaitable[object]]:
    """Copies of segments, each an add and the finish that follows it, over all partitions.

    Each partition's segments are numbered from `first`.
    """

    async def copy(workload: Workload, number: int) -> None:
        await manager.add_remote_log_segment_metadata(workload.add(number).metadata)
        await manager.update_remote_log_segment_metadata(workload.finish(number).update)

    for number, workload in zip(range(count), itertools.cycle(workloads), strict=False):
        yield copy(workload, first + number // len(workloads))


def read(
    manager: AsyncRemoteLogMetadataManager, workloads: list[Workload], count: int
) -> Iterator[Awaitable[object]]:
    """Lookups on the leaders, over all partitions."""
    offset = FIRST_COPIED * OFFSETS_PER_SEGMENT
    for _, workload in zip(range(count), itertools.cycle(workloads), strict=False):
        yield manager.remote_log_segment_metadata(
            workload.tip, workload.epoch_at(offset), offset
        )


async def per_second(
    calls: Iterator[Awaitable[object]], events: int = 1, outstanding: int = OUTSTANDING
) -> float:
    """Events per second with so many `outstanding` of `calls` under way at any time."""
    done = 0

    async def work() -> None:
        nonlocal done
        for call in calls:
            await call
            done += events

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(outstanding)))
    return done / (time.perf_counter() - begun)
