"""Starts, finds and ends the Ray actors that are hosts."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import suppress
from typing import Any, TypeVar

from typing_extensions import override

from tierledger.actors.calls import CoordinatedHost, HostPing, Request
from tierledger.actors.coordinator.placement import WRITER, emptiest_node
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import node_of, process_of
from tierledger.actors.ray.cluster import (
    beside,
    find_actor,
    kill_actor,
    live_nodes,
    on_node,
    own_node,
    ray,
)
from tierledger.actors.ray.handles import (
    START_TIMEOUT_S,
    RayCoordinator,
    RayHost,
    call,
    namespace_of,
)
from tierledger.actors.ray.host import create_host
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError, StorageUnavailable
from tierledger.storage.process_log import ProcessLog

T = TypeVar("T")

END_TIMEOUT_S = 15.0
"""How long a killed process on this node may take to end."""

END_PAUSE_S = 0.02

LOOK_TIMEOUT_S = 5.0
"""How long a process in reserve may take to answer before another one is started."""

KILL_TIMEOUT_S = 3.0
"""How long Ray may take to kill a process; its control store may be away."""

_log = ProcessLog("tierledger.launcher")


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
        self._is_on_one_machine = settings.connector().is_on_one_machine
        self._nodes: dict[str, str] = {}
        """By host: the node on which it runs, or is to run."""
        self._reserve: dict[str, asyncio.Task[tuple[str, Any]]] = {}
        """By address: a process that was started before its launch, with its node."""
        self._failures: Counter[str] = Counter()
        self._failed_on: dict[str, str] = {}
        """By host: the node of its last start, if that failed."""

    def prepare(self, address: str, *, is_replacement: bool = False) -> None:
        """Begin to start a process; `launch` lets it open the store.

        Python and Ray take a second to start, and half a minute on a busy machine. Without the
        control store of Ray none starts, and this one can be launched all the same. If it is
        called again, it looks whether the process still lives.

        It is on another node than the former one if possible, whose node may be lost; not if
        it is a replacement.
        """
        known = self._reserve.get(address)
        if known is None or known.done():
            former = None if is_replacement else self._nodes.get(address.rpartition("/")[0])
            preparing = self._prepared(address, known, former)
            self._reserve[address] = asyncio.create_task(preparing)

    async def _prepared(
        self, address: str, known: asyncio.Task[tuple[str, Any]] | None, avoid: str | None
    ) -> tuple[str, Any]:
        if known is not None and _is_well(known):
            with suppress(RemoteStorageError):
                await call(known.result()[1], "is_open", timeout_s=LOOK_TIMEOUT_S)
                return known.result()
            await beside(lambda: kill_actor(address, self._namespace))
        node = await self._node_for(address.rpartition("/")[0], avoid)
        actor = await self._created(address, node)
        await call(actor, "is_open", timeout_s=START_TIMEOUT_S)
        return node, actor

    async def _created(self, address: str, node: str) -> Any:
        making = asyncio.ensure_future(
            beside(
                lambda: create_host(
                    address, self._settings, self._home, self._coordinator, on_node(node)
                )
            )
        )
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_end_unwanted)
            raise

    async def _taken(self, address: str) -> tuple[str, Any]:
        """A process at `address` that is launched now, with its node."""
        reserve = self._reserve.get(address)
        if reserve is not None:
            await asyncio.wait([reserve])
            if _is_well(reserve):
                return reserve.result()
        name = address.rpartition("/")[0]
        node = await self._node_for(name, avoid=self._failed_on.pop(name, None))
        self._nodes[name] = node
        return node, await self._created(address, node)

    async def launch(self, address: str) -> RayHost:
        """The process at `address`, or a new one, whose store is open.

        Where the store is a file, the host that writes it runs on the file's node; all others
        are spread over the nodes.

        Raises:
            RemoteStorageError: The store cannot be opened; no process is left behind.
        """
        name = address.rpartition("/")[0]
        node, actor = await self._taken(address)
        self._reserve.pop(address, None)
        self._nodes[name] = node
        host = _LocatedHost(actor, name, self._nodes)
        try:
            await call(host.actor, "open", timeout_s=START_TIMEOUT_S)
        except (OutcomeUnknown, asyncio.CancelledError):
            # The node may be gone without Ray knowing.
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
        """The process at `address`; None if Ray knows none there."""
        actor = await beside(lambda: find_actor(address, self._namespace))
        if actor is None:
            return None
        return _LocatedHost(actor, address.rpartition("/")[0], self._nodes)

    async def _node_for(self, name: str, avoid: str | None) -> str:
        """The node on which the next process of `name` is to start.

        It is the store's if the store is a file and `name` writes it, else the one with the
        fewest hosts, other than `avoid` if possible. Ray's own spread strategy has been seen to
        put two of three hosts on one node.
        """
        if self._is_on_one_machine and name == WRITER:
            return self._home
        nodes = await beside(live_nodes)
        hosts = Counter(node for host, node in self._nodes.items() if host != name)
        return emptiest_node(nodes, hosts, self._failures, avoid)

    async def end(self, address: str, process: str | None) -> None:
        """Kill the process at `address`.

        `ray.kill` returns before the process has ended, and a frozen process survives it and
        keeps the store's lock. So a process on this node is killed by a signal. A process on
        another node, or one of unknown start time, is left to Ray. If Ray does not reach it, it
        lives on, and the partitions' logs fence its writes.

        Raises:
            StorageUnavailable: A process on this node does not end.
        """
        if (reserve := self._reserve.pop(address, None)) is not None:
            reserve.cancel()
        if process is not None and await end_process(process):
            return
        try:
            async with asyncio.timeout(KILL_TIMEOUT_S):
                await beside(lambda: kill_actor(address, self._namespace))
        except TimeoutError:
            _log.warning("Ray does not answer, and has not ended a process", address=address)


def _is_well(reserve: asyncio.Task[Any]) -> bool:
    """Whether a process was started."""
    return reserve.done() and not reserve.cancelled() and reserve.exception() is None


def _end_unwanted(making: asyncio.Future[Any]) -> None:
    """End a process that nobody waits for any more, as it came too late."""
    if not making.cancelled() and making.exception() is None:
        ray.kill(making.result(), no_restart=True)


class _LocatedHost(RayHost):
    """A handle that notes, at each ping, on which node the host runs."""

    def __init__(self, actor: Any, name: str, nodes: dict[str, str]) -> None:
        super().__init__(actor)
        self._name = name
        self._nodes = nodes

    @override
    async def ask(self, request: Request[CoordinatedHost, T]) -> T:
        answer = await super().ask(request)
        if isinstance(answer, HostPing):
            node = node_of(answer.process)
            assert node is not None, "it runs on Ray"
            self._nodes[self._name] = node
        return answer


async def end_process(name: str) -> bool:
    """Kill the process called `name` if it is on this node, and return once it has ended.

    False, and nothing is done, if it is elsewhere.

    It never kills a process of another node, or one that has the same pid by now.

    Raises:
        StorageUnavailable: The process does not end.
    """
    process = process_of(name)
    if process is None or node_of(name) != own_node():
        return False
    loop = asyncio.get_running_loop()
    deadline = loop.time() + END_TIMEOUT_S
    while process.signal(signal.SIGKILL):
        if loop.time() > deadline:
            raise StorageUnavailable(f"{name} does not end")
        await asyncio.sleep(END_PAUSE_S)
    return True
