"""Restarting a service's processes one after the other, as a client asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from typing import NamedTuple

from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.coordinator.placement import WRITER
from tierledger.actors.coordinator.replacing import (
    THE_COORDINATOR,
    ReplacementStep,
    ReplaceProcess,
)
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    RetryableError,
)

ASK_AGAIN_S = 0.2


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
    status = await coordinator.ask(StatusCall())
    processes: dict[str, str] = {**status["hosts"], THE_COORDINATOR: status["coordinator"]}
    if unknown := sorted({*only} - processes.keys()):
        known = ", ".join(sorted(processes))
        raise InvalidArgument(
            f"expected processes of the service ({known}), got {unknown[0]!r}"
        )
    for name in _in_order(processes):
        if not only or name in only:
            yield await _replaced(coordinator, name, processes[name], timeout_s)


def _in_order(names: Iterable[str]) -> list[str]:
    """The host that may write for all is the last of the hosts; the coordinator follows."""
    return sorted(names, key=lambda name: (name == THE_COORDINATOR, name == WRITER, name))


async def _replaced(
    coordinator: CoordinatorHandle, name: str, process: str, timeout_s: float
) -> ReplacedProcess:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    left: list[int] = []
    """How many were placed there at each request, until all had moved that can."""
    is_moving = True
    why = "the service has not answered"
    while loop.time() - begun < timeout_s:
        try:
            told = await coordinator.ask(ReplaceProcess(name, process))
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
