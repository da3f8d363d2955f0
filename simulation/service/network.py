"""Calls between simulated processes over wires that delay, reorder, lose and cut off.

A caller gets what Ray's callers get: the result, or `OutcomeUnknown` after the callee's death
or a timeout. If only the answer is lost, the callee has done the work nevertheless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any, TypeAlias

from tierledger.actors.ports import HostGone
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError
from tierledger.simulation.machines.environment.clockwork import ProcessLife, S
from tierledger.simulation.machines.environment.recording import Recording
from tierledger.simulation.machines.environment.wires import LOSE, Wires
from tierledger.simulation.service.plan import NetworkPlan
from tierledger.simulation.service.virtual_loop import (
    VirtualLoop,
    VirtualProcess,
    current_process,
)

Work: TypeAlias = "Callable[[], Coroutine[Any, Any, Any]]"

RESENT_S = 0.2
"""Seconds after which TCP retransmits what was lost."""

WORLD_CONTEXT = Context()
"""The context of steps that belong to the world, not to a process."""


class Network:
    """Carries calls. `heal` ends every fault for good."""

    def __init__(
        self, loop: VirtualLoop, random: Random, plan: NetworkPlan, recording: Recording
    ) -> None:
        self.loop = loop
        self.recording = recording
        self.wires = Wires(loop.clock, plan.delays, recording)
        self._draw = random.random
        self._plan = plan
        self._world = VirtualProcess("world")
        self._count = 0

    def heal(self) -> None:
        """From now on every message arrives, and soon."""
        self._plan = self._plan.healed()
        self.wires.heal()

    def travels(self, source: ProcessLife, draw: Callable[[], float]) -> float:
        """Seconds until data of a stream arrives; data that is lost is retransmitted."""
        again = RESENT_S if draw() < self._plan.loss_chance else 0.0
        return again + self.wires.delay(source) / S

    def send(
        self,
        source: ProcessLife,
        target: ProcessLife,
        call: Callable[..., None],
        *given: object,
    ) -> bool:
        """Have `target` make `call`, unless the message is lost.

        Returns false if `target` is dead or believed dead; a lost message returns true.
        """
        if self._draw() < self._plan.loss_chance:
            self.wires.arm((source.site, target.site), LOSE, 0)
        return self.wires.send(source, target, call, *given)

    async def call(self, target: VirtualProcess, work: Work, what: str) -> Any:  # noqa: ANN401
        """Run `work` at `target`; returns its result.

        Raises:
            RemoteStorageError: The error of `work`, `HostGone` if `target` is believed dead, or
                `OutcomeUnknown` if no answer came within the timeout.
        """
        number = self._count = self._count + 1
        caller = current_process() or self._world
        under_way = _Call(self, number, caller, target, work, what)
        under_way.begin()
        unknown = OutcomeUnknown("no answer")
        timer = self.loop.call_later(
            self._plan.timeout_s, under_way.fail, unknown, context=WORLD_CONTEXT
        )
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
        what: str,
    ) -> None:
        self.answer: asyncio.Future[Any] = network.loop.create_future()
        self._network = network
        self._number = number
        self._caller = caller
        self._target = target
        self._work = work
        self._what = what

    def begin(self) -> None:
        """Send the request; the caller learns if the target dies before it has answered."""
        self._target.when_killed[self._number] = self._died
        if not self._network.send(self._caller, self._target, self.deliver):
            self._died()

    def deliver(self) -> None:
        """The request arrives at the target, which starts the work."""
        network = self._network
        network.recording.event(self._what, self._caller.name, self._target.name)
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
            self._reply(self.fail, error)
        else:
            self._reply(self.succeed, result)

    def _reply(self, then: Callable[..., None], outcome: object) -> None:
        if not self._network.send(self._target, self._caller, then, outcome):
            self._go(then, outcome)  # The caller may be only believed dead.

    def _died(self) -> None:
        self._target.when_killed.pop(self._number, None)
        self._go(self.fail, HostGone(f"{self._what}: {self._target.name} died"))

    def _go(self, then: Callable[..., None], outcome: object) -> None:
        delay = self._network.wires.delay(self._target)
        self._network.loop.clock.after(delay, self._caller, then, outcome)

    def succeed(self, result: object) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: RemoteStorageError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
