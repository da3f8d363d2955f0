"""A service of real processes on a Ray cluster of this process, and the faults it suffers.

The cluster has several nodes on this machine: each is a raylet with the processes it started.
A host's node is identified by the host's parent process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tierledger.actors.calls import CountsCall
from tierledger.actors.coordinator.requests import HostsCall
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import parent_of, process_of
from tierledger.actors.ray import cluster as ray_cluster
from tierledger.actors.ray.service import RayConnection, connect
from tierledger.events.errors import NotReady, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.decide import Limits
from tierledger.simulation.live.cable import Cable, cable
from tierledger.simulation.live.processes import descendants, end_all, wait_until_gone
from tierledger.simulation.live.server import free_ports
from tierledger.storage.connector import URL_SETTING

T = TypeVar("T")

NODE_CPUS = 2
"""CPUs that a node declares; hosts reserve none."""

PING_TIMEOUT_S = 2.0
SERVE_TIMEOUT_S = 180.0
LOOK_S = 0.05

HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 5,
}
"""A node is dead after 15 s of silence; with Ray's defaults it would be after 65 s."""

MOVES = 6
MOVE_PAUSE_S = 0.5
"""How often hosts are killed so that their leaders move, and the pause after each."""

HOSTS_SPARE = 2
"""Cables for hosts that are started beyond those that are wanted."""

NODE_END_S = 3.0
"""How long a node's processes have to end by themselves after their raylet."""


class HostFacts(NamedTuple):
    """What a host reports about itself."""

    name: str
    address: str
    process: str
    pid: int
    leaders: int
    release: str | None
    """None: of a release that does not tell."""

    @property
    def raylet(self) -> int:
        """The pid of the node's raylet; 1 or so if the raylet is gone."""
        return parent_of(self.pid)


