"""Kafka's side of a world: elects leaders, and notifies brokers late and out of order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.service.brokers import Broker
from tierledger.simulation.service.network import WORLD_CONTEXT
from tierledger.simulation.service.plan import WorldPlan, stream
from tierledger.simulation.service.stage import Stage

WELL_PAUSE_S = 0.25

FOLLOWED_S = 2.0
READ_S = 1.5
"""`FOLLOWED_S`: how long brokers make no calls at the end of a run. `READ_S`: the time in which
a follower must have read a durable batch without a call, as its log is polled each second."""

REPEAT_S = 2.0
"""Mean time between repeats of all notifications; Kafka repeats them at each ISR change."""


class Controller:
    """Kafka's controller: holds the true leaders and replicas, and notifies the brokers."""

    def __init__(
        self, world: Stage, brokers: Mapping[int, Broker], start: Callable[[int], Broker]
    ) -> None:
        """`start` starts a new process of the broker with that id."""
        self.leader: dict[TopicIdPartition, int] = {}
        self.epoch: dict[TopicIdPartition, int] = {}
        self.replicas: dict[TopicIdPartition, list[int]] = {}
        self.changes = 0
        self._world = world
        self._brokers = brokers
        self._start = start
        self._random = stream(world.plan.seed, "controller")

    def start(self) -> None:
        """Elect the first leaders, then go on with elections, moves and repeats."""
        for tip in self._world.tips:
            ids = sorted(self._brokers)
            self._random.shuffle(ids)
            self.replicas[tip] = ids
            self._elect(tip)
        self._next_change()
        self._repeat()

    def _next_change(self) -> None:
        pause = self._random.expovariate(1 / self._world.plan.change_every_s)
        self._world.loop.call_later(pause, self._change, context=WORLD_CONTEXT)

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
        """Elect another replica as leader, in the next leader epoch."""
        former = self.leader.get(tip)
        others = [one for one in self.replicas[tip] if one != former] or self.replicas[tip]
        self.leader[tip] = self._random.choice(others)
        self.epoch[tip] = self.epoch.get(tip, -1) + 1
        self.changes += 1
        self._world.note("leader elected", f"broker-{self.leader[tip]}", PartitionKey.of(tip))
        for broker_id in self.replicas[tip]:
            if broker_id in (former, self.leader[tip]) or former is None:
                self._notify(broker_id, [tip])

    def _move_replica(self, tip: TopicIdPartition) -> None:
        """Take a follower's replica away for a while: its broker stops, then follows again."""
        leaving = self._random.choice(
            [one for one in self.replicas[tip] if one != self.leader[tip]]
        )
        self.replicas[tip].remove(leaving)
        self._notify(leaving, [tip])
        back = self._random.uniform(0.5, 3.0)

        def return_() -> None:
            self.replicas[tip].append(leaving)
            self._notify(leaving, [tip])

        self._world.loop.call_later(back, return_, context=WORLD_CONTEXT)

    def _repeat(self) -> None:
        """Notify every broker of all its roles again, every `REPEAT_S` on average."""
        for broker_id in sorted(self._brokers):
            self.notify_all(broker_id)
        pause = REPEAT_S * self._random.uniform(0.5, 1.5)
        self._world.loop.call_later(pause, self._repeat, context=WORLD_CONTEXT)

    def notify_all(self, broker_id: int) -> None:
        """Notify a broker of its role in every partition."""
        self._notify(broker_id, self._world.tips)

    def _notify(self, broker_id: int, tips: list[TopicIdPartition]) -> None:
        """Notify a broker of its present roles. A later notification may arrive earlier."""
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
        carries_epochs = self._random.random() < self._world.plan.known_epochs

        def arrive() -> None:
            if not broker.process.is_dead:
                broker.notify(leads, follows, stops, carries_epochs=carries_epochs)

        self._world.loop.call_later(delay, arrive, context=WORLD_CONTEXT)

    # After healing.

    def wait_until_well(
        self, deadline: float, be_quiet: Callable[[], None]
    ) -> asyncio.Future[bool]:
        """Wait until every partition's true leader has written again, or until `deadline`.

        Returns a task; its result is whether they have. If so, `be_quiet` was called, followers
        had `FOLLOWED_S` to read the log, and the loop is stopped.
        """
        work = self._until_well(deadline, be_quiet)
        return self._world.loop.create_task(work, context=WORLD_CONTEXT.copy())

    async def _until_well(self, deadline: float, be_quiet: Callable[[], None]) -> bool:
        world = self._world
        healed_at = world.now_ns()
        for broker_id, broker in list(self._brokers.items()):
            if broker.process.is_dead or broker.is_fenced:
                self._start(broker_id)
            self.notify_all(broker_id)
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
        """Whether a write was acknowledged that the true leader began after `healed_at`."""
        broker = self._brokers[self.leader[tip]]
        return broker.acknowledged.get(tip, -1) > healed_at


class WorldOracle:
    """The leader oracle: answers from the controller, or with the plan's chance not at all."""

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
