"""Starts, finds and ends the Ray actors that are hosts."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import Any

from typing_extensions import override

from tierledger.actors.calls import HostPing
from tierledger.actors.coordinator.placement import WRITER, emptiest_node
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import node_of, process_of
from tierledger.actors.ray.cluster import find_actor, live_nodes, on_node, own_node, ray
from tierledger.actors.ray.handles import (
    START_TIMEOUT_S,
    RayCoordinator,
    RayHost,
    call,
    namespace_of,
)
from tierledger.actors.ray.host import create_host
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError, StorageUnavailable

END_TIMEOUT_S = 15.0
"""How long an ended process on this node may take to be gone."""

END_PAUSE_S = 0.02


class RayLauncher:
    """Starts and ends hosts of the cluster that this process is in."""

    def __init__(
        self, settings: ServiceSettings, home: str, coordinator: RayCoordinator
    ) -> None:
        """`home`: the Ray node whose machine has the store's file, if it is one.

        `coordinator`: which hosts find, or make its successor.
        """
        self._coordinator = coordinator
        self._settings = settings
        self._home = home
        self._namespace = namespace_of(settings)
        self._has_one_writer = settings.connector().has_one_writer
        self._nodes: dict[str, str] = {}
        """Host to the node on which it runs, or is to run."""
        self._failures: Counter[str] = Counter()
        self._failed_on: dict[str, str] = {}
        """Host to the node of its last start, if that came to nothing."""

    def prepare(self, address: str) -> None:
        """Let the writing host's process begin to start; `launch` lets it open the store.

        Python and Ray take a second for that, and half a minute on a busy machine.
        """
        self._nodes[address.rpartition("/")[0]] = self._home
        self._create(address, self._home)

    def _create(self, address: str, node: str) -> Any:
        return create_host(
            address, self._settings, self._home, self._coordinator, on_node(node)
        )

    async def launch(self, address: str) -> RayHost:
        """The process at `address`, or a new one, whose store is open.

        Where the store has one writer, that host runs on the node of the file; all others are
        spread over the nodes.

        Raises:
            RemoteStorageError: The store cannot be opened; no process is left behind.
        """
        name = address.rpartition("/")[0]
        is_writer = self._has_one_writer and name == WRITER
        node = self._home if is_writer else self._emptiest(name)
        self._nodes[name] = node
        actor = self._create(address, node)
        host = _LocatedHost(actor, name, self._nodes)
        try:
            await call(host.actor, "open", timeout_s=START_TIMEOUT_S)
        except (OutcomeUnknown, asyncio.CancelledError):
            # Ray may believe in a node that is gone.
            self._failures[node] += 1
            self._failed_on[name] = node
            raise
        except RemoteStorageError:
            ray.kill(host.actor, no_restart=True)
            raise
        self._failures.pop(node, None)
        self._failed_on.pop(name, None)
        return host

    async def find(self, address: str) -> RayHost | None:
        """The process at `address`; none if Ray knows none there."""
        actor = find_actor(address, self._namespace)
        if actor is None:
            return None
        return _LocatedHost(actor, address.rpartition("/")[0], self._nodes)

    def _emptiest(self, name: str) -> str:
        """The node with the fewest hosts, for `name` to start on.

        Ray's own strategy of spreading was seen to put two of three on one node.
        """
        self._nodes.pop(name, None)
        hosts = Counter(self._nodes.values())
        avoid = self._failed_on.pop(name, None)
        return emptiest_node(live_nodes(), hosts, self._failures, avoid)

    async def end(self, address: str, process: str | None) -> None:
        """Kill what runs at `address`.

        `ray.kill` comes back before the process is gone, and a frozen one outlives it, with
        the store's lock: so a process on this node gets a signal, too. One on another node, or
        whose start is not known, is left to Ray, which may not reach it: its log fences it.

        Raises:
            StorageUnavailable: A process on this node does not end.
        """
        actor = find_actor(address, self._namespace)
        if actor is not None:
            ray.kill(actor, no_restart=True)
        if process is not None:
            await end_process(process)


class _LocatedHost(RayHost):
    """A handle that notes on which node the host runs."""

    def __init__(self, actor: Any, name: str, nodes: dict[str, str]) -> None:
        super().__init__(actor)
        self._name = name
        self._nodes = nodes

    @override
    async def ping(self) -> HostPing:
        said = await super().ping()
        node = node_of(said.process)
        assert node is not None, "it runs on Ray"
        self._nodes[self._name] = node
        return said


async def end_process(name: str) -> None:
    """End the process of this node that calls itself `name`, and return once it is gone.

    Others are left alone: one of another node, one that has the pid by now.

    Raises:
        StorageUnavailable: It does not end.
    """
    process = process_of(name)
    if process is None or node_of(name) != own_node():
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + END_TIMEOUT_S
    while process.signal(signal.SIGKILL):
        if loop.time() > deadline:
            raise StorageUnavailable(f"{name} does not end")
        await asyncio.sleep(END_PAUSE_S)