class LiveService:
    """Cluster and `serve`, started and ended by this process, which joins the cluster."""

    def __init__(
        self,
        settings: ServiceSettings,
        folder: Path,
        *,
        nodes: int = 2,
        has_cables: bool = False,
    ) -> None:
        """`folder` holds the log of `serve`; `nodes` counts the cluster's head, too.

        `has_cables`: clients reach each host's door through a cable, which can be shut. A
        host's port is fixed then, so a frozen host keeps its successor from starting.
        """
        self.settings = settings
        self.has_cables = has_cables
        self.cables: list[Cable] = []
        """By the host's number; those of a service that runs, if it has them."""
        self._undone = AsyncExitStack()
        self._log = folder / "serve.log"
        self._nodes_wanted = nodes
        self._cluster: Any = None
        self._serve: subprocess.Popen[str] | None = None
        self._connection: RayConnection | None = None
        self._started: set[int] = set()
        """Processes that may outlive their parent."""

    # Life.

    async def start(self) -> None:
        """Start everything; returns once all hosts serve.

        Raises:
            NotReady: `serve` did not start; the message quotes its log.
        """
        logging.getLogger("ray").setLevel(logging.ERROR)
        if self.has_cables and not self.cables:
            await self._lay_cables()
        self._cluster = await asyncio.to_thread(ray_cluster.tried_twice, self._cluster_of_nodes)
        self._serve = await asyncio.to_thread(self._served)
        await self.all_serve()

    async def _lay_cables(self) -> None:
        count = self.settings.hosts + HOSTS_SPARE
        far, near = free_ports(count), free_ports(count)
        self.settings = replace(
            self.settings, listen=f"127.0.0.1:{far}", advertise=f"127.0.0.1:{near}"
        )
        for number in range(count):
            laid = cable(f"127.0.0.1:{far + number}", near + number)
            self.cables.append(await self._undone.enter_async_context(laid))

    def _cluster_of_nodes(self) -> Any:
        # Only after `actors.ray.cluster` has set what Ray reads when it is imported.
        from ray.cluster_utils import Cluster  # noqa: PLC0415

        ray_cluster.ensure_token()
        cluster: Any = Cluster(shutdown_at_exit=False)
        _add_node(cluster, _system_config=HEALTH_CHECKS)
        for _ in range(self._nodes_wanted - 1):
            _add_node(cluster)
        return cluster

    def _served(self) -> subprocess.Popen[str]:
        settings = self.settings
        options = {
            "--store": settings.storage[URL_SETTING],
            "--cluster": settings.cluster_id,
            "--custom-metadata-max-bytes": settings.limits.custom_metadata_bytes_max,
            "--hosts": settings.hosts,
            "--partitions-per-host": settings.partitions_per_host,
            "--address": self._cluster.address,
            "--nodes": self._nodes_wanted,
        }
        if settings.limits.tombstone_retention_ms != Limits().tombstone_retention_ms:
            # Former releases do not know it.
            options["--tombstone-retention"] = f"{settings.limits.tombstone_retention_ms}ms"
        if settings.advertise is not None:
            options |= {"--listen": settings.listen, "--advertise": settings.advertise}
        given = [str(part) for pair in options.items() for part in pair]
        with self._log.open("a") as log:
            serve = subprocess.Popen(
                [sys.executable, "-m", "tierledger.cli.main", "serve", *given],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert serve.stdout is not None
        if not serve.stdout.readline().startswith("serving cluster "):
            serve.kill()
            serve.communicate()
            raise NotReady(f"serve did not start: {self._log.read_text()[-2000:]}")
        return serve

    async def stop(self) -> None:
        """End the service in good order, then the cluster; no process is left."""
        serve, self._serve = self._serve, None
        if serve is not None:
            serve.terminate()
            try:
                await asyncio.to_thread(serve.communicate, timeout=SERVE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                serve.kill()
                serve.communicate()
        await self._end_cluster()
        await self._undone.aclose()
        self.cables.clear()

    async def kill_everything(self) -> None:
        """SIGKILL `serve`, hosts, coordinator, raylets and control store at once."""
        assert self._serve is not None, "it is served"
        family = [self._serve.pid, *self._cluster_processes()]
        end_all(family)
        self._serve.communicate()
        self._serve = None

    async def leave(self) -> None:
        """Leave a cluster whose processes are gone."""
        await self._end_cluster()

    async def _end_cluster(self) -> None:
        self._connection = None
        ray_cluster.leave_cluster()
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        family = [*self._started, *_processes_of(cluster)]
        for node in _nodes_of(cluster):
            await asyncio.to_thread(_end_node, node)
        end_all(family)
        self._started.clear()
        await asyncio.to_thread(wait_until_gone, family)

    # What runs.

    async def connection(self) -> RayConnection:
        """This process's connection to the service."""
        if self._connection is None:
            self._connection = await connect(self.settings)
        return self._connection

    async def hosts(self) -> list[HostFacts]:
        """All hosts that the coordinator knows and that answer, by name."""
        connection = await self.connection()
        addresses = await _persistent(lambda: connection.coordinator.ask(HostsCall()))
        found = []
        for name, address in addresses.items():
            try:
                async with asyncio.timeout(PING_TIMEOUT_S):
                    counts = await connection.host(address).ask(CountsCall())
            except (RemoteStorageError, TimeoutError):
                continue
            found.append(
                HostFacts(
                    name,
                    address,
                    counts["process"],
                    counts["pid"],
                    counts["leaders"],
                    counts.get("release"),
                )
            )
        return found

    async def all_serve(self, but: str = "") -> list[HostFacts]:
        """The hosts, once enough of them serve and none is the process `but`."""
        async with asyncio.timeout(SERVE_TIMEOUT_S):
            while True:
                hosts = await self.hosts()
                is_new = all(host.process != but for host in hosts)
                if is_new and len(hosts) >= self.settings.hosts:
                    return hosts
                await asyncio.sleep(LOOK_S)

    async def given_up(self, host: HostFacts) -> None:
        """Return once the coordinator has given `host` up.

        Raises:
            TimeoutError: It has not, after `SERVE_TIMEOUT_S`.
        """
        connection = await self.connection()
        async with asyncio.timeout(SERVE_TIMEOUT_S):
            while True:
                known = await _persistent(lambda: connection.coordinator.ask(HostsCall()))
                if host.address not in known.values():
                    return
                await asyncio.sleep(LOOK_S)

    async def coordinator(self) -> tuple[str, int]:
        """The coordinator's process and pid."""
        connection = await self.connection()
        process = await _persistent(connection.coordinator.process)
        known = process_of(process)
        assert known is not None, "it is of this version"
        return process, known.pid

    async def other_coordinator(self, but: str) -> None:
        """Return once the coordinator is another process than `but`."""
        while True:
            process, _ = await self.coordinator()
            if process != but:
                return
            await asyncio.sleep(LOOK_S)

    async def elsewhere(self) -> list[HostFacts]:
        """Hosts on nodes that neither the coordinator nor this process runs on.

        The coordinator can end a silent host only on its own node, by its pid. A host on any
        other node may freeze, thaw, and still believe that it leads.
        """
        _, coordinator = await self.coordinator()
        near = {parent_of(coordinator), self._raylet(self._cluster.head_node)}
        return [host for host in await self.hosts() if host.raylet not in near]

    async def leader_elsewhere(
        self, led_by: Callable[[HostFacts], Awaitable[list[TopicIdPartition]]]
    ) -> tuple[HostFacts, list[TopicIdPartition]] | None:
        """A host of `elsewhere` and what it leads as `led_by` tells; none if there is none.

        `led_by` counts only partitions in use, since hosts also lead unused ones. While no such
        host leads any, hosts that do are killed, so that their leaders move there.
        """
        for _ in range(MOVES):
            far = await self.elsewhere()
            for host in far:
                if led := await led_by(host):
                    return host, led
            processes = {host.process for host in far}
            for host in await self.hosts():
                if host.process not in processes and await led_by(host):
                    os.kill(host.pid, signal.SIGKILL)
                    await self.all_serve(but=host.process)
                    break
            await asyncio.sleep(MOVE_PAUSE_S)
        return None

    def raylets(self) -> list[int]:
        """The raylets of all nodes but the head."""
        return sorted(self._raylet(node) for node in self._cluster.worker_nodes)

    @staticmethod
    def _raylet(node: Any) -> int:
        pid: int = node.all_processes["raylet"][0].process.pid
        return pid

    def _cluster_processes(self) -> list[int]:
        return _processes_of(self._cluster)

    # Faults.

    def freeze(self, host: HostFacts) -> None:
        """Freeze a host, and its raylet, through which the host could be ended."""
        os.kill(host.raylet, signal.SIGSTOP)
        os.kill(host.pid, signal.SIGSTOP)

    @staticmethod
    def thaw(host: HostFacts) -> None:
        """Let the host continue; its raylet stays frozen, so nobody can end the host."""
        os.kill(host.pid, signal.SIGCONT)

    def kill_control_store(self) -> None:
        """SIGKILL the control store of Ray: until the cluster ends, no actor starts."""
        self._leave()
        (control_store,) = self._cluster.head_node.all_processes["gcs_server"]
        os.kill(control_store.process.pid, signal.SIGKILL)

    def kill_head(self) -> None:
        """SIGKILL all that runs on the head: control store, raylet, and its hosts."""
        self._leave()
        head = self._cluster.head_node
        roots = [one.process.pid for many in head.all_processes.values() for one in many]
        end_all([*roots, *(pid for root in roots for pid in descendants(root))])

    def _leave(self) -> None:
        """Leave the cluster: Ray ends a process that does not reach its control store."""
        self._connection = None
        ray_cluster.leave_cluster()

    async def replace_node(self, raylet: int) -> None:
        """Lose a node, and add another one."""
        await self.lose_node(raylet)
        await self.add_node()

    async def add_node(self) -> None:
        await asyncio.to_thread(_add_node, self._cluster)

    async def lose_node(self, raylet: int) -> None:
        """Kill a node's raylet, and wait until all of its processes have ended."""
        (node,) = [one for one in self._cluster.worker_nodes if self._raylet(one) == raylet]
        family = [raylet, *descendants(raylet)]
        self._started.update(family)
        os.kill(raylet, signal.SIGKILL)  # Frozen processes die, too.
        await asyncio.to_thread(self._end, node, family)
        self._started.difference_update(family)

    def _end(self, node: Any, family: Sequence[int]) -> None:
        with contextlib.suppress(TimeoutError):
            wait_until_gone(family, NODE_END_S)
        end_all(family)  # Frozen ones, and those that do not notice.
        _end_node(node)
        self._cluster.worker_nodes.remove(node)


async def _persistent(ask: Callable[[], Awaitable[T]]) -> T:
    """The coordinator's answer, asked again while it fails: it may just have died.

    Raises:
        RemoteStorageError: It fails for `SERVE_TIMEOUT_S`; this is the last failure.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SERVE_TIMEOUT_S
    while True:
        try:
            return await ask()
        except RemoteStorageError:
            if loop.time() > deadline:
                raise
            await asyncio.sleep(LOOK_S)


def _processes_of(cluster: Any) -> list[int]:
    """All processes that run on a cluster's nodes."""
    nodes = _nodes_of(cluster)
    roots = [
        one.process.pid
        for node in nodes
        for many in node.all_processes.values()
        for one in many
    ]
    return sorted({pid for root in roots for pid in (root, *descendants(root))})


def _nodes_of(cluster: Any) -> list[Any]:
    """A cluster's nodes, the head last; fewer if it did not start."""
    return [node for node in (*cluster.worker_nodes, cluster.head_node) if node is not None]


def _end_node(node: Any) -> None:
    node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)


def _add_node(cluster: Any, **options: Any) -> None:
    cluster.add_node(
        **options,
        num_cpus=NODE_CPUS,
        object_store_memory=ray_cluster.OBJECT_STORE_BYTES,
        include_dashboard=False,
    )
