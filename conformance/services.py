"""Where a command finds its service: running already, started for it, or in this process."""

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
    """A service that a command works with."""

    settings: ServiceSettings
    description: str

    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        """A new manager, not yet configured, whose calls end within `deadline_s`."""
        ...

    async def kill_host(self, which: int) -> None:
        """Let one of the hosts die in the middle of whatever it does; `which` counts round."""
        ...

    async def readable_backend(self) -> MetadataStorageBackend | None:
        """The store, opened for reading; none where only the service is known."""
        ...

    async def close(self) -> None:
        """End what was started for this command; leave alone what ran before."""
        ...


class _RayService:
    """A service on Ray, ours or one that was found."""

    def __init__(self, settings: ServiceSettings, description: str) -> None:
        self.settings = settings
        self.description = description

    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        return AsyncRemoteLogMetadataManager(deadline_s=deadline_s)

    async def kill_host(self, which: int) -> None:
        from tierledger.actors.ray.service import host_names, kill_host

        await self._join()
        names = host_names(self.settings)
        if names:  # Else all of them are being started.
            kill_host(names[which % len(names)], self.settings)

    async def _join(self) -> None:
        """Be part of the cluster whose processes are to be killed."""
        from tierledger.actors.discovery.service_record import live_record
        from tierledger.actors.ray import cluster as ray_cluster

        address = (await live_record(self.settings)).address
        await ray_cluster.beside(lambda: ray_cluster.join_cluster(address))

    async def readable_backend(self) -> MetadataStorageBackend:
        return await self.settings.connector().backend(read_only=True)

    async def close(self) -> None:
        """A service that was found goes on without us."""


class _OwnRayService(_RayService):
    @override
    async def _join(self) -> None:
        """It is part of it."""

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
    """A service that was named by its doors: nothing is known of its store."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.description = f"reached at {settings.storage['metadata.storage.url']}"

    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        return AsyncRemoteLogMetadataManager(deadline_s=deadline_s)

    async def kill_host(self, which: int) -> None:
        raise InvalidArgument(f"host {which} cannot be killed through a door")

    async def readable_backend(self) -> None:
        """Its store is not known."""

    async def close(self) -> None:
        """It goes on without us."""


async def service_for(settings: ServiceSettings) -> Service:
    """The service on the store: the one that runs, or one started for the caller.

    Raises:
        StoreRefused: The store cannot be opened for writing.
        NotAuthorized: The one that runs does not let us in, or is not believed.
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
        # None runs. If the store is unusable, starting one says why. Its doors ask for nothing.
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
