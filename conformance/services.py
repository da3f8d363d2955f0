"""Finds a command's service: one that runs already, one started for it, or in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from typing_extensions import override

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door.addresses import SCHEME, TLS_SCHEME
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.errors import InvalidArgument, NotReady, StoreRefused
from tierledger.storage.backend import MetadataStorageBackend


class Service(Protocol):
    """A service that a command uses."""

    settings: ServiceSettings
    description: str

    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        """A new manager, not yet configured, whose calls have that deadline."""
        ...

    async def kill_host(self, which: int) -> None:
        """Kill one of the hosts; `which` is taken modulo their number."""
        ...

    async def readable_backend(self) -> MetadataStorageBackend | None:
        """The store, opened for reading; None if only the service's doors are known."""
        ...

    async def close(self) -> None:
        """End a service that was started for this command; one that ran before is kept."""
        ...


class _RayService:
    """A service on Ray, started here or found running."""

    def __init__(self, settings: ServiceSettings, description: str) -> None:
        self.settings = settings
        self.description = description

    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        return AsyncRemoteLogMetadataManager(deadline_s=deadline_s)

    async def kill_host(self, which: int) -> None:
        from tierledger.actors.ray.service import kill_host, serving

        await self._join()
        names = sorted(await serving(self.settings))
        if names:  # Without any, all hosts are being started.
            await kill_host(names[which % len(names)], self.settings)

    async def _join(self) -> None:
        """Join the Ray cluster, so that its processes can be killed."""
        from tierledger.actors.discovery.service_record import live_record
        from tierledger.actors.ray import cluster as ray_cluster

        address = (await live_record(self.settings)).address
        await ray_cluster.beside(lambda: ray_cluster.join_cluster(address))

    async def readable_backend(self) -> MetadataStorageBackend:
        return await self.settings.connector().backend(read_only=True)

    async def close(self) -> None:
        """Do nothing: the service ran before."""


class _OwnRayService(_RayService):
    @override
    async def _join(self) -> None:
        """Do nothing: this process has started the cluster."""

    async def start(self) -> None:
        from tierledger.actors.ray.service import RayService

        self._service = RayService(self.settings)
        record = await self._service.start()
        self.description = f"started for this command at {record.address}"

    @override
    async def close(self) -> None:
        await self._service.close()


class _LocalService:
    """The service in this process, for a memory store."""

    def __init__(self, settings: ServiceSettings) -> None:
        from tierledger.actors.local_service import LocalService
        from tierledger.actors.wall_clock import WallClock

        self.settings = settings
        self.description = "in this process, without Ray"
        self.local = LocalService(settings, WallClock())

    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        return AsyncRemoteLogMetadataManager(self.local.connect, deadline_s=deadline_s)

    async def kill_host(self, which: int) -> None:
        await self.local.kill_host(f"host-{which % self.settings.hosts}")

    async def readable_backend(self) -> MetadataStorageBackend:
        return await self.local.connector.backend(read_only=True)

    async def close(self) -> None:
        await self.local.close()


class _ReachedService:
    """A service that was named by its doors; its store is not known."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.description = f"reached at {settings.storage['metadata.storage.url']}"

    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        return AsyncRemoteLogMetadataManager(deadline_s=deadline_s)

    async def kill_host(self, which: int) -> None:
        raise InvalidArgument(f"host {which} cannot be killed through a door")

    async def readable_backend(self) -> None:
        """None, as the store is not known."""

    async def close(self) -> None:
        """Do nothing: the service ran before."""


async def service_for(settings: ServiceSettings) -> Service:
    """The service on the store: the one that runs, or one started for the caller.

    Raises:
        StoreRefused: The store cannot be opened for writing.
        NotAuthorized: The running service refuses this client, or its certificate is not valid.
    """
    url = settings.storage["metadata.storage.url"]
    if url.startswith((SCHEME, TLS_SCHEME)):
        return _ReachedService(settings)
    if url.startswith("memory:"):
        local = _LocalService(settings)
        await local.local.start()
        return local
    from tierledger.actors.discovery.found_connection import connect

    try:
        connection = await connect(settings)
    except (NotReady, StoreRefused):
        # No service runs. Starting one reports why a store is unusable. The doors of the new
        # one need no certificate or token, so the settings for these are removed.
        plain = {
            key: one for key, one in settings.storage.items() if not key.startswith("door.")
        }
        own = _OwnRayService(replace(settings, storage=plain), "")
        await own.start()
        return own
    await connection.close()
    record = connection.record
    assert record is not None, "it has led there"
    return _RayService(settings, f"found running at {record.address}, pid {record.pid}")
