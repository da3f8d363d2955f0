"""Brokers of a live service: those of a world, in real time and on real connections."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from random import Random

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.messages import Query
from tierledger.events.errors import Fenced, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.history.recorded_client import (
    CountedIds,
    KnownIds,
    RecordedClient,
)
from tierledger.simulation.live.copier import REFUSALS_MAX, LiveCopier
from tierledger.simulation.live.plan import LiveWorld
from tierledger.simulation.machines.scenario.streams import stream

READY_PAUSE_S = 0.05

CONFIGURE_PAUSE_S = 0.2

CLOSE_TIMEOUT_S = 5.0
"""How long a manager may take to close; the service may be gone."""

REPEAT_S = 2.0
"""How often the controller repeats its news to brokers, as after each change of an ISR."""

LATE_S = (0.2, 3.0)
"""The delay of an announcement that is late."""

OFFSETS = 600
"""Readers ask for offsets below this."""


class LiveBroker:
    """One life of one broker: a manager, and a task per partition that it believes to lead."""

    def __init__(self, run: LiveWorld, broker_id: int, life: int, random: Random) -> None:
        self.broker_id = broker_id
        self.is_fenced = False
        self.led: dict[TopicIdPartition, int] = {}
        """Partitions that this broker believes to lead, with the epoch it was notified of."""
        self.acknowledged: dict[TopicIdPartition, int] = {}
        """Per partition, when (ns) the last successful write began."""
        self._name = f"broker-{broker_id}/{life}"
        self._run = run
        self._random = random
        # A service that outlives its brokers also sees those of the next run.
        self.ids = CountedIds(run.plan.seed << 32 | broker_id << 16 | life)
        self._known_ids = KnownIds(self.ids)
        self._manager = AsyncRemoteLogMetadataManager(
            run.connect, self._known_ids, deadline_s=run.plan.deadline_s
        )
        self._configured = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._copies: dict[TopicIdPartition, tuple[int, asyncio.Task[None]]] = {}

    def start(self) -> None:
        """Register and read; notifications of the controller wait for the registration."""
        self._spawn(self._configure())
        self._spawn(self._read())

    async def stop(self) -> None:
        """End this life at once, in the middle of its calls."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(RemoteStorageError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._manager.close()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._run.failures.append(error)

    async def _configure(self) -> None:
        config = {**self._run.settings.storage, "cluster.id": self._run.settings.cluster_id}
        while not self._configured.is_set():
            try:
                await self._manager.configure({**config, "broker.id": self.broker_id})
            except RemoteStorageError:
                await asyncio.sleep(CONFIGURE_PAUSE_S)
            else:
                self._configured.set()

    # Notifications from the controller.

    def notified(
        self,
        leads: dict[TopicIdPartition, int],
        follows: list[TopicIdPartition],
        *,
        with_epochs: bool,
    ) -> None:
        """The controller's notification arrives; the broker announces it to the service."""
        self._spawn(self._announce(leads, follows, with_epochs=with_epochs))

    async def _announce(
        self,
        leads: dict[TopicIdPartition, int],
        follows: list[TopicIdPartition],
        *,
        with_epochs: bool,
    ) -> None:
        for tip in follows:
            self.led.pop(tip, None)
        await self._configured.wait()
        epochs = leads if with_epochs else {}
        try:
            await self._manager.on_partition_leadership_changes(
                leads, follows, leader_epochs=epochs
            )
        except Fenced:
            self.is_fenced = True
            return
        except RemoteStorageError:
            return  # The controller repeats its notification.
        for tip, epoch in leads.items():
            self.led[tip] = epoch
            known, task = self._copies.get(tip, (None, None))
            if task is None or task.done() or known != epoch:
                self._copies[tip] = (epoch, self._spawn(self._copy(tip, epoch)))

    # Calls to the service.

    def _client(self, tip: TopicIdPartition, what: str) -> RecordedClient:
        name = f"{self._name}/{tip.partition}/{what}{self._run.next_number()}"
        return RecordedClient(self._manager, self._known_ids, self._run.recorder, name)

    async def _think(self) -> None:
        await asyncio.sleep(self._run.plan.think_s * 2 * self._random.random())

    async def _copy(self, tip: TopicIdPartition, epoch: int) -> None:
        copier = LiveCopier(self._run, self, self._client(tip, "copy"), tip, epoch)
        while self.led.get(tip) == epoch:
            if await self._is_ready(tip):
                break
            await asyncio.sleep(READY_PAUSE_S)
        # A copier that is refused for good ends; the next notification starts another.
        while self.led.get(tip) == epoch and copier.refusals < REFUSALS_MAX:
            await self._think()
            await copier.step(self._random)

    async def _is_ready(self, tip: TopicIdPartition) -> bool:
        try:
            return await self._manager.is_ready(tip)
        except RemoteStorageError:
            return False

    async def _read(self) -> None:
        await self._configured.wait()
        clients = {tip: self._client(tip, "read") for tip in self._run.tips}
        while not self.is_fenced:
            await self._think()
            tip = self._random.choice(self._run.tips)
            role = FOLLOWER if self._random.random() < 0.8 else LEADER
            kind = self._random.choice(("lookup", "lookup", "highest_offset", "size"))
            epoch = self._random.randrange(self._run.epoch[tip] + 1)
            await clients[tip].read(
                tip, role, Query(kind, epoch, self._random.randrange(OFFSETS))
            )


