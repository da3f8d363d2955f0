"""Who leads which partition in a world, and what brokers are told of it: late and unordered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.service.brokers import Broker
from tierledger.simulation.service.network import NOBODY
from tierledger.simulation.service.plan import WorldPlan, stream
from tierledger.simulation.service.stage import Stage

WELL_PAUSE_S = 0.25

FOLLOWED_S = 2.0
READ_S = 1.5
"""How long brokers rest in the end, and how long a follower may take by itself to read what
stands in the log: it is polled each second, whatever it was told."""

REPEAT_S = 2.0
"""How often brokers are told again what they know: every change of an ISR does that."""


class Controller:
    """Kafka's controller: the truth about leaders, and the mouth that tells it."""

    def __init__(
        self, world: Stage, brokers: Mapping[int, Broker], start: Callable[[int], Broker]
    ) -> None:
        """`start` begins a new life of a broker."""
        self.leader: dict[TopicIdPartition, int] = {}
        self.epoch: dict[TopicIdPartition, int] = {}
        self.replicas: dict[TopicIdPartition, list[int]] = {}
        self.changes = 0
        self._world = world
        self._brokers = brokers
        self._start = start
        self._random = stream(world.plan.seed, "controller")

    def start(self) -> None:
        """Make first leaders, and keep changing them."""
        for tip in self._world.tips:
            ids = sorted(self._brokers)
            self._random.shuffle(ids)
            self.replicas[tip] = ids
            self._elect(tip)
        self._next_change()
        self._repeat()

    def _next_change(self) -> None:
        pause = self._random.expovariate(1 / self._world.plan.change_every_s)
        self._world.loop.call_later(pause, self._change, context=NOBODY)

    def _change(self) -> None:
        if self._world.is_healing:
            return
        tip = self._random.choice(self._world.tips)
        if self._random.random() < 0.15 and len(self.replicas[tip]) > 1:
            self._move_replica(tip)
        else:
            self._elect(tip)
        self._next_change()

    def _elect(self, tip: TopicIdPartition) -> None:
        """Another replica leads, in the next leader epoch."""
        former = self.leader.get(tip)
        others = [one for one in self.replicas[tip] if one != former] or self.replicas[tip]
        self.leader[tip] = self._random.choice(others)
        self.epoch[tip] = self.epoch.get(tip, -1) + 1
        self.changes += 1
        self._world.note("leader elected", f"broker-{self.leader[tip]}", PartitionKey.of(tip))
        for broker_id in self.replicas[tip]:
            if broker_id in (former, self.leader[tip]) or former is None:
                self._tell(broker_id, [tip])

    def _move_replica(self, tip: TopicIdPartition) -> None:
        """One replica leaves: that broker is told to stop, and another is told to follow."""
        leaving = self._random.choice(
            [one for one in self.replicas[tip] if one != self.leader[tip]]
        )
        self.replicas[tip].remove(leaving)
        self._tell(leaving, [tip])
        back = self._random.uniform(0.5, 3.0)

        def return_() -> None:
            self.replicas[tip].append(leaving)
            self._tell(leaving, [tip])

        self._world.loop.call_later(back, return_, context=NOBODY)

    def _repeat(self) -> None:
        """Tell everybody everything again, now and then."""
        for broker_id in sorted(self._brokers):
            self.tell_all(broker_id)
        pause = REPEAT_S * self._random.uniform(0.5, 1.5)
        self._world.loop.call_later(pause, self._repeat, context=NOBODY)

    def tell_all(self, broker_id: int) -> None:
        """What a broker that starts, or repeats itself, announces."""
        self._tell(broker_id, self._world.tips)

    def _tell(self, broker_id: int, tips: list[TopicIdPartition]) -> None:
        """Say what holds now; it arrives after a while, perhaps behind what is said later."""
        leads, follows, stops = {}, [], []
        for tip in tips:
            if self.leader[tip] == broker_id:
                leads[tip] = self.epoch[tip]
            elif broker_id in self.replicas[tip]:
                follows.append(tip)
            else:
                stops.append(tip)
        broker = self._brokers[broker_id]
        delay = self._random.uniform(0.001, 0.02)
        if not self._world.is_healing and self._random.random() < 0.1:
            delay = self._random.uniform(0.1, 2.0)
        says_epochs = self._random.random() < self._world.plan.known_epochs

        def arrive() -> None:
            if not broker.process.is_dead:
                broker.told(leads, follows, stops, says_epochs=says_epochs)

        self._world.loop.call_later(delay, arrive, context=NOBODY)

    # After healing.

    def wait_until_well(
        self, deadline: float, be_quiet: Callable[[], None]
    ) -> asyncio.Future[bool]:
        """Done once every partition's true leader has written again, or at `deadline`."""
        work = self._until_well(deadline, be_quiet)
        return self._world.loop.create_task(work, context=NOBODY.copy())

    async def _until_well(self, deadline: float, be_quiet: Callable[[], None]) -> bool:
        world = self._world
        healed_at = world.now_ns()
        for broker_id, broker in list(self._brokers.items()):
            if broker.process.is_dead or broker.is_fenced:
                self._start(broker_id)
            self.tell_all(broker_id)
        while world.loop.time() < deadline - FOLLOWED_S - WELL_PAUSE_S:
            await asyncio.sleep(WELL_PAUSE_S)
            if all(self._is_well(tip, healed_at) for tip in world.tips):
                world.recording.event("well")
                be_quiet()
                await asyncio.sleep(FOLLOWED_S)
                world.loop.stop()
                return True
        return False

    def _is_well(self, tip: TopicIdPartition, healed_at: int) -> bool:
        """Whether the true leader, in its own name, has had a write acknowledged since."""
        broker = self._brokers[self.leader[tip]]
        return broker.acknowledged.get(tip, -1) > healed_at


class WorldOracle:
    """Asks the controller: says the truth, or as often as the plan has it, nothing."""

    def __init__(self, plan: WorldPlan, controller: Controller) -> None:
        self._share = plan.oracle_answers
        self._controller = controller
        self._random = stream(plan.seed, "oracle")

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        await asyncio.sleep(self._random.uniform(0.001, 0.05))
        if self._random.random() >= self._share:
            return [None] * len(partitions)
        controller = self._controller
        return [
            LeaderVerdict(controller.leader[tip], controller.epoch[tip]) for tip in partitions
        ]
