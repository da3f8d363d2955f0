"""A service on Ray: started on a store, found through it, and left in good order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tierledger.actors import ray_cluster
from tierledger.actors.client import AsyncRemoteLogMetadataManager
from tierledger.actors.host_settings import with_absolute_store
from tierledger.actors.ray_coordinator import create_coordinator
from tierledger.actors.ray_handles import RayCoordinator, RayHost, call
from tierledger.actors.service_record import (
    ServiceRecord,
    live_record,
    read_record,
    record_change,
    record_of,
)
from tierledger.actors.wall_clock import RandomIds, WallClock
from tierledger.events.errors import InvalidArgument, OutcomeUnknown, StoreRefused

if TYPE_CHECKING:
    from tierledger.actors.host_settings import ServiceSettings


class RayConnection:
    """A client's way to the service, in the cluster that this process joined."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.coordinator = RayCoordinator(settings)

    def host(self, name: str) -> RayHost:
        actor = ray_cluster.find_actor(name)
        if actor is None:
            raise OutcomeUnknown(f"{name} is not running")
        return RayHost(actor)

    async def close(self) -> None:
        """The cluster stays joined: a process joins one only."""


async def connect(settings: ServiceSettings) -> RayConnection:
    """The way to the service that runs on the store.

    Raises:
        NotReady: None runs.
        StoreRefused: There is no such store.
    """
    record = await live_record(settings)
    ray_cluster.join_cluster(record.address)
    return RayConnection(record.settings_of(settings.cluster_id))


def remote_log_metadata_manager() -> AsyncRemoteLogMetadataManager:
    """A manager that finds its service through the store it is configured with."""
    return AsyncRemoteLogMetadataManager(connect, RandomIds())


class RayService:
    """A service that this process runs: a Ray cluster, the coordinator, and its hosts."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = with_absolute_store(settings)
        self.record: ServiceRecord | None = None
        self._connection: RayConnection | None = None

    async def start(self) -> ServiceRecord:
        """Start everything and publish where it is.

        Raises:
            StoreRefused: A live service is named, or the store cannot be opened for writing.
            InvalidArgument: The store is one that a second process could not see.
        """
        await self._refuse_second()
        address = ray_cluster.start_cluster()
        try:
            connection = RayConnection(self.settings)
            await connection.coordinator.status()
            now_ms = WallClock().now_ms()
            self.record = record_of(self.settings, address, os.getpid(), now_ms)
            change = record_change(self.settings, self.record)
            await connection.host("host-0").store("execute_atomically", [[change]], {})
        except BaseException:
            ray_cluster.leave_cluster()
            raise
        self._connection = connection
        return self.record

    async def _refuse_second(self) -> None:
        if self.settings.storage.get("metadata.storage.url", "").startswith("memory:"):
            raise InvalidArgument(
                "a memory store lives in one process only; a service needs sqlite:FILE"
            )
        try:
            record = await read_record(self.settings)
        except StoreRefused as error:
            if "no such store" in str(error):
                return
            raise
        if record is not None and record.is_live:
            raise StoreRefused(
                f"a service runs on this store already: pid {record.pid}, at {record.address}"
            )

    async def close(self) -> None:
        """Drain and stop all partitions, withdraw the record, end the cluster."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await call(create_coordinator(self.settings), "close")
                host = connection.host("host-0")
                change = record_change(self.settings, None)
                await host.store("execute_atomically", [[change]], {})
                await host.close()
            except OutcomeUnknown:
                pass  # Whoever is gone already has nothing left to drain; the log has it all.
        ray_cluster.leave_cluster()


def kill_host(name: str) -> None:
    """Kill a host's process in the middle of whatever it does (for drills and tests)."""
    actor = ray_cluster.find_actor(name)
    if actor is not None:
        ray_cluster.ray.kill(actor, no_restart=True)
