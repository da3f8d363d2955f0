"""The whole service in one process, without Ray: same host, same coordinator, same rules.

For tests, and for the memory store, which no second process could see. `kill_host` ends a host
as a crash does: nothing is drained, closed or checkpointed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar

from tierledger.actors.calls import Call, CoordinatedHost, Request, refusal_of
from tierledger.actors.coordinator.breaker import Breaker
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.deadline import Attempt
from tierledger.actors.door.addresses import url_of
from tierledger.actors.door.client.knocking import opens
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.door.server.host_door import DoorSettings, open_door
from tierledger.actors.host.host import Host
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ports import HostGone, LeaderOracle
from tierledger.actors.wall_clock import RandomIds
from tierledger.events.errors import NotReady
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.clock import Clock
from tierledger.storage.spill_file import SpillFile

T = TypeVar("T")


class LocalHost:
    """A handle on a host in this process; lost for good once it is killed."""

    def __init__(self, host: Host, gateway: Gateway | None = None) -> None:
        """`gateway`: the host's door; None if it does not listen."""
        self.host = host
        self._gateway = gateway
        self._death: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def die(self) -> None:
        if not self._death.done():
            self._death.set_result(None)

    async def shut_door(self) -> None:
        """Refuse clients and cut off those that are connected, as a crash does."""
        if self._gateway is not None:
            await self._gateway.abandon()

    async def abandon(self) -> None:
        """End the host in the middle of whatever it does."""
        self.die()
        await self.shut_door()
        await self.host.abandon()

    async def close(self) -> None:
        """Stop the host in good order."""
        if self._gateway is not None:
            await self._gateway.close()
        await self.host.close()

    async def _call(self, work: Awaitable[T]) -> T:
        """The result of `work`, unless the host dies first."""
        task = asyncio.ensure_future(work)
        either: set[asyncio.Future[Any]] = {task, self._death}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._death.done():
                raise HostGone(f"{self.host.name} died during the call")
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def call(self, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401 - Whatever it is.
        attempt.is_sent = True
        refusal = refusal_of(call)  # No code below checks types.
        return refusal or await self._call(self.host.call(call))

    async def ask(self, request: Request[CoordinatedHost, T]) -> T:
        return await self._call(request.put_to(self.host))


class LocalConnection:
    """A client's connection to a service in the same process."""

    def __init__(self, service: LocalService) -> None:
        self.coordinator = service.coordinator
        self._service = service

    def host(self, name: str) -> LocalHost:
        return self._service.host(name)

    async def close(self) -> None:
        """Does nothing: the service goes on."""


class LocalService:
    """A service in this process: a coordinator, its hosts, and the connection to them."""

    def __init__(
        self,
        settings: ServiceSettings,
        clock: Clock,
        host_count: int | None = None,
        oracle: LeaderOracle | None = None,
        door: DoorSettings | None = None,
    ) -> None:
        """`start` brings the service up. `host_count` overrides the settings.

        `door`: where its hosts listen for clients in other processes; None: nowhere.
        """
        self._door = door
        self._settings = settings
        self._clock = clock
        self._oracle = oracle
        self.connector = settings.connector()
        self._keys = self.connector.key_factory(settings.cluster_id)
        self._backend: MetadataStorageBackend | None = None
        self._spill = Spill(SpillFile())
        self._hosts: dict[str, LocalHost] = {}
        """By address: the hosts that run."""
        self._ending: list[asyncio.Task[None]] = []
        self._host_count = settings.hosts if host_count is None else host_count
        self._coordinator: CoordinatorService | None = None

    @property
    def coordinator(self) -> CoordinatorService:
        assert self._coordinator is not None, "the service was started"
        return self._coordinator

    async def start(self) -> None:
        """Start the service; after an error nothing of it runs. Raises as its coordinator."""
        self._backend = await self.connector.backend(read_only=False)
        door = self._door
        self._coordinator = CoordinatorService(
            cluster_id=self._settings.cluster_id,
            keys=self._keys,
            serde=self._settings.serde(),
            launcher=self,
            clock=self._clock,
            hosts=self._host_count,
            partitions_per_host=self._settings.partitions_per_host,
            identity=RandomIds().request_id(),
            reader=self._backend,
            oracle=self._oracle,
            breaker=Breaker(self._settings.breaker),
            spill=self._spill,
            opens=None if door is None else partial(opens, security=door.security.as_client),
        )
        try:
            await self._coordinator.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Drain and stop everything, then close the store."""
        await self.coordinator.close()
        for handle in list(self._hosts.values()):
            await handle.close()
        await asyncio.gather(*self._ending, return_exceptions=True)
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.close()

    def host(self, name: str) -> LocalHost:
        """The host at an address, or the newest of that name."""
        if "/" not in name:
            name = self._newest(name)
        found = self._hosts.get(name)
        if found is None:
            raise NotReady(f"{name} is not running")
        return found

    def _newest(self, name: str) -> str:
        """The address of the process that was started last as `name`."""
        ours = [one for one in self._hosts if one.rpartition("/")[0] == name]
        return ours[-1] if ours else name

    async def connect(self, _settings: ServiceSettings) -> LocalConnection:
        """A connection to this service; pass this method to `AsyncRemoteLogMetadataManager`."""
        return LocalConnection(self)

    async def url(self) -> str:
        """The URL by which clients in other processes find this service, if it listens."""
        tls = self._door is not None and self._door.security.pair is not None
        return url_of((await self.coordinator.doors()).values(), tls=tls)

    async def kill_host(self, name: str) -> None:
        """End a host in the middle of whatever it does."""
        await self.end(name if "/" in name else self._newest(name), None)

    # The launcher, for the coordinator.

    def prepare(self, address: str, *, is_replacement: bool = False) -> None:
        """Does nothing: a host here needs no process of its own."""

    async def launch(self, address: str) -> LocalHost:
        running = self._hosts.get(address)
        if running is not None:
            return running
        name, _, _ = address.rpartition("/")
        assert self._backend is not None, "the service was started"
        host = Host(
            name,
            process=f"{address}/{RandomIds().request_id().hex()}",
            pid=os.getpid(),
            cluster_id=self._settings.cluster_id,
            backend=self._backend,
            keys=self._keys,
            serde=self._settings.serde(),
            limits=self._settings.limits,
            clock=self._clock,
            give_up=lambda: self._give_up(address),
            oracle=self._oracle,
            spill=self._spill,
        )
        gateway = None
        if self._door is not None:
            gateway = await open_door(host, address, self._door, self.coordinator)
        host.start()
        self._hosts[address] = LocalHost(host, gateway)
        return self._hosts[address]

    async def find(self, address: str) -> LocalHost | None:
        return self._hosts.get(address)

    async def end(self, address: str, process: str | None) -> None:  # noqa: ARG002
        handle = self._hosts.pop(address, None)
        if handle is not None:
            await handle.abandon()

    def _give_up(self, address: str) -> None:
        handle = self._hosts.pop(address, None)
        if handle is not None:
            handle.die()
            self._ending = [one for one in self._ending if not one.done()]
            self._ending.append(asyncio.get_running_loop().create_task(handle.shut_door()))
