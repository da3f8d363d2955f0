"""The whole service in one process, without Ray: same host, same coordinator, same rules.

For tests, and for the memory store, which no second process could see. `kill_host` takes a
host away as a crash does: nothing is drained, closed or checkpointed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tierledger.actors.coordinator_service import CoordinatorService
from tierledger.actors.host import Host
from tierledger.actors.wall_clock import RandomIds
from tierledger.events.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from tierledger.actors.calls import Call, CloseCall, Placement
    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.actors.ports import Clock
    from tierledger.storage.backend import MetadataStorageBackend


class LocalHost:
    """A handle on a host in this process; lost for good once it is killed."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._is_dead = asyncio.Event()

    def die(self) -> None:
        self._is_dead.set()

    async def _call(self, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - Whatever the host says.
        """The result of `work`, unless the host dies first."""
        task = asyncio.ensure_future(work)
        dead = asyncio.ensure_future(self._is_dead.wait())
        try:
            await asyncio.wait({task, dead}, return_when=asyncio.FIRST_COMPLETED)
            if self._is_dead.is_set():
                raise OutcomeUnknown(f"{self.host.name} died during the call")
            return await task
        finally:
            task.cancel()
            dead.cancel()
            await asyncio.gather(task, dead, return_exceptions=True)

    async def submit(self, calls: Sequence[Call]) -> list[Any]:
        results: list[Any] = await self._call(self.host.submit(calls))
        return results

    async def place(self, placements: Sequence[Placement]) -> None:
        await self._call(self.host.place(placements))

    async def close_sessions(self, closes: Sequence[CloseCall]) -> None:
        await self._call(self.host.close_sessions(closes))

    async def store(
        self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401
        return await self._call(self.host.store(method, arguments, named))

    async def ping(self) -> dict[str, Any]:
        said: dict[str, Any] = await self._call(self.host.ping())
        return said

    async def partitions(self) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = await self._call(self.host.partitions())
        return said


class LocalConnection:
    """A client's way to a service in the same process."""

    def __init__(self, service: LocalService) -> None:
        self.coordinator = service.coordinator
        self._service = service

    def host(self, name: str) -> LocalHost:
        return self._service.host(name)

    async def close(self) -> None:
        """The service goes on."""


class LocalService:
    """A service in this process: a coordinator, its hosts, and the connection to them."""

    def __init__(self, settings: ServiceSettings, clock: Clock, host_count: int = 1) -> None:
        """`start` brings it up on the running loop."""
        self._settings = settings
        self._clock = clock
        self.connector = settings.connector()
        self._keys = self.connector.key_factory(settings.cluster_id)
        self._backend: MetadataStorageBackend | None = None
        self._hosts: dict[str, LocalHost] = {}
        self.coordinator = CoordinatorService(
            cluster_id=settings.cluster_id,
            keys=self._keys,
            serde=settings.serde(),
            launcher=self,
            clock=clock,
            host_names=[f"host-{number}" for number in range(host_count)],
        )

    async def start(self) -> None:
        self._backend = await self.connector.backend(read_only=False)
        await self.coordinator.start()

    async def close(self) -> None:
        """Drain and stop everything, then close the store."""
        await self.coordinator.close()
        for handle in self._hosts.values():
            await handle.host.close()
        if self._backend is not None:
            await self._backend.close()

    def host(self, name: str) -> LocalHost:
        found = self._hosts.get(name)
        if found is None:
            raise OutcomeUnknown(f"{name} is not running")
        return found

    async def connect(self, _settings: ServiceSettings) -> LocalConnection:
        """The way to this service, as `AsyncRemoteLogMetadataManager` wants it."""
        return LocalConnection(self)

    async def kill_host(self, name: str) -> None:
        """Take a host away in the middle of whatever it does."""
        handle = self._hosts.pop(name, None)
        if handle is not None:
            handle.die()
            await handle.host.abandon()

    # What the coordinator asks of a launcher.

    async def launch(self, name: str) -> LocalHost:
        running = self._hosts.get(name)
        if running is not None:
            return running
        assert self._backend is not None, "the service was started"
        host = Host(
            name,
            process=f"{name}/{RandomIds().request_id().hex()}",
            cluster_id=self._settings.cluster_id,
            backend=self._backend,
            keys=self._keys,
            serde=self._settings.serde(),
            limits=self._settings.limits,
            clock=self._clock,
            give_up=lambda: self._give_up(name),
        )
        host.start()
        self._hosts[name] = LocalHost(host)
        return self._hosts[name]

    async def end(self, name: str) -> None:
        if name in self._hosts:
            await self.kill_host(name)

    def _give_up(self, name: str) -> None:
        handle = self._hosts.pop(name, None)
        if handle is not None:
            handle.die()