class LiveController:
    """Kafka's controller: knows the leaders, and notifies brokers of them, often late."""

    def __init__(self, run: LiveWorld, brokers: dict[int, LiveBroker]) -> None:
        self.leader: dict[TopicIdPartition, int] = {}
        self.changes = 0
        self.is_calm = False
        """Once set, elections end and notifications arrive soon."""
        self._run, self._brokers = run, brokers
        self._random = stream(run.plan.seed, "controller")
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Choose first leaders, and keep changing them."""
        for number, tip in enumerate(self._run.tips):
            ids = sorted(self._brokers)
            self.leader[tip], self._run.epoch[tip] = ids[number % len(ids)], 0
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._change()), loop.create_task(self._repeat())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _change(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._run.plan.change_every_s))
            if not self.is_calm:
                self.elect(self._random.choice(self._run.tips))

    def elect(self, tip: TopicIdPartition) -> None:
        """Make another broker the leader, in the next leader epoch."""
        former = self.leader[tip]
        others = [one for one in sorted(self._brokers) if one != former] or [former]
        self.leader[tip] = self._random.choice(others)
        self._run.epoch[tip] += 1
        self.changes += 1
        self._run.note("leader elected", f"broker-{self.leader[tip]}", key=PartitionKey.of(tip))
        for broker_id in (former, self.leader[tip]):
            self._notify(broker_id, [tip])

    async def _repeat(self) -> None:
        while True:
            for broker_id in sorted(self._brokers):
                self.notify_all(broker_id)
            await asyncio.sleep(REPEAT_S * self._random.uniform(0.5, 1.5))

    def notify_all(self, broker_id: int) -> None:
        """Notify a broker of all partitions, when it starts and from time to time."""
        self._notify(broker_id, self._run.tips)

    def _notify(self, broker_id: int, tips: list[TopicIdPartition]) -> None:
        """Notify a broker of what holds now; a later notification may arrive earlier."""
        leads = {tip: self._run.epoch[tip] for tip in tips if self.leader[tip] == broker_id}
        follows = [tip for tip in tips if tip not in leads]
        plan = self._run.plan
        delay = self._random.uniform(0.001, 0.02)
        if not self.is_calm and self._random.random() < plan.late_chance:
            delay = self._random.uniform(*LATE_S)
        with_epochs = self._random.random() >= plan.without_epoch
        broker = self._brokers[broker_id]

        def arrive() -> None:
            if self._brokers.get(broker_id) is broker:
                broker.notified(leads, follows, with_epochs=with_epochs)

        asyncio.get_running_loop().call_later(delay, arrive)
