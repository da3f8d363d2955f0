"""The service's processes in a world: hosts, coordinators, and handles on them.

The service's own code makes all decisions: `Host`, `CoordinatorService` and the client. This
module replaces Ray: it starts processes, names them, carries calls, and now and then believes
that a living process is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tierledger.actors.calls import (
    LEADER,
    Call,
    CoordinatedHost,
    PlaceCall,
    Placement,
    Request,
    refusal_of,
)
from tierledger.actors.conditions import STORE_REFUSED, Conditions
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.coordinator.placement import WRITER
from tierledger.actors.coordinator.requests import FollowedCoordinator
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.deadline import Attempt
from tierledger.actors.door.addresses import url_of
from tierledger.actors.door.client.connection import connect_at, greeting_of
from tierledger.actors.door.client.feed_stream import FeedStreams
from tierledger.actors.door.client.streams import Streams
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.door.server.hinting import Hinting
from tierledger.actors.door.server.neighbours import Neighbours
from tierledger.actors.host.host import Host
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.hosted_backend import HostedBackend
from tierledger.actors.ports import LeaderOracle, RetentionSource
from tierledger.actors.process_clock import ProcessClock
from tierledger.events.errors import Fenced, NotReady, OutcomeUnknown, RemoteStorageError
from tierledger.simulation.history.recorded_client import call_text
from tierledger.simulation.machines.moved import unnotified
from tierledger.simulation.service.lying_store import StoreConnection
from tierledger.simulation.service.plan import CLOCK_OFF_BY_DAYS, GAVE_UP, LEADER_MOVED
from tierledger.simulation.service.process_watch import ProcessWatch, WatchedOracle
from tierledger.simulation.service.spill import small_spill
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.streams import doors_of
from tierledger.simulation.service.virtual_loop import (
    VirtualLoop,
    VirtualProcess,
    current_process,
)
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.serde import MetadataSerDe, MsgpackSerDe

T = TypeVar("T")

WALL_MS = 1_700_000_000_000
"""The time of day when a world begins (Unix time in ms)."""

DAY_MS = 86_400_000


class SkewedClock:
    """A process's clock, `offset_ms` ahead of the world's time."""

    def __init__(self, loop: VirtualLoop, offset_ms: int) -> None:
        self._loop = loop
        self._offset_ms = WALL_MS + offset_ms

    def step(self, by_ms: int) -> None:
        self._offset_ms += by_ms

    def now_ms(self) -> int:
        return self._offset_ms + int(self._loop.time() * 1000)


class ServiceProcess(VirtualProcess):
    """A process of the service: a host's or a coordinator's."""

    conditions: Conditions
    wall: SkewedClock

    @property
    def refuses_store(self) -> bool:
        """Whether it has seen that the store is not as it was, and goes on all the same."""
        held = [] if self.is_dead else self.conditions.plain()
        return any(one["code"] == STORE_REFUSED for one in held)


class HostProcess(ServiceProcess):
    """A process that runs one host."""

    def __init__(self, site: str, number: int) -> None:
        super().__init__(site, number)
        self.host: Host | None = None
        self.serde: MetadataSerDe = MsgpackSerDe()
        """That of its release."""
        self.writes = True
        """Whether this process writes to the store itself."""
        self.is_fenced = False
        """Whether another one has opened the store for writing: it is to end itself."""
        self.parts: list[object] = []
        """The host and what serves its door, to see what is left over in them."""


class CoordinatorProcess(ServiceProcess):
    """A process that runs one coordinator."""

    def __init__(self, number: int) -> None:
        super().__init__("coordinator", number)
        self.service: CoordinatorService | None = None
        self.is_started = False
        self.starting = asyncio.Lock()


class HostWay:
    """A handle on a host's process."""

    def __init__(self, cluster: Cluster, process: HostProcess) -> None:
        self.process = process
        self._cluster = cluster

    def _host(self) -> Host:
        assert self.process.host is not None, "the launcher makes it before anybody knows it"
        return self.process.host

    async def ask(self, request: Request[CoordinatedHost, T]) -> T:
        sent: Any = request
        if isinstance(sent, PlaceCall):
            sent = PlaceCall(self._cluster.distorted(sent.placements))
        try:
            answer: T = await self._cluster.network.call(
                self.process, lambda: sent.put_to(self._host()), sent
            )
        except BaseException:  # Also if nobody waits any longer.
            self._cluster.watch.unanswered(self.process, request)
            raise
        self._cluster.watch.answered(self.process, answer)
        return answer

    async def call(self, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401 - Whatever it is.
        attempt.is_sent = True

        async def work() -> object:
            return await self._host().call(call)

        refusal = refusal_of(call)
        return refusal or await self._cluster.network.call(
            self.process, work, call, call_text()
        )


class CoordinatorWay:
    """A handle on the coordinator. Finds or starts a successor if the coordinator is lost."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._process: CoordinatorProcess | None = None

    async def ask(self, request: Request[FollowedCoordinator, T]) -> T:
        for attempt in (1, 2):
            process = self._process = self._process or self._cluster.coordinator_process()
            assert process.service is not None, "made with its process"
            try:
                await self._cluster.start_coordinator(process)
                asked = partial(process.service.ask, request)
                answer: T = await self._cluster.network.call(process, asked, request)
            except OutcomeUnknown:
                is_lost = not process.is_reachable
                self._process = None
                if attempt == 2 or not is_lost:
                    raise
            except Fenced:
                self._cluster.watch.was_fenced(request)
                raise
            else:
                self._cluster.watch.was_accepted(request, answer)
                return answer
        raise AssertionError("the last attempt returns or raises")


class DirectConnection:
    """A client's connection to the service that needs no door."""

    def __init__(self, cluster: Cluster) -> None:
        self.coordinator = CoordinatorWay(cluster)
        self._cluster = cluster

    def host(self, name: str) -> HostWay:
        return self._cluster.host(name)

    async def close(self) -> None:
        """Does nothing: the service goes on."""


class StartCall(NamedTuple):
    """What a coordinator is asked that has not started."""


RESTART_S = 0.2
"""Seconds between two checks that a coordinator runs, in case that no caller starts one."""


class Cluster:
    """All processes of the service by name. Also the launcher that coordinators use."""

    def __init__(
        self, world: Stage, oracle: LeaderOracle, retentions: RetentionSource | None = None
    ) -> None:
        """`retentions`: what Kafka says of deletions; None: it is not asked."""
        self._retentions = retentions
        self.network = world.network
        self._streams = world.streams
        self.coordinator: CoordinatorProcess | None = None
        self.hosts: dict[str, HostProcess] = {}
        """The last process at each address, also if it is dead."""
        self.placed: list[Placement] = []
        """Every placement of a leader that was sent to a host, in order."""
        self.processes = world.lives
        self._world = world
        self._settings = world.settings
        self._keys = world.keys
        self._scenario = world.scenario
        self._loop = world.loop
        self._store = world.store
        self._ends = 0
        self._writing: tuple[HostProcess, StoreConnection] | None = None
        """The newest process that writes to a bucket."""
        self._recording = world.recording
        self.watch = ProcessWatch(world.loop.clock, world.recording)
        self._oracle = WatchedOracle(oracle, self.watch, world.loop.clock)
        self._serde = world.settings.serde()

    def distorted(self, placements: Sequence[Placement]) -> list[Placement]:
        """The placements that are sent; an older one is among them if a lie is due."""
        if any(one.is_moved for one in placements):
            self._recording.mark(LEADER_MOVED)
        lies, moved = self._world.lies, self._world.moved
        sent = unnotified(placements, () if self._world.is_healing else moved)
        self.placed += [
            one for one in sent if one.role == LEADER and one.assignment is not None
        ]
        if lies and self.placed:
            self._recording.mark("coordinator lied")
            sent.insert(0, self.placed[lies.pop(0) % len(self.placed)])
        return sent

    def clock(
        self, process: ServiceProcess, conditions: Callable[[], Conditions]
    ) -> ProcessClock:
        """A clock for a new process, as wrong as the plan allows."""
        skews_ms, off = self._scenario.skews_ms, self._scenario.clock_off
        offset_ms = skews_ms[len(self.processes) % len(skews_ms)]
        if off is not None and off[0] == process.site:
            self._recording.mark(CLOCK_OFF_BY_DAYS)
            offset_ms += off[1] * DAY_MS
        process.wall = SkewedClock(self._loop, offset_ms)
        return ProcessClock(process.wall, self._loop.time, conditions)

    async def connect(self, settings: ServiceSettings) -> ServiceConnection:
        """A client's connection to the service: direct, or through the doors of all hosts."""
        if self._scenario.is_direct:
            return DirectConnection(self)
        url = url_of(doors_of(self._scenario.hosts), tls=False)
        return await connect_at(url, self._streams.opened)(settings)

    def _open_door(self, address: str, process: HostProcess) -> None:
        host, streams = process.host, self._streams
        if host is None:
            return
        peers = Streams(greeting_of(host.cluster_id), opened=streams.opened)
        desk = Desk(address, host, CoordinatorWay(self), peers)
        gateway = Gateway(desk, host.cluster_id, streams.plan.limits, heard=host.report.hear)
        host.report.door = streams.listen(process.site, process, gateway)
        feeds = FeedStreams(greeting_of(host.cluster_id), opened=streams.fed)
        hinting = Hinting(host, desk, feeds)
        process.parts += [host, gateway, hinting]
        knocks = Neighbours(host, address, CoordinatorWay(self), self._opens)
        for work in (hinting.run(), knocks.run()):
            process.context().run(host.spawn, work)

    async def _opens(self, door: str) -> bool:
        opens = await self._streams.opens(door)
        self.watch.knocked(current_process(), door, opens=opens)
        return opens

    # Coordinators.

    def coordinator_process(self) -> CoordinatorProcess:
        """The running coordinator, or a new one that is not started yet."""
        current = self.coordinator
        if current is not None and current.is_reachable:
            return current
        process = CoordinatorProcess(len(self.processes))
        self._world.begins(process)
        store = StoreConnection(self._store, process)
        service = process.service = CoordinatorService(
            cluster_id=self._settings.cluster_id,
            keys=self._keys,
            serde=self._serde,
            launcher=self,
            clock=self.clock(process, lambda: service.conditions),
            hosts=self._scenario.hosts,
            partitions_per_host=self._scenario.partitions_per_host,
            identity=process.name.encode(),
            backend=None if self._scenario.one_writer else store,
            reader=store if self._scenario.one_writer else None,
            oracle=self._oracle,
            opens=self._opens,
            spill=small_spill(),
            give_up=lambda: self._give_up(process),
        )
        process.conditions = service.conditions
        self.watch.coordinator(process, service)
        self.coordinator = process
        return process

    async def start_coordinator(self, process: CoordinatorProcess) -> None:
        """Start the coordinator's service once; concurrent callers wait for that start."""
        service = process.service
        assert service is not None, "made with its process"

        async def start() -> None:
            async with process.starting:
                if not process.is_started:
                    await service.start()
                    process.is_started = True

        if not process.is_started:
            await self.network.call(process, start, StartCall())

    async def keep_coordinator(self) -> None:
        """Restart the coordinator whenever it has ended, as Ray does."""
        while True:
            with suppress(RemoteStorageError):
                await self.start_coordinator(self.coordinator_process())
            await asyncio.sleep(RESTART_S)

    # Hosts, as the coordinator's launcher.

    def prepare(self, address: str, *, is_replacement: bool = False) -> None:
        """Does nothing: `launch` starts the process."""

    async def launch(self, address: str) -> HostWay:
        running = self.hosts.get(address)
        if running is not None and running.is_reachable:
            return HostWay(self, running)
        name = address.rpartition("/")[0]
        process = HostProcess(name, len(self.processes))
        process.serde = self._world.serde_of(name)
        process.writes = not self._scenario.one_writer or name == WRITER
        self._world.begins(process)
        host = process.host = Host(
            name,
            process=process.name,
            pid=process.number,
            cluster_id=self._settings.cluster_id,
            backend=self._backend_for(process),
            keys=self._keys,
            serde=process.serde,
            limits=self._settings.limits,
            clock=self.clock(process, lambda: host.report.conditions),
            give_up=lambda: self._give_up(process),
            oracle=self._oracle,
            retentions=self._retentions,
            spill=small_spill(),
        )
        process.conditions = host.report.conditions
        self.watch.host(process, host)
        process.context().run(process.host.start)
        self._open_door(address, process)
        self.hosts[address] = process
        self._recording.event("launch", process.name)
        return HostWay(self, process)

    def _backend_for(self, process: HostProcess) -> MetadataStorageBackend:
        store, scenario = StoreConnection(self._store, process), self._scenario
        is_bucket = scenario.one_writer and scenario.is_bucket
        if process.writes:
            if is_bucket and self._writing is not None:
                former, connection = self._writing
                former.is_fenced = True
                connection.fence()
            self._writing = process, store
            return store

        async def writer() -> HostWay:
            return self.host(WRITER)

        return HostedBackend(writer, None if is_bucket else store)

    async def find(self, address: str) -> HostWay | None:
        running = self.hosts.get(address)
        if running is None or not running.is_reachable:
            return None
        return HostWay(self, running)

    async def end(self, address: str, process: str | None) -> None:
        """End the process at `address`; with `process`, only if that is its name.

        A paused process, and one of two others, lives on as a zombie instead, as an unreachable
        process does. The only writer of a file is always killed; that of a bucket can live on
        within reach.
        """
        found = self.hosts.get(address)
        if found is None or not found.is_reachable or process not in (None, found.name):
            return
        self.watch.ended(found, is_given_up=process is not None)
        self._ends += 1
        scenario = self._scenario
        is_writer, turn = scenario.one_writer and found.writes, self._ends + scenario.seed
        must_end = is_writer and not scenario.is_bucket
        if is_writer and scenario.is_bucket and turn % 4 == 0:
            # Who still knows it goes on asking it, until it learns that it was replaced.
            self._recording.mark("host replaced while it lives")
        elif not must_end and (found.is_paused or turn % 2):
            self._recording.mark("host replaced while it lives")
            self._loop.cut_off(found)
        else:
            self._loop.kill(found)

    def host(self, name: str) -> HostWay:
        """A handle on the process whose address is `name`, or the newest one of host `name`."""
        if self._loop.is_closed():
            raise NotReady("the world has ended")
        for address, process in reversed(self.hosts.items()):
            if name in (address, process.site) and process.is_reachable:
                return HostWay(self, process)
        raise NotReady(f"{name} is not running")

    def _give_up(self, process: VirtualProcess) -> None:
        if not (isinstance(process, HostProcess) and process.is_fenced):
            self._recording.mark(GAVE_UP)
        self._loop.kill(process)
