"""A service on Ray: started on a store, found through it, and left in good order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from tierledger.actors.calls import StoreCall
from tierledger.actors.coordinator.placement import WRITER
from tierledger.actors.coordinator.requests import DoorsCall, HostsCall, StatusCall
from tierledger.actors.discovery.service_record import (
    ServiceRecord,
    live_record,
    read_record,
    record_change,
    record_of,
)
from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.door.security.settings import is_loopback
from tierledger.actors.foreign_errors import documenting
from tierledger.actors.host_settings import ServiceSettings, with_absolute_store
from tierledger.actors.processes import this_process
from tierledger.actors.ray import cluster as ray_cluster
from tierledger.actors.ray.coordinator import coordinator_of
from tierledger.actors.ray.handles import (
    COORDINATOR,
    NamedHost,
    RayCoordinator,
    addresses_of,
    call,
    namespace_of,
)
from tierledger.actors.ray.launcher import end_process
from tierledger.actors.wall_clock import WallClock
from tierledger.events.errors import (
    InvalidArgument,
    NoSuchStore,
    NotReady,
    OutcomeUnknown,
    RemoteStorageError,
    StoreRefused,
)
from tierledger.storage.backend import Operation
from tierledger.storage.process_log import ProcessLog

WATCH_INTERVAL_S = 1.0
"""How often `serve` checks whether the coordinator answers."""

COORDINATOR_TIMEOUT_S = 4.0
"""How long the coordinator may take to answer a check."""

SILENCES = 3
"""Checks in a row that the coordinator may miss before its process is ended."""

LATE_S = 0.5
"""If a check's timeout fires so much too late, this process was busy, not the coordinator."""

UNSERVED_S = 120.0
"""How long a service on a cluster of its own may accept no writes before it is given up. A busy
machine takes half a minute to start a host, and a store's writer has two minutes."""

UNANSWERED = "the coordinator does not answer"

NODES_TIMEOUT_S = 60.0
"""How long a start waits for nodes; without them it serves with less room."""

NODES_PAUSE_S = 0.2

CLOSE_TIMEOUT_S = 20.0
"""How long a host may take to drain; without a checkpoint more of the log is read later."""

_log = ProcessLog("tierledger.service")


class RayConnection:
    """A service's processes, in the cluster that this process joined."""

    def __init__(self, settings: ServiceSettings, home: str | None = None) -> None:
        """`home`: the Ray node whose machine has the store's file; else this process's."""
        self.coordinator = coordinator_of(settings, home or ray_cluster.own_node())
        self._namespace = namespace_of(settings)

    def host(self, name: str) -> NamedHost:
        return NamedHost(name, self._namespace)

    async def close(self) -> None:
        """Does nothing: the cluster stays joined, since a process joins only one."""


async def connect(settings: ServiceSettings) -> RayConnection:
    """A connection to the service that runs on the store. Never blocks the loop.

    Raises:
        NotReady: No service runs.
        NoSuchStore: There is no such store.
    """
    if await ray_cluster.has_lost_cluster():
        # Leave the dead cluster at once: after a minute Ray ends processes that stay in it.
        await ray_cluster.beside(ray_cluster.leave_cluster)
    record = await live_record(settings)
    await ray_cluster.beside(lambda: ray_cluster.join_cluster(record.address))
    if record.cluster not in {None, ray_cluster.own_cluster()}:
        raise NotReady(
            f"another Ray cluster is at {record.address} by now; "
            "start the service again with: tierledger serve"
        )
    return RayConnection(record.settings_of(settings), record.node)


