"""A door for tests that start one Kafka cluster after another, with ids not known before."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
from typing_extensions import override

from tierledger.actors.calls import CountsCall
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.streams import Streams
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.local_service import LocalService
from tierledger.actors.wall_clock import WallClock
from tierledger.storage.connector import URL_SETTING

if TYPE_CHECKING:
    from tierledger.actors.door.server.admission import Context


class AnyCluster(Gateway):
    """Starts a service of one host for each new cluster; tierledger owns its metadata.

    When a new cluster connects, the one before has ended, and its service is closed.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: the folder of the clusters' stores."""
        super().__init__(_NoDesk(), "")  # type: ignore[arg-type] # No call gets so far.
        self.address = ""
        """The address where the door listens, once it does."""
        self.alarms: dict[str, Counter[str]] = {}
        """The alarms of each cluster by id; empty if all was well."""
        self._folder = folder
        self._cluster_id = ""
        self._service: LocalService | None = None
        self._gateway: Gateway | None = None
        self._changing = asyncio.Lock()

    @override
    async def converse(self, _: object, context: Context) -> None:
        heard = await self._heard(context)
        if heard is not None and self._gateway is not None:
            await self._gateway.converse(_, heard)

    @override
    async def feed(self, _: object, context: Context) -> None:
        heard = await self._heard(context)
        if heard is not None and self._gateway is not None:
            await self._gateway.feed(_, heard)

    async def _heard(self, context: Context) -> Any:  # noqa: ANN401 - It stands for `context`.
        """The stream of a client of the present cluster; serves a new cluster first.

        None if the client has left, or belongs to a cluster that has ended.
        """
        first: Any = await context.read()
        if first is grpc.aio.EOF:
            return None
        cluster_id = pb.ClientFrame.FromString(first).greeting.cluster_id
        # The change goes on if this client leaves: others wait for it.
        await asyncio.shield(asyncio.create_task(self._change_to(cluster_id)))
        return _Heard(context, first) if cluster_id == self._cluster_id else None

    async def _change_to(self, cluster_id: str) -> None:
        async with self._changing:
            if cluster_id not in self.alarms:
                await self.end_cluster()
                await self._serve(cluster_id)
            elif cluster_id != self._cluster_id:
                self.alarms[cluster_id]["came back when it had ended"] += 1

    async def _serve(self, cluster_id: str) -> None:
        store = f"sqlite:{self._folder / cluster_id}.sqlite"
        service = LocalService(ServiceSettings(cluster_id, {URL_SETTING: store}), WallClock())
        await service.start()
        self.alarms[cluster_id] = Counter()
        self._cluster_id, self._service = cluster_id, service
        await service.coordinator.hand_over(Handover(Owner.TIERLEDGER, Owner.NOBODY))
        (address,) = (await service.coordinator.hosts()).values()
        host = service.host(address).host
        host.report.door = self.address
        desk = Desk(address, host, service.coordinator, Streams(greeting_of(cluster_id)))
        self._gateway = Gateway(desk, cluster_id)

    async def end_cluster(self) -> None:
        """Close the service of the present cluster, if there is one."""
        gateway, self._gateway = self._gateway, None
        service, self._service = self._service, None
        if gateway is not None and service is not None:
            counts = await service.host("host-0").ask(CountsCall())
            self.alarms[self._cluster_id].update(counts["alarms"])
            await gateway.close()
            await service.close()


class _NoDesk:
    async def close(self) -> None:
        """Does nothing: no call was accepted."""


class _Heard:
    """A stream whose first frame was read already, and is returned once more."""

    def __init__(self, context: Context, first: bytes) -> None:
        self._context = context
        self._unread = [first]

    async def read(self) -> Any:  # noqa: ANN401 - As gRPC has it.
        return self._unread.pop() if self._unread else await self._context.read()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - All else is the stream's.
        return getattr(self._context, name)


@asynccontextmanager
async def any_cluster(folder: Path) -> AsyncIterator[AnyCluster]:
    """An `AnyCluster` that listens on loopback."""
    door = AnyCluster(folder)
    door.address = str(await door.start(DoorAddress("127.0.0.1", 0)))
    try:
        yield door
    finally:
        await door.end_cluster()
        await door.abandon()
