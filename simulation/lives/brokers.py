"""A broker of a living cluster: a short model of its plugin, and of Kafka's manager in it.

It stands for `Deciding`, `Roles` and `Writes` in Java, but for replicas: it asks leaders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Protocol

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.events import Owner, Registered
from tierledger.actors.coordinator.ownership import (
    Decision,
    Ownership,
    PluginMode,
    decision,
)
from tierledger.actors.coordinator.requests import RegisterCall
from tierledger.events.identifiers import Uuid
from tierledger.events.kafka.codec import KafkaValue, encode
from tierledger.events.kafka.metadata_partition import metadata_partition
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.simulation.lives.fake_topic import PARTITIONS, FakeTopic
from tierledger.simulation.lives.topics import KafkasManager, Topic
from tierledger.simulation.service.cluster import Cluster, CoordinatorWay
from tierledger.simulation.service.virtual_loop import VirtualProcess

PROGRAM = 100
"""A broker's client of the service registers under its id and this; its plugin under its id."""

ATTEND_S = 0.5
HELD_S = 0.05
"""Seconds between two looks whether writes are held no longer."""

WAITS_S = (0.05, 0.05, 0.05, 5.0)
"""Upper bounds of how long a record waits in its broker before it is sent."""

SENT_S = 0.02
"""Upper bound of how long the acknowledgement of a record takes."""

STALLS_SHARE, STALLS_S = 0.1, 8.0
"""Before so many reports Kafka's own manager begins to read nothing, for so long at most."""


class LivedIn(Protocol):
    """The cluster that a broker lives in."""

    service: Cluster
    kafka: FakeTopic

    @property
    def hosted(self) -> list[Topic]: ...
    def manager(
        self, broker_id: int
    ) -> AbstractAsyncContextManager[AsyncRemoteLogMetadataManager]: ...
    async def known(self, topic: Topic, asked: AsyncRemoteLogMetadataManager) -> set[Uuid]: ...
    def lost(self, where: str, topic: Topic, missing: set[Uuid]) -> None: ...


