"""Brokers that run against a live service, with every call in a history.

The service is whatever `connect` leads to: real processes on Ray, or one in this process. The
caller causes faults in it, then ends them, and `verdict` judges what the callers saw.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection

from tierledger.actors.connection import ServiceConnection
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.live.brokers import LiveBroker, LiveController
from tierledger.simulation.live.plan import LivePlan, LiveWorld
from tierledger.simulation.machines.scenario.streams import stream

LOOK_S = 0.05
"""Pause between two looks at the brokers' progress."""

HEALING_S = 90.0
"""How long a service may take to be well again; processes start in seconds."""


class LiveRun(LiveWorld):
    """One run of brokers against a service. Made and used on one loop."""

    def __init__(
        self,
        plan: LivePlan,
        settings: ServiceSettings,
        connect: Callable[[ServiceSettings], Awaitable[ServiceConnection]],
    ) -> None:
        super().__init__(plan, settings, connect)
        self.brokers: dict[int, LiveBroker] = {}
        self.controller = LiveController(self, self.brokers)
        self.began_ns = self.now_ns()
        self.ended_ns: int | None = None
        """When the brokers had stopped; none before."""
        self.well_after_s: float | None = None
        """How long after the last fault every leader wrote again (s); none if one did not."""
        self._lives = 0

    # The run.

    async def start(self) -> None:
        """Start brokers and controller; returns once each partition has an acknowledged write.

        Raises:
            TimeoutError: A partition has none in time; the message names it.
        """
        self._start_brokers()
        self.controller.start()
        await self.written_since(self.began_ns, HEALING_S)

    def _start_brokers(self) -> None:
        for broker_id in range(1, self.plan.brokers + 1):
            self._start_broker(broker_id)

    def _start_broker(self, broker_id: int) -> None:
        self._lives += 1
        random = stream(self.plan.seed, f"broker {broker_id} {self._lives}")
        broker = LiveBroker(self, broker_id, self._lives, random)
        self.brokers[broker_id] = broker
        broker.start()

    async def interrupt(self) -> None:
        """End all brokers at once, in the middle of their calls: their cluster is gone."""
        await asyncio.gather(*(one.stop() for one in self.brokers.values()))

    def resume(self) -> None:
        """Start the brokers again, each under its old id in a new incarnation."""
        self._start_brokers()
        for broker_id in sorted(self.brokers):
            self.controller.notify_all(broker_id)

    async def written_since(
        self, since_ns: int, timeout_s: float, tips: Collection[TopicIdPartition] | None = None
    ) -> None:
        """Return once each partition has an acknowledged write that began after `since_ns`.

        Raises:
            TimeoutError: A partition has none within `timeout_s`; the message names it.
        """
        waiting = list(self.tips if tips is None else tips)
        deadline = time.monotonic() + timeout_s
        while waiting := [tip for tip in waiting if self._written(tip) < since_ns]:
            if time.monotonic() > deadline:
                names = ", ".join(map(str, waiting))
                raise TimeoutError(f"no write was acknowledged in {timeout_s:g} s: {names}")
            await asyncio.sleep(LOOK_S)

    def _written(self, tip: TopicIdPartition) -> int:
        return max(one.acknowledged.get(tip, 0) for one in self.brokers.values())

    async def heal(self, timeout_s: float = HEALING_S) -> bool:
        """End elections and delays; returns whether every true leader writes again in time."""
        self.controller.is_calm = True
        healed_ns = self.now_ns()
        while not all(self._is_well(tip, healed_ns) for tip in self.tips):
            if self.now_ns() - healed_ns > timeout_s * 1e9:
                return False
            for broker_id, broker in list(self.brokers.items()):
                if broker.is_fenced:
                    await broker.stop()
                    self._start_broker(broker_id)
                    self.controller.notify_all(broker_id)
            await asyncio.sleep(LOOK_S)
        self.well_after_s = (self.now_ns() - healed_ns) / 1e9
        return True

    def _is_well(self, tip: TopicIdPartition, healed_ns: int) -> bool:
        broker = self.brokers[self.controller.leader[tip]]
        return broker.acknowledged.get(tip, 0) > healed_ns

    async def stop(self) -> None:
        """End controller and brokers; the service keeps running."""
        await self.controller.stop()
        await self.interrupt()
        self.ended_ns = self.now_ns()
