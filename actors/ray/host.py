"""The host as a Ray actor: opens the store, then hands every call to the `Host` inside."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any, TypeVar

from tierledger.actors.calls import CoordinatedHost, Request
from tierledger.actors.coordinator.placement import WRITER
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.door.server.host_door import DoorSettings, open_door
from tierledger.actors.host.host import Host
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.hosted_backend import HostedBackend
from tierledger.actors.process_clock import ProcessClock
from tierledger.actors.processes import process_name
from tierledger.actors.ray.callbacks import end_after_failed_callbacks
from tierledger.actors.ray.cluster import own_ip, own_node, ray
from tierledger.actors.ray.collector import keep_pauses_short
from tierledger.actors.ray.handles import RayCoordinator, WritingHost, named_actor, namespace_of
from tierledger.actors.ray.oracle import oracle_of, retentions_of
from tierledger.actors.wall_clock import WallClock
from tierledger.events.errors import RemoteStorageError
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage.connector import opened
from tierledger.storage.process_log import end_at_once
from tierledger.storage.spill_file import SpillFile

T = TypeVar("T")


class HostShell:
    """The actor: one process. A restarted host is another process, at another address."""

    def __init__(
        self, address: str, settings: ServiceSettings, home: str, coordinator: RayCoordinator
    ) -> None:
        settings.begin_log()
        self._address = address
        self._coordinator = coordinator
        self._settings = settings
        self._home = home
        self._host: Host | None = None
        self._gateway: Gateway | None = None
        self._opening = asyncio.Lock()
        self._writers: asyncio.Task[None] | None = None
        """Looks for the process that will write next."""
        self._coordinators: asyncio.Task[None] | None = None
        """Looks for the coordinator."""
        self._connector = settings.connector()
        self._preparing: asyncio.Task[bool] | None = None
        """Finds out about the store what the next writer need not find out then."""

    async def open(self) -> None:
        """Open the store and begin to serve; a repeat does nothing.

        Raises:
            StoreRefused: Another process writes to the store, it is no store of ours, or there
                is none (`NoSuchStore`).
        """
        async with self._opening:
            if self._host is None:
                host = await self._made()
                host.start()
                end_after_failed_callbacks(host.failed)
                self._gateway = await self._door(host)
                self._host = host
                self._foresee_coordinator()
                keep_pauses_short()

    def _foresee_coordinator(self) -> None:
        if self._coordinators is None:
            looking = self._coordinator.foresee(self._settings)
            self._coordinators = asyncio.create_task(looking)

    async def _door(self, host: Host) -> Gateway:
        """Open the host's door, at which clients connect."""
        settings = self._settings
        # If it listens on a wildcard, clients get the address of this node (`own_ip`).
        door = DoorSettings(
            settings.listen, settings.advertise, own_ip, settings.security, settings.traces
        )
        return await open_door(host, self._address, door, self._coordinator)

    async def _made(self) -> Host:
        settings, connector = self._settings, self._connector
        node = own_node()
        if self._writes:
            is_prepared = self._preparing is not None and await self._preparing
            backend = await opened(connector, read_only=False, is_prepared=is_prepared)
        else:
            is_near = connector.is_on_one_machine and node == self._home
            reader = await opened(connector, read_only=True) if is_near else None
            writer = WritingHost(self._coordinator, settings, WRITER)
            self._writers = asyncio.create_task(writer.foresee())
            backend = HostedBackend(writer.current, reader, writer.forget)
        clock = ProcessClock(
            WallClock(), asyncio.get_running_loop().time, lambda: host.report.conditions
        )
        host = Host(
            self._address.rpartition("/")[0],
            process=process_name(self._address, node),
            pid=os.getpid(),
            cluster_id=settings.cluster_id,
            backend=backend,
            keys=connector.key_factory(settings.cluster_id),
            serde=settings.serde(),
            limits=settings.limits,
            clock=clock,
            oracle=oracle_of(settings),
            retentions=retentions_of(settings),
            spill=Spill(SpillFile()),
            # It ends the process; a successor replays the logs.
            give_up=lambda: end_at_once(70),
        )
        return host

    @property
    def _writes(self) -> bool:
        """Whether it is to open the store itself for writing."""
        name = self._address.rpartition("/")[0]
        return name == WRITER or not self._connector.has_one_writer

    async def _prepare(self) -> bool:
        with suppress(RemoteStorageError):  # Whoever lets it open the store is told then.
            return await self._connector.prepare()
        return False

    async def is_open(self) -> bool:
        """Whether the store is open: a process that was started beforehand waits for that."""
        self._foresee_coordinator()
        if self._preparing is None and self._host is None and self._writes:
            self._preparing = asyncio.create_task(self._prepare())
        return self._host is not None

    def _opened(self) -> Host:
        assert self._host is not None, "nobody asks a host that has not opened its store"
        return self._host

    async def ask(self, request: Request[CoordinatedHost, T]) -> T:
        return await request.put_to(self._opened())

    async def close(self) -> None:
        """Drain all partitions, then close the store; nothing is to be done in reserve."""
        for looking in (self._writers, self._coordinators, self._preparing):
            if looking is not None:
                looking.cancel()
        if self._host is None:
            return
        host = self._host
        if self._gateway is not None:
            await self._gateway.close()
        await host.close()
        await host.backend.close()


# Wrapped once: each wrapping would send the class to the cluster again.
# `max_restarts=0`: a restart must be a new incarnation with new sessions, so only the launcher
# starts hosts. `max_task_retries=0`: only the caller may retry a write. No CPU is reserved: a
# host waits most of its time, and the cluster may be small.
_HostActor: Any = ray.remote(  # type: ignore[call-overload]  # They lack an option.
    max_restarts=0, max_task_retries=0, max_concurrency=10_000, num_cpus=0
)(HostShell)


def create_host(
    address: str,
    settings: ServiceSettings,
    home: str,
    coordinator: RayCoordinator,
    strategy: Any,
) -> Any:
    """The handle of the detached actor at `address`, made if there is none.

    `strategy` determines the node.
    """
    return named_actor(
        _HostActor,
        address,
        settings,
        home,
        coordinator,
        name=address,
        namespace=namespace_of(settings),
        on=strategy,
    )