class RayService:
    """A service that this process runs: the coordinator and its hosts, on a Ray cluster.

    The cluster is a new one, or one that runs already. On the latter they live on if this
    process dies; `close` ends them.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        metrics: str | None = None,
        address: str | None = None,
        give_up: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`metrics`: where the service's metrics are, for its record.

        `address`: the Ray cluster to use; None: a new one, which ends with this process.

        `give_up`: called with a reason if the new cluster starts no hosts any more.
        """
        self.settings = with_absolute_store(settings)
        self.record: ServiceRecord | None = None
        self.made_store = False
        """Whether the start has made the store, as there was none."""
        self._metrics = metrics
        self._address = address
        self._give_up = give_up
        self._serving: dict[str, str] = {}
        """The processes that served at the last look, by name."""
        self._known: dict[str, str] = {}
        """The last process of each name."""
        self._is_hindered = False
        """Whether it was said that nothing can be written for want of a host."""
        self._namespace = namespace_of(settings)
        self._connection: RayConnection | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> ServiceRecord:
        """Start coordinator and hosts, and store the service's record, which is returned.

        Raises:
            X: A second process could not see the store, or hosts on several
                machines would not reach each other.
            NotReady: The cluster cannot be joined.
        """
        await self._refuse_second()
        if self._address is None:
            await self._make_store()  # Before what takes longer to fail.
            address = ray_cluster.start_cluster()
        else:
            address = ray_cluster.join_cluster(self._address)
        is_new = False
        try:
            is_new = not ray_cluster.actor_names(self._namespace)
            # What serves already has its store, wherever that is now.
            if is_new and self._address is not None:
                await self._make_store()
            if is_new:
                await self._gather_nodes()
            self._refuse_unreachable()
            connection = RayConnection(self.settings)
            doors = await _listening(connection.coordinator)
            now_ms = WallClock().now_ms()
            self.record = record_of(self.settings, address, this_process(), now_ms)._replace(
                metrics=self._metrics,
                node=ray_cluster.own_node(),
                cluster=ray_cluster.own_cluster(),
                doors=doors,
            )
            await self._publish(self.record)
        except BaseException:
            if is_new:  # Otherwise the hosts serve on, as before this start.
                await self._end_actors()
            ray_cluster.leave_cluster()
            raise
        self._connection = connection
        self._watch = asyncio.get_running_loop().create_task(self._look_after())
        return self.record

    async def _refuse_second(self) -> None:
        if self.settings.storage.get("metadata.storage.url", "").startswith("memory:"):
            raise InvalidArgument(
                "a memory store lives in one process only; a service needs sqlite:FILE"
            )
        try:
            record = await read_record(self.settings)
        except NoSuchStore:
            return
        if record is None or not record.is_live:
            return
        # Something listens at the address; it may be another cluster than the recorded one.
        found = await ray_cluster.cluster_at(record.address)
        if found is None or record.cluster not in {None, found} or self._takes_over(record):
            return
        raise StoreRefused(
            f"a service runs on this store already: pid {record.pid}, at {record.address}"
        )

    async def _make_store(self) -> None:
        """Make the store if there is none. Only this start does; see 0057.

        A host or coordinator that replaces another would serve an empty store otherwise, with
        the true one moved away for a moment.
        """
        connector = self.settings.connector()
        try:
            backend = await connector.backend(read_only=True)
        except StoreRefused as error:
            self.made_store = isinstance(error, NoSuchStore)
            # Opening it for writing makes a missing store, and completes one whose making was
            # interrupted (an empty file). If neither is the reason, it raises.
            backend = await connector.backend(read_only=False)
        await backend.close()

    async def _gather_nodes(self) -> None:
        """Wait for the cluster's nodes: hosts are spread over those that are there."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + NODES_TIMEOUT_S
        expected = self.settings.nodes
        while len(found := await ray_cluster.beside(ray_cluster.live_nodes)) < expected:
            if loop.time() > deadline:
                _log.warning("Ray nodes are missing", expected=expected, found=len(found))
                return
            await asyncio.sleep(NODES_PAUSE_S)

    def _refuse_unreachable(self) -> None:
        """Refuse a loopback address if there are several machines: hosts call each other."""
        listen = DoorAddress.parse(self.settings.listen)
        machines = sorted(ray_cluster.node_ips())
        if len(machines) > 1 and is_loopback(listen.host):
            raise InvalidArgument(
                f"the Ray cluster has nodes on {', '.join(machines[:3])}: expected --listen "
                f"with an address that these machines reach, got {listen}"
            )

    def _takes_over(self, record: ServiceRecord) -> bool:
        """Whether the recorded service runs in this cluster, while its `serve` has ended."""
        if self._address is None:
            return False
        ray_cluster.join_cluster(self._address)
        here = (ray_cluster.own_cluster(), ray_cluster.own_node())
        return (record.cluster, record.node) == here and not record.is_looked_after

    async def _publish(self, record: ServiceRecord | None) -> None:
        """Store the service's record, or remove it (None)."""
        change: Operation = record_change(self.settings, record)
        connector = self.settings.connector()
        if connector.has_one_writer:
            writer = NamedHost(WRITER, self._namespace)
            await writer.ask(StoreCall("execute_atomically", [[change]], {}))
            return
        backend = await connector.backend(read_only=False)
        try:
            await backend.execute_atomically([change])
        finally:
            await backend.close()

    async def _look_after(self) -> None:
        """Make the coordinator anew when it is gone, and end it when it is silent."""
        coordinator = coordinator_of(self.settings, ray_cluster.own_node())
        loop = asyncio.get_running_loop()
        process: str | None = None
        silences = 0
        well_s = loop.time()
        while True:
            hindrance: str | None = UNANSWERED
            deadline = loop.time() + COORDINATOR_TIMEOUT_S
            try:
                async with asyncio.timeout_at(deadline):
                    with documenting("the coordinator"):
                        process = await coordinator.process()
                        hindrance = await coordinator.hindrance()
                        self._tell_changes(process, await coordinator.serving())
                silences = 0
            except TimeoutError:
                silences += loop.time() - deadline < LATE_S
                if silences >= SILENCES:
                    _log.warning("the coordinator is silent; starting another")
                    with contextlib.suppress(RemoteStorageError), documenting("its end"):
                        await self._end_coordinator(process)
                    silences = 0
            except RemoteStorageError as error:
                # The watch must not end: if the error persists, the next check gets it again.
                _log.warning("a look at the coordinator failed", error=str(error))
            well_s = self._judged(hindrance, well_s)
            await asyncio.sleep(WATCH_INTERVAL_S)

    def _tell_changes(self, coordinator: str, serving: Mapping[str, str]) -> None:
        """Log which processes have come and gone: the others' logs are in Ray's folder."""
        now = {**serving, "the coordinator": coordinator}
        for name in sorted(self._serving.keys() - now.keys()):
            _log.warning("a process serves no more", name=name, process=self._serving[name])
        for name, process in sorted(now.items()):
            if self._known.get(name, process) != process:
                _log.warning("another process serves", name=name, process=process)
        self._serving = now
        self._known |= now

    def _judged(self, hindrance: str | None, well_s: float) -> float:
        """When writes could be accepted last; the service is given up if that is long ago."""
        now_s = asyncio.get_running_loop().time()
        if hindrance is None:
            self._is_hindered = False
            return now_s
        if hindrance != UNANSWERED and not self._is_hindered:
            self._is_hindered = True
            _log.error("nothing can be written", reason=hindrance)
        if now_s - well_s > UNSERVED_S and self._address is None:
            self._give_up(f"nothing could be written for {UNSERVED_S:g} s: {hindrance}")
        return well_s

    async def _end_coordinator(self, process: str | None) -> None:
        ray_cluster.kill_actor(COORDINATOR, self._namespace)
        if process is not None:
            await end_process(process)

    async def close(self) -> None:
        """Drain and stop all partitions, withdraw the record, end the actors."""
        if self._watch is not None and not self._watch.done():
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            # A host that has ended already needs no drain: the log has all its writes.
            with contextlib.suppress(RemoteStorageError), documenting("the drain"):
                await self._drain()
            await self._end_actors()
        ray_cluster.leave_cluster()

    async def _drain(self) -> None:
        coordinator = ray_cluster.find_actor(COORDINATOR, self._namespace)
        if coordinator is not None:
            with contextlib.suppress(OutcomeUnknown):
                await call(coordinator, "close")
        names = ray_cluster.actor_names(self._namespace)
        writer = addresses_of(WRITER, self._namespace)
        others = [name for name in names if name not in {COORDINATOR, *writer}]
        # The other hosts commit through the writer, so it closes last.
        await asyncio.gather(*(self._close_host(name) for name in others))
        await self._publish(None)
        await asyncio.gather(*(self._close_host(name) for name in writer))

    async def _close_host(self, address: str) -> None:
        with contextlib.suppress(RemoteStorageError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await NamedHost(address, self._namespace).close()

    async def _end_actors(self) -> None:
        names = ray_cluster.actor_names(self._namespace)
        # The coordinator last: without it, a living host would start another.
        for name in sorted(names, key=lambda one: one == COORDINATOR):
            ray_cluster.kill_actor(name, self._namespace)


async def _listening(coordinator: RayCoordinator) -> tuple[tuple[str, str, str], ...]:
    """Where hosts listen now, in the record's form; later the coordinator updates it."""
    status, doors = await coordinator.ask(StatusCall()), await coordinator.ask(DoorsCall())
    found = [(status["addresses"][name], process) for name, process in status["hosts"].items()]
    return tuple((one, doors[one], process) for one, process in found if one in doors)


async def serving(settings: ServiceSettings) -> dict[str, str]:
    """The addresses of the processes that serve, by host."""
    return await RayConnection(settings).coordinator.ask(HostsCall())


async def kill_host(name: str, settings: ServiceSettings) -> None:
    """Kill a host's process in the middle of whatever it does (for drills and tests)."""
    address = (await serving(settings)).get(name)
    if address is not None:  # Otherwise it is being started.
        ray_cluster.kill_actor(address, namespace_of(settings))
