"""Calls between simulated processes over wires that delay, reorder, lose and cut off.

A caller gets what Ray's callers get: the result, or `OutcomeUnknown` after the callee's death
or a timeout. If only the answer is lost, the callee has done the work nevertheless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeAlias

from tierledger.actors.ports import HostGone
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError
from tierledger.simulation.machines.environment.recording import (
    Message,
    Recording,
    request_message,
)
from tierledger.simulation.machines.environment.wires import Wires
from tierledger.simulation.service.virtual_loop import (
    VirtualLoop,
    VirtualProcess,
    current_process,
)

Work: TypeAlias = "Callable[[], Coroutine[Any, Any, Any]]"

TIMEOUT_S = 2.0
"""Timeout of a call. Ray calls have a minute, but no simulated process is that slow."""

WORLD_CONTEXT = Context()
"""The context of steps that belong to the world, not to a process."""


class Network:
    """Carries calls."""

    def __init__(self, loop: VirtualLoop, wires: Wires, recording: Recording) -> None:
        self.loop = loop
        self.recording = recording
        self.wires = wires
        self._ray = VirtualProcess("ray")
        """What starts a coordinator that nobody asks, and sends what no process sends."""
        self._count = 0

    async def call(
        self, target: VirtualProcess, work: Work, request: object, call: str | None = None
    ) -> Any:  # noqa: ANN401
        """Run `work` at `target`, which does what `request` asks for; returns its result.

        `call`: which of the history's calls asks for it, for people.

        Raises:
            RemoteStorageError: The error of `work`, `HostGone` if `target` is believed dead, or
                `OutcomeUnknown` if no answer came within the timeout.
        """
        number = self._count = self._count + 1
        caller = current_process() or self._ray
        under_way = _Call(self, number, caller, target, work, request, call)
        under_way.begin()
        unknown = OutcomeUnknown("no answer")
        timer = self.loop.call_later(TIMEOUT_S, under_way.fail, unknown, context=WORLD_CONTEXT)
        try:
            return await under_way.answer
        finally:
            timer.cancel()
            target.when_killed.pop(number, None)


class _Call:
    """One call while its request travels, its work runs, or its answer travels."""

    def __init__(
        self,
        network: Network,
        number: int,
        caller: VirtualProcess,
        target: VirtualProcess,
        work: Work,
        request: object,
        call: str | None,
    ) -> None:
        self.answer: asyncio.Future[Any] = network.loop.create_future()
        self._network = network
        self._number = number
        self._caller = caller
        self._target = target
        self._work = work
        self._message = request_message(request, call)
        self._call = call

    def begin(self) -> None:
        """Send the request; the caller learns if the target dies before it has answered."""
        self._target.when_killed[self._number] = self._died
        is_sent = self._network.wires.send(
            self._caller, self._target, self.deliver, message=self._message
        )
        if not is_sent:
            self._died()

    def deliver(self) -> None:
        """The request arrives at the target, which starts the work."""
        network = self._network
        network.recording.event(self._message.what, self._caller.name, self._target.name)
        network.loop.spawn(self._target, self._serve())

    async def _serve(self) -> None:
        result, error = None, None
        try:
            result = await self._work()
        except RemoteStorageError as raised:
            error = raised
        if self._target.when_killed.pop(self._number, None) is None:
            return  # The caller was notified that the target died, or no longer waits.
        if error is not None:
            self._reply(self.fail, error, "failed")
        else:
            self._reply(self.succeed, result, "answered")

    def _reply(self, then: Callable[..., None], outcome: object, end: str) -> None:
        what, _, partition = self._message
        about = [one for one in (self._call, outcome) if one is not None]
        told = Message(f"{what} {end}", about, partition)
        wires = self._network.wires
        if not wires.send(self._target, self._caller, then, outcome, message=told):
            self._go(then, outcome)  # The caller may be only believed dead.

    def _died(self) -> None:
        self._target.when_killed.pop(self._number, None)
        self._go(self.fail, HostGone(f"{self._message.what}: {self._target.name} died"))

    def _go(self, then: Callable[..., None], outcome: object) -> None:
        delay = self._network.wires.delay(self._target)
        self._network.loop.clock.after(delay, self._caller, then, outcome)

    def succeed(self, result: object) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: RemoteStorageError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
