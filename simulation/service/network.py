"""Calls between simulated processes: delayed, reordered, lost, cut off, as a cluster's are.

A caller hears what Ray's callers hear: the result, or after the callee's death or a
timeout `OutcomeUnknown`. Lost answers leave the callee's work done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any, TypeAlias

from tierledger.actors.ports import HostGone
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError
from tierledger.simulation.service.plan import NetworkPlan
from tierledger.simulation.service.trace import Trace
from tierledger.simulation.service.virtual_loop import (
    Process,
    Step,
    VirtualLoop,
    current_process,
)

Work: TypeAlias = "Callable[[], Coroutine[Any, Any, Any]]"

RESENT_S = 0.2
"""After which TCP sends again what was lost."""

NOBODY = Context()
"""Of steps that belong to the world, not to a process."""


class Network:
    """Carries calls. `heal` ends every fault for good."""

    def __init__(
        self, loop: VirtualLoop, random: Random, plan: NetworkPlan, trace: Trace
    ) -> None:
        self.loop = loop
        self._draw = random.random
        self._plan = plan
        self.trace = trace
        self._cuts: dict[tuple[str, str], float] = {}
        self._count = 0

    def heal(self) -> None:
        """From here on every message arrives, soon."""
        self._plan = self._plan.healed()
        self._cuts.clear()

    def cut(self, source: str, target: str, until: float) -> None:
        """Lose what `source` sends to `target` until then; the other direction goes on."""
        self._cuts[source, target] = until

    def delay(self) -> float:
        """How long a message travels: short as a rule, now and then very long."""
        return self._delay(self._draw)

    def travels(self, draw: Callable[[], float]) -> float:
        """The same for what is sent again until it arrives, by the numbers of `draw`."""
        again = RESENT_S if draw() < self._plan.loss_chance else 0.0
        return again + self._delay(draw)

    def _delay(self, draw: Callable[[], float]) -> float:
        plan = self._plan
        drawn = draw()
        if drawn < plan.straggler_chance:
            return plan.straggler_s * draw()
        return plan.delay_s * (0.2 + drawn)

    def cut_until(self, source: str, target: str) -> float:
        """When what `source` sends reaches `target` again; in the past if it does now."""
        return self._cuts.get((source, target), 0.0)

    def is_lost(self, source: str, target: str) -> bool:
        until = self._cuts.get((source, target)) if self._cuts else None
        if until is not None:
            if self.loop.time() < until:
                self.trace.mark("message cut off")
                return True
            del self._cuts[source, target]
        return self._draw() < self._plan.loss_chance

    async def call(self, target: Process, work: Work, what: str) -> Any:  # noqa: ANN401
        """What `work` returns when `target` runs it.

        Raises:
            RemoteStorageError: What it raised, `HostGone` if `target` is believed dead, or
                `OutcomeUnknown` if no answer came.
        """
        caller = current_process()
        self._count += 1
        under_way = _Call(
            self, self._count, "world" if caller is None else caller.name, target, work, what
        )
        if not self.is_lost(under_way.source, target.name):
            self.later(self.delay(), under_way.deliver)
        timer = self.later(self._plan.timeout_s, under_way.fail, OutcomeUnknown("no answer"))
        try:
            return await under_way.answer
        finally:
            timer.cancel()

    def later(self, delay: float, then: Callable[..., None], *given: object) -> Step:
        """Do something of the world's own, after a while."""
        return self.loop.call_later(delay, then, *given, context=NOBODY)


class _Call:
    """One call on its way there, at work, or on its way back."""

    def __init__(
        self,
        network: Network,
        number: int,
        source: str,
        target: Process,
        work: Work,
        what: str,
    ) -> None:
        self.source = source
        self.answer: asyncio.Future[Any] = network.loop.create_future()
        self._network = network
        self._number = number
        self._target = target
        self._work = work
        self._what = what

    def deliver(self) -> None:
        """It arrives; if nobody is there its caller hears so."""
        self._network.trace.event(self._what, self.source, self._target.name)
        if self._target.is_reachable:
            self._target.when_killed[self._number] = self._died
            self._network.loop.spawn(self._target, self._serve())
        else:
            self._died()

    async def _serve(self) -> None:
        result, error = None, None
        try:
            result = await self._work()
        except RemoteStorageError as raised:
            error = raised
        if self._target.when_killed.pop(self._number, None) is None:
            return  # The caller was told of an end already.
        network = self._network
        if network.is_lost(self._target.name, self.source):
            return
        if error is not None:
            network.later(network.delay(), self.fail, error)
        else:
            network.later(network.delay(), self._succeed, result)

    def _died(self) -> None:
        network = self._network
        gone = HostGone(f"{self._what}: {self._target.name} died")
        network.later(network.delay(), self.fail, gone)

    def _succeed(self, result: object) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: RemoteStorageError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
