"""The coordinator as a named, detached Ray actor."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, TypeVar

from tierledger.actors.calls import Request
from tierledger.actors.coordinator.breaker import Breaker
from tierledger.actors.coordinator.nodes import ClusterNodes
from tierledger.actors.coordinator.requests import FollowedCoordinator
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.discovery.recorded_doors import RecordedDoors
from tierledger.actors.door.client.knocking import opens
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.process_clock import ProcessClock
from tierledger.actors.processes import node_of, process_name
from tierledger.actors.ray.callbacks import end_after_failed_callbacks
from tierledger.actors.ray.cluster import (
    away_from_head,
    beside,
    may_leave_head,
    nodes_in_time,
    on_node,
    own_node,
    ray,
)
from tierledger.actors.ray.collector import keep_pauses_short
from tierledger.actors.ray.handles import (
    COORDINATOR,
    RayCoordinator,
    named_actor,
    namespace_of,
)
from tierledger.actors.ray.launcher import RayLauncher
from tierledger.actors.ray.oracle import oracle_of
from tierledger.actors.wall_clock import RandomIds, WallClock
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage.connector import opened
from tierledger.storage.process_log import ProcessLog, end_at_once
from tierledger.storage.spill_file import SpillFile

T = TypeVar("T")

_log = ProcessLog("tierledger.coordinator")

HEAD_LOOK_S = 20.0
HEAD_LOOKS = 3
"""A coordinator on the head leaves it after so many looks in a row have found another node. Ray
takes up to 20 s to learn that a node is gone."""

NODES_LOOK_S = 3.0
"""How often the coordinator looks at the cluster's nodes: a request of a millisecond."""

WATCHED = "watched"


class CoordinatorShell:
    """The actor: made by any process that finds no coordinator; `start` brings it up."""

    def __init__(self, settings: ServiceSettings, home: str) -> None:
        settings.begin_log()
        self._settings = settings
        self._home = home
        self._service: CoordinatorService | None = None
        self._recording: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._process = process_name(COORDINATOR, own_node())

    async def start(self) -> None:
        """Read the log and start missing hosts; a repeat does nothing.

        Raises:
            StoreRefused: The store cannot be opened, or there is none (`NoSuchStore`).
        """
        async with self._starting:
            if self._service is None:
                service = self._service = await self._started_service()
                doors = RecordedDoors(self._settings, service.backend, service.listening)
                self._recording = asyncio.get_running_loop().create_task(doors.keep())
                end_after_failed_callbacks(service.failed)
                self._watching = asyncio.create_task(_watch_nodes(service))
                keep_pauses_short()
                if not self._settings.connector().is_on_one_machine:
                    self._leaving = asyncio.create_task(self._leave_head(service))

    async def _leave_head(self, service: CoordinatorService) -> None:
        """End this process if it is on the head, and would not have to be there.

        It may have been the only node at first, or all that was left. Whoever finds no
        coordinator makes another one.
        """
        looks = 0
        while looks < HEAD_LOOKS:
            await asyncio.sleep(HEAD_LOOK_S)
            found = False
            with suppress(Exception):  # The control store may be away.
                found = await beside(may_leave_head)
            looks = looks + 1 if found else 0
        _log.warning("the coordinator leaves the head of the cluster for another node")
        service.give_up()

    async def _started_service(self) -> CoordinatorService:
        settings = self._settings
        connector = settings.connector()
        one_writer = connector.has_one_writer
        async with AsyncExitStack() as undone:
            store = await opened(connector, read_only=one_writer)
            undone.push_async_callback(store.close)  # The next attempt opens it again.
            clock = ProcessClock(
                WallClock(), asyncio.get_running_loop().time, lambda: service.conditions
            )
            service = CoordinatorService(
                cluster_id=settings.cluster_id,
                keys=connector.key_factory(settings.cluster_id),
                serde=settings.serde(),
                launcher=RayLauncher(
                    settings, self._home, coordinator_of(settings, self._home)
                ),
                clock=clock,
                node=own_node(),
                nodes=ClusterNodes(settings.nodes),
                hosts=settings.hosts,
                partitions_per_host=settings.partitions_per_host,
                identity=RandomIds().request_id(),
                backend=None if one_writer else store,
                reader=store if one_writer else None,
                oracle=oracle_of(settings),
                opens=partial(opens, security=settings.security.as_client),
                breaker=Breaker(settings.breaker),
                spill=Spill(SpillFile()),
                give_up=lambda: end_at_once(
                    70
                ),  # The next process that calls it makes another.
            )
            undone.push_async_callback(service.close)
            await service.start()
            undone.pop_all()
            return service

    def _started(self) -> CoordinatorService:
        assert self._service is not None, "handles start a coordinator before they use it"
        return self._service

    # In a concurrency group with its own loop and thread: it is answered while ten thousand
    # requests wait, and not answered once the process is frozen.
    @ray.method(concurrency_group=WATCHED)
    async def process(self) -> str:
        """The name of this process; `serve` calls this to check that it lives."""
        return self._process

    @ray.method(concurrency_group=WATCHED)
    async def hindrance(self) -> str | None:
        """Why nothing can be written for want of a host; `serve` asks."""
        return None if self._service is None else self._service.hindrance()

    @ray.method(concurrency_group=WATCHED)
    async def serving(self) -> dict[str, str]:
        """The processes that serve, by host; `serve` tells when they change."""
        return {} if self._service is None else self._service.serving()

    async def ask(self, request: Request[FollowedCoordinator, T]) -> T:
        return await self._started().ask(request)

    async def close(self) -> None:
        """Stop pinging hosts, so that they can be closed."""
        for watch in (self._leaving, self._watching):
            if watch is not None:
                watch.cancel()
        if self._recording is not None:
            self._recording.cancel()
            await asyncio.gather(self._recording, return_exceptions=True)
        await self._started().close()


async def _watch_nodes(service: CoordinatorService) -> None:
    while True:
        alive = await nodes_in_time()
        hosts = [node_of(process) for process in service.serving().values()]
        service.nodes.seen(alive, hosts, WallClock().now_ms())
        await asyncio.sleep(NODES_LOOK_S)


# See `host` for the options. Any process that finds no coordinator makes another.
_CoordinatorActor: Any = ray.remote(  # type: ignore[call-overload]  # They lack an option.
    max_restarts=0,
    max_task_retries=0,
    max_concurrency=10_000,
    concurrency_groups={WATCHED: 10},
    num_cpus=0,
)(CoordinatorShell)


def create_coordinator(settings: ServiceSettings, home: str, avoid: str | None = None) -> Any:
    """The handle of the coordinator, which is made if there is none.

    It runs on the node `home` if the store is a file there; else not on the cluster's head, if
    there is another node. `avoid`: the node of a former one, which may be gone.
    """
    is_there = settings.connector().is_on_one_machine
    return named_actor(
        _CoordinatorActor,
        settings,
        home,
        name=COORDINATOR,
        namespace=namespace_of(settings),
        on=on_node(home) if is_there else away_from_head(avoid),
    )


def coordinator_of(settings: ServiceSettings, home: str) -> RayCoordinator:
    """`home`: the Ray node whose machine has the store's file, if it is one."""
    return RayCoordinator(partial(create_coordinator, settings, home))
