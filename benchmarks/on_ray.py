"""The service on Ray, as `tierledger serve` runs it, on a store of its own."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from tierledger.actors.calls import CountsCall, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.requests import HostsCall, RouteCall
from tierledger.actors.host_settings import ServiceSettings
from tierledger.benchmarks.scale import POSTGRESQL, SQLITE, Bench
from tierledger.benchmarks.served import new_partition
from tierledger.benchmarks.workload import CLUSTER, Workload
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.live.postgres_server import PostgresServer

if TYPE_CHECKING:
    from tierledger.actors.ray.service import RayConnection

LOOK_S = 0.05
LOOKS_S = 60.0
"""How often, and how long at most, a service is checked for the expected state."""


class OnRay:
    """A running service, and the managers of its brokers."""

    def __init__(self, settings: ServiceSettings, connection: "RayConnection") -> None:
        self.settings = settings
        self.connection = connection
        self.managers: list[AsyncRemoteLogMetadataManager] = []

    async def manager(self, broker_id: int) -> AsyncRemoteLogMetadataManager:
        """A broker's manager, which finds the service through its store."""
        manager = AsyncRemoteLogMetadataManager()
        identity = {"cluster.id": CLUSTER, "broker.id": broker_id}
        await manager.configure({**self.settings.storage, **identity})
        self.managers.append(manager)
        return manager

    async def addresses(self, tips: Sequence[TopicIdPartition]) -> list[str | None]:
        """The addresses of the hosts that lead the partitions; none where nobody leads."""
        keys = [PartitionKey.of(tip) for tip in tips]
        return [
            route.leader_host
            for route in await self.connection.coordinator.ask(RouteCall(keys))
        ]

    async def all_serve(self) -> None:
        """Return once all wanted hosts serve."""

        async def do() -> bool:
            return (
                len(await self.connection.coordinator.ask(HostsCall())) >= self.settings.hosts
            )

        await _until(do)

    async def all_released(self) -> None:
        """Return once no host leads or follows a partition; stopped partitions drain first."""

        async def are() -> bool:
            return not any(one["leaders"] or one["followers"] for one in await self.pings())

        await _until(are)

    async def pings(self) -> list[dict[str, Any]]:
        """What each host reports about itself."""
        addresses = (await self.connection.coordinator.ask(HostsCall())).values()
        return [await self.connection.host(address).ask(CountsCall()) for address in addresses]


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LOOKS_S):
        while not await is_so():  # noqa: ASYNC110 - Another process has no events for us.
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def on_ray(store: str, hosts: int = 1) -> AsyncIterator[OnRay]:
    """A service with so many hosts on the store that `store` names; it ends with the block."""
    # Ray takes a second to import, which other measurements avoid.
    from tierledger.actors.ray.service import RayConnection, RayService  # noqa: PLC0415

    settings = ServiceSettings(CLUSTER, {"metadata.storage.url": store}, hosts=hosts)
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


@contextmanager
def stores(bench: Bench, name: str) -> Iterator[Iterator[tuple[str, str]]]:
    """Each kind of store and the URL of a new one, in turn; removed afterwards."""
    wanted = bench.scale.stores
    made: list[tuple[str, str]] = []
    if SQLITE in wanted:
        made.append((SQLITE, f"sqlite:{bench.new_store(name)}"))
    if POSTGRESQL not in wanted:
        yield iter(made)
        return
    with PostgresServer() as server:
        yield itertools.chain(made, [(POSTGRESQL, server.database())])


def led_workloads(
    manager: AsyncRemoteLogMetadataManager, topic: str, count: int
) -> list[Workload]:
    """A workload for each partition of a topic that `manager` leads."""
    made = []
    for number in range(count):
        tip = new_partition(topic, number)
        claim = manager.claim_to_lead(tip)
        assert claim is not None, "it was announced"
        made.append(Workload(1, claim, tip))
    return made


def new_partitions(topic: str, count: int) -> list[TopicIdPartition]:
    return [new_partition(topic, number) for number in range(count)]
