"""Restarting a service's processes one after the other, as a client asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.coordinator.placement import WRITER
from tierledger.actors.coordinator.replacing import (
    THE_COORDINATOR,
    LeaveNode,
    ReplacementStep,
    ReplaceProcess,
)
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.actors.processes import node_of
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    RetryableError,
)

ASK_AGAIN_S = 0.2

NODE_SHOWN = 8
"""Characters of a node's id in messages, as `status` shows it."""


class ReplacedProcess(NamedTuple):
    """What the replacement of a process took."""

    process: str
    """A host's name, or the coordinator."""
    moved: int
    """Leaders and followers that went to other hosts."""
    seconds: float


async def restarted(
    coordinator: CoordinatorHandle, timeout_s: float, only: Collection[str] = ()
) -> AsyncIterator[ReplacedProcess]:
    """Replace the processes of a service, or `only` the named ones; each once it is done.

    Args:
        coordinator: A handle on the coordinator.
        timeout_s: How long each process may take.
        only: Names of hosts, or `THE_COORDINATOR`. Empty: all.

    Raises:
        InvalidArgument: The service has no such process.
        NotReady: A process is not replaced in time; those before it are.
    """
    processes = _processes(await coordinator.ask(StatusCall()))
    if unknown := sorted({*only} - processes.keys()):
        known = ", ".join(sorted(processes))
        raise InvalidArgument(
            f"expected processes of the service ({known}), got {unknown[0]!r}"
        )
    for name in _in_order(processes):
        if not only or name in only:
            wish = ReplaceProcess(name, processes[name])
            yield await _replaced(coordinator, wish, timeout_s)


async def moved_off(
    coordinator: CoordinatorHandle, timeout_s: float, node: str
) -> AsyncIterator[ReplacedProcess]:
    """Replace the processes on a Ray node by some on other nodes; each once it is done.

    Args:
        coordinator: A handle on the coordinator.
        timeout_s: How long each process may take.
        node: The node's id, or how it begins.

    Raises:
        InvalidArgument: No process runs there, or those of several nodes match.
        NotReady: A process is not replaced in time; those before it are. Or some run there
            still: there is no other node, or the store is a file on it.
    """
    status = await coordinator.ask(StatusCall())
    nodes = _nodes(status)
    matching = {one for one in nodes.values() if one.startswith(node)}
    if len(matching) != 1:
        known = ", ".join(sorted({one[:NODE_SHOWN] for one in nodes.values()})) or "none"
        raise InvalidArgument(f"expected a node with processes ({known}), got {node!r}")
    (leaving,) = matching
    processes = _processes(status)
    for name in _in_order(name for name, where in nodes.items() if where == leaving):
        yield await _replaced(coordinator, LeaveNode(name, processes[name]), timeout_s)
    after = _nodes(await coordinator.ask(StatusCall()))
    if stay := _in_order(name for name, where in after.items() if where == leaving):
        raise NotReady(
            f"{', '.join(stay)} on {leaving[:NODE_SHOWN]} still: `serve` runs there, no other "
            "node is alive, or the store is a file there"
        )


def _processes(status: Mapping[str, Any]) -> dict[str, str]:
    """The service's processes, by host; the coordinator's is among them."""
    return {**status["hosts"], THE_COORDINATOR: status["coordinator"]}


def _nodes(status: Mapping[str, Any]) -> dict[str, str]:
    """The nodes of these, as far as they run on Ray."""
    nodes = {name: node_of(process) for name, process in status["hosts"].items()}
    nodes[THE_COORDINATOR] = status.get("node")  # A former release does not tell it.
    return {name: node for name, node in nodes.items() if node}


def _in_order(names: Iterable[str]) -> list[str]:
    """The host that may write for all is the last of the hosts; the coordinator follows."""
    return sorted(names, key=lambda name: (name == THE_COORDINATOR, name == WRITER, name))


async def _replaced(
    coordinator: CoordinatorHandle, wish: ReplaceProcess, timeout_s: float
) -> ReplacedProcess:
    name = wish.host
    loop = asyncio.get_running_loop()
    begun = loop.time()
    left: list[int] = []
    """How many were placed there at each request, until all had moved that can."""
    is_moving = True
    why = "the service has not answered"
    while loop.time() - begun < timeout_s:
        try:
            told = await coordinator.ask(wish)
        except (RetryableError, OutcomeUnknown) as error:
            why = str(error)  # The host through which it was asked may be the one that ends.
        else:
            if told.step is ReplacementStep.DONE:
                moved = max(left) - left[-1] if left else 0
                return ReplacedProcess(name, moved, loop.time() - begun)
            if is_moving:
                left.append(told.left)
            is_moving = told.step is ReplacementStep.MOVING
            why = f"{told.step.value}, {told.left} leaders and followers left there"
        await asyncio.sleep(ASK_AGAIN_S)
    raise NotReady(f"{name} is not replaced within {timeout_s:g} s: {why}")