class LivingBroker:
    """A broker in handover: attends, announces roles and writes as its plugin does."""

    def __init__(
        self, cluster: LivedIn, broker_id: int, life: VirtualProcess, random: Random
    ) -> None:
        self.broker_id = broker_id
        self.life = life
        self.ownership = Ownership()
        self._under_way = 0
        """The number of writes by either manager that have begun and not ended."""
        self._is_announcing = False
        """Whether what follows from a new owner is still to be announced."""
        self._fit_for = 0
        """The newest owner epoch in which another manager may take over."""
        self._accepted: set[Uuid] = set()
        self._manager: AsyncRemoteLogMetadataManager | None = None
        self._kafkas = KafkasManager(cluster.kafka)
        self._reads_from_s = 0.0
        """From when on (virtual time) Kafka's own manager reads again."""
        self._random = random
        self._cluster = cluster

    @property
    def manager(self) -> AsyncRemoteLogMetadataManager:
        assert self._manager is not None, "it has begun"
        return self._manager

    @property
    def decision(self) -> Decision:
        return decision(PluginMode.HANDOVER, self.ownership)

    def is_idle(self) -> bool:
        """Whether no write is under way or can begin, and another manager may decide."""
        is_moving = self.ownership.owner == Owner.MOVING
        return is_moving and not self._under_way and self._fit_for == self.ownership.epoch

    async def run(self) -> None:
        """Register, then report and follow the owner until the service is away."""
        self.ownership = Ownership()  # Whoever registers anew announces everything anew.
        self._kafkas.read()
        async with self._cluster.manager(PROGRAM + self.broker_id) as self._manager:
            coordinator = CoordinatorWay(self._cluster.service)
            request, given = self._random.randbytes(8), Registered(0, is_given=False)
            while not given.is_given:
                given = await coordinator.ask(
                    RegisterCall(
                        self.broker_id, request, given.incarnation, PluginMode.HANDOVER
                    )
                )
            while True:
                report = Attend(
                    self.broker_id,
                    given.incarnation,
                    PluginMode.HANDOVER,
                    self.ownership.epoch,
                    self.is_idle(),
                )
                attended = await coordinator.ask(report)
                self._accepted = set(map(Uuid, attended.accepted))
                await self._hear(attended.ownership)
                self._read_on()
                await self._catch_up()
                await asyncio.sleep(ATTEND_S)

    async def _hear(self, newer: Ownership) -> None:
        """Act on an ownership that is newer than the last one."""
        if newer.epoch <= self.ownership.epoch:
            return
        former, self.ownership = self.decision.reads, newer
        if former == self.decision.reads:
            return
        self._is_announcing = True
        if self.decision.reads == Owner.KAFKA:
            for topic in self._cluster.hosted:
                missing = topic.by_tierledger - self._kafkas.known(topic)
                self._cluster.lost(f"Kafka's manager in {self.life.name}", topic, missing)
        await self.announce(self._cluster.hosted)
        self._is_announcing = False

    def _read_on(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._reads_from_s:
            self._kafkas.read()
            if self._random.random() < STALLS_SHARE:
                self._reads_from_s = now_s + self._random.uniform(0, STALLS_S)

    async def announce(self, topics: Sequence[Topic]) -> None:
        """Announce that this broker leads or follows these topics, by the present owner."""
        leads = self.decision.reads == Owner.TIERLEDGER
        led = {one.tip: one.epoch for one in topics if leads and one.leader == self.broker_id}
        followed = [one.tip for one in topics if one.tip not in led]
        if self._manager is not None and topics:
            await self._manager.on_partition_leadership_changes(
                led, followed, leader_epochs=led
            )

    async def _catch_up(self) -> None:
        """Kafka's own manager has to list what tierledger lists before it may decide."""
        moving = self.ownership
        if moving.owner == Owner.MOVING and moving.source == Owner.TIERLEDGER:
            for one in self._cluster.hosted:
                known = await self._cluster.known(one, self.manager)
                if (known ^ self._kafkas.known(one)) - self._accepted:
                    return
        self._fit_for = moving.epoch

    def _holds(self) -> bool:
        return self.decision.writes is None or self._is_announcing

    async def write(self, topic: Topic, value: KafkaValue) -> str:
        """Write by the owner's manager, and return which; waits while writes are held."""
        while self._holds():  # noqa: ASYNC110 - It hears of it by its own reports.
            await asyncio.sleep(HELD_S)
        manager = self.decision.writes
        assert manager is not None, "writes are not held"
        self._under_way += 1
        try:
            if manager == Owner.KAFKA:
                await self._write_by_kafka(topic, value)
            else:
                await self._write_by_tierledger(topic, value)
        finally:
            self._under_way -= 1
        return manager

    async def _write_by_kafka(self, topic: Topic, value: KafkaValue) -> None:
        await asyncio.sleep(self._random.uniform(0, self._random.choice(WAITS_S)))
        add_record(self._cluster.kafka, topic, value)
        await asyncio.sleep(self._random.uniform(0, SENT_S))

    async def _write_by_tierledger(self, topic: Topic, value: KafkaValue) -> None:
        await self.manager.when_ready([topic.tip])
        match value:
            case RemoteLogSegmentMetadata():
                await self.manager.add_remote_log_segment_metadata(value)
            case RemoteLogSegmentMetadataUpdate():
                await self.manager.update_remote_log_segment_metadata(value)
            case RemotePartitionDeleteMetadata():
                await self.manager.put_remote_partition_delete_metadata(value)
            case _:
                raise AssertionError(f"no broker writes {value}")


def add_record(kafka: FakeTopic, topic: Topic, value: KafkaValue) -> None:
    """Append a record to the metadata partition of that topic."""
    where = metadata_partition(topic.tip.topic_id, 0, partition_count=PARTITIONS)
    kafka.add(encode(value), where)
