"""Brokers that run against a live service, with every call in a history.

The service is whatever `connect` leads to: real processes on Ray, or one in this process. The
caller does to it what it likes, then heals it, and `verdict` says what was wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from tierledger.actors.calls import PartitionKey
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ports import ServiceConnection
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.simulation.history.calls import Recorder
from tierledger.simulation.live.brokers import LiveBroker, LiveController
from tierledger.simulation.service.plan import stream

LOOK_S = 0.05
"""Pause between two looks at what brokers have achieved."""

HEALING_S = 90.0
"""Within which a healed service has to be well again: processes start in seconds."""


@dataclass(frozen=True, slots=True)
class LivePlan:
    """What brokers do. Times in seconds.

    Attributes:
        seed: Of everything that is drawn; what real processes make of it differs each time.
        brokers: How many, each with a manager of its own.
        partitions: How many, all of one topic, which every broker replicates.
        calls_per_s: About how many calls are made while nothing fails.
        change_every_s: Mean time between two elections.
        late_chance: Share of announcements that arrive up to 3 s late.
        without_epoch: Share of announcements that name no leader epoch, as Kafka's never do.
        deadline_s: After which a call is given up.
    """

    seed: int
    brokers: int = 3
    partitions: int = 6
    calls_per_s: float = 120.0
    change_every_s: float = 5.0
    late_chance: float = 0.1
    without_epoch: float = 0.05
    deadline_s: float = 10.0

    @property
    def think_s(self) -> float:
        """Mean pause of a client between two things it does."""
        return (self.partitions + self.brokers) * CALLS_PER_STEP / self.calls_per_s


CALLS_PER_STEP = 1.6
"""Of a broker's clients on average: a read is one, a copy two or more."""


class LiveRun:
    """One run of brokers against a service. Made and used on one loop."""

    def __init__(
        self,
        plan: LivePlan,
        settings: ServiceSettings,
        connect: Callable[[ServiceSettings], Awaitable[ServiceConnection]],
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.connect = connect
        self.recorder = Recorder(self.now_ns)
        topic_id = Uuid(b"live topic\x00\x00" + plan.seed.to_bytes(4, "big"))
        self.tips = [
            TopicIdPartition(topic_id, number, f"live-{plan.seed}")
            for number in range(plan.partitions)
        ]
        self.brokers: dict[int, LiveBroker] = {}
        self.controller = LiveController(self)
        self.failures: list[BaseException] = []
        """What nobody foresaw: no caller may see anything but the errors of the interface."""
        self.began_ns = self.now_ns()
        self.ended_ns: int | None = None
        """When the brokers had stopped."""
        self.well_after_s: float | None = None
        """How long the service took to be well after everything had healed; none: it is not."""
        self._numbers = 0
        self._lives = 0

    # What brokers ask.

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def note(self, what: str, node: str, *, key: PartitionKey | None = None) -> None:
        """A fault, or a change of leaders, for the history."""
        self.recorder.note(self.now_ns(), node, what, key)

    # The run.

    async def start(self) -> None:
        """Begin; returns when every partition has had a write acknowledged.

        Raises:
            TimeoutError: That does not come about.
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
        """End all brokers where they are: the cluster that they are joined to is gone."""
        await asyncio.gather(*(one.stop() for one in self.brokers.values()))

    def resume(self) -> None:
        """Start them again, each under its old id in a new incarnation."""
        self._start_brokers()
        for broker_id in sorted(self.brokers):
            self.controller.tell_all(broker_id)

    async def written_since(
        self, since_ns: int, timeout_s: float, tips: Collection[TopicIdPartition] | None = None
    ) -> None:
        """Return once each partition has had a write acknowledged that began since then.

        Raises:
            TimeoutError: One has not, within `timeout_s`; it is named.
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
        """Elect and delay no more; whether every true leader writes again within the time."""
        self.controller.is_calm = True
        healed_ns = self.now_ns()
        while not all(self._is_well(tip, healed_ns) for tip in self.tips):
            if self.now_ns() - healed_ns > timeout_s * 1e9:
                return False
            for broker_id, broker in list(self.brokers.items()):
                if broker.is_fenced:
                    await broker.stop()
                    self._start_broker(broker_id)
                    self.controller.tell_all(broker_id)
            await asyncio.sleep(LOOK_S)
        self.well_after_s = (self.now_ns() - healed_ns) / 1e9
        return True

    def _is_well(self, tip: TopicIdPartition, healed_ns: int) -> bool:
        broker = self.brokers[self.controller.leader[tip]]
        return broker.acknowledged.get(tip, 0) > healed_ns

    async def stop(self) -> None:
        """End controller and brokers; the service goes on."""
        await self.controller.stop()
        await self.interrupt()
        self.ended_ns = self.now_ns()
