"""Simulated brokers: they copy, retain and read segments, and believe every notification.

A broker copies for a partition from the notification that it leads until one that it does not,
even if another broker leads meanwhile. So zombies are frequent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol, TypeAlias

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.messages import Query
from tierledger.events.errors import Fenced, RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaValue
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from tierledger.simulation.history.recorded_client import KnownIds, RecordedClient
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.virtual_loop import VirtualProcess

Connecting: TypeAlias = "Callable[[ServiceSettings], Awaitable[ServiceConnection]]"

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

READY_PAUSE_S = 0.05

REFUSALS_MAX = 3
"""Refused writes in a row after which a broker tries less often."""

REFUSED_PAUSE_S = 0.5

SEGMENTS_KEPT = 6
"""Finished segments that a leader keeps before it begins to delete the oldest."""


class CountedIds:
    """Ids of requests and segments: unique within a run, and the same in each run of a seed."""

    def __init__(self, prefix: int) -> None:
        self._prefix = prefix.to_bytes(8, "big")
        self._count = 0

    def request_id(self) -> bytes:
        self._count += 1
        return self._prefix + self._count.to_bytes(4, "big")

    def segment_id(self) -> Uuid:
        return Uuid(self.request_id() + b"seg\x00")


class Broker:
    """One process of a broker, with a manager and a few tasks per partition that it leads."""

    def __init__(
        self,
        world: Stage,
        connect: Connecting,
        fenced: Callable[[Broker], None],
        broker_id: int,
        life: int,
        random: Random,
    ) -> None:
        """`fenced` is called when the service refuses an announcement as out of date."""
        self.process = VirtualProcess(f"broker-{broker_id}", life)
        self.broker_id = broker_id
        self.is_fenced = False
        self.led: dict[TopicIdPartition, int] = {}
        """Partitions that this broker believes to lead, with the leader epoch of each."""
        self.acknowledged: dict[TopicIdPartition, int] = {}
        """Per partition, when the last acknowledged write was begun (virtual ns)."""
        self._world = world
        self._fenced = fenced
        self._random = random
        self.ids = CountedIds(broker_id << 16 | life)
        self._known_ids = KnownIds(self.ids)
        self._manager = AsyncRemoteLogMetadataManager(
            connect, self._known_ids, deadline_s=world.plan.network.timeout_s * 2
        )
        self._configured: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to register. Announcements and reads wait until the broker is registered."""
        loop = self._world.loop
        self._configured = loop.spawn(self.process, self._configure())
        loop.spawn(self.process, self._read_as_follower())

    async def _configure(self) -> None:
        config = {"cluster.id": self._world.cluster_id, "broker.id": str(self.broker_id)}
        while True:
            try:
                await self._manager.configure(config)
            except RemoteStorageError:
                await asyncio.sleep(0.2)
            else:
                return

    # Notifications.

    def notify(
        self,
        leads: dict[TopicIdPartition, int],
        follows: list[TopicIdPartition],
        stops: list[TopicIdPartition],
        *,
        carries_epochs: bool,
    ) -> None:
        """A notification from the controller arrives: announce it, and begin to copy."""
        work = self._announce(leads, follows, stops, carries_epochs=carries_epochs)
        self._world.loop.spawn(self.process, work)

    async def _announce(
        self,
        leads: dict[TopicIdPartition, int],
        follows: list[TopicIdPartition],
        stops: list[TopicIdPartition],
        *,
        carries_epochs: bool,
    ) -> None:
        for tip in (*follows, *stops):
            self.led.pop(tip, None)
        assert self._configured is not None, "a broker is started before it is notified"
        await asyncio.shield(self._configured)
        manager = self._manager
        try:
            epochs = leads if carries_epochs else {}
            await manager.on_partition_leadership_changes(leads, follows, leader_epochs=epochs)
            if stops:
                await manager.on_stop_partitions(stops)
        except Fenced:
            self.is_fenced = True
            self._world.recording.mark("broker fenced")
            self._fenced(self)
            return
        except RemoteStorageError as error:
            self._world.recording.event("announcement failed", type(error).__name__)
        for tip, epoch in leads.items():
            if self.led.get(tip) != epoch:
                self.led[tip] = epoch
                for _ in range(self._world.plan.copiers):
                    self._world.loop.spawn(self.process, self._copy(tip, epoch))

    # Copying and reading.

    def _client(self, tip: TopicIdPartition, what: str) -> RecordedClient:
        name = f"{self.process.name}/{tip.partition}/{what}{self._world.next_number()}"
        return RecordedClient(self._manager, self._known_ids, self._world.recorder, name)

    async def _think(self) -> None:
        think_s = self._world.plan.think_s
        if think_s:
            await asyncio.sleep(think_s * 2 * self._random.random())

    async def _copy(self, tip: TopicIdPartition, epoch: int) -> None:
        copier = Copier(self._world, self, self._client(tip, "copy"), tip, epoch)
        while self.led.get(tip) == epoch:
            try:
                if await self._manager.is_ready(tip):
                    break
            except RemoteStorageError:
                pass
            await asyncio.sleep(READY_PAUSE_S)
        while self.led.get(tip) == epoch:
            await self._think()
            if copier.refusals >= REFUSALS_MAX:
                await asyncio.sleep(REFUSED_PAUSE_S)
            if not await self._world.may_call():
                continue
            await copier.step(self._random)

    async def _read_as_follower(self) -> None:
        assert self._configured is not None, "started before"
        await asyncio.shield(self._configured)
        clients = {tip: self._client(tip, "read") for tip in self._world.tips}
        while not self.is_fenced:
            await self._think()
            await asyncio.sleep(0.002)
            if not await self._world.may_call():
                continue
            tip = self._random.choice(self._world.tips)
            role = FOLLOWER if self._random.random() < 0.8 else LEADER
            await clients[tip].read(tip, role, self._query(self._random, 3, 300))

    @staticmethod
    def _query(random: Random, epochs: int, offsets: int) -> Query:
        kind = random.choice(("lookup", "lookup", "highest_offset", "size", "list_epoch"))
        return Query(kind, random.randrange(epochs + 1), random.randrange(offsets))


class Timed(Protocol):
    """The clock of a copier's surroundings: of a world, or of a run on a live service."""

    def now_ns(self) -> int: ...


class Copying(Protocol):
    """The broker that a copier works for."""

    broker_id: int
    acknowledged: dict[TopicIdPartition, int]
    ids: CountedIds


class Copier:
    """A partition's leader at work: copies segments, deletes old ones, reads in between."""

    def __init__(
        self,
        world: Timed,
        broker: Copying,
        client: RecordedClient,
        tip: TopicIdPartition,
        epoch: int,
    ) -> None:
        self.refusals = 0
        self._world = world
        self._broker = broker
        self._client = client
        self._tip = tip
        self._epoch = epoch
        self._next_offset = epoch * 100
        self._copied: list[RemoteLogSegmentId] = []

    async def step(self, random: Random) -> None:
        """Make one random read, or copy or delete one segment."""
        drawn = random.random()
        if drawn < 0.25:
            query = Query("lookup", random.randrange(self._epoch + 1), self._next_offset - 5)
            await self._client.read(self._tip, LEADER, query)
        elif drawn < 0.28:
            await self._client.read(self._tip, LEADER, Query("list_epoch", self._epoch))
        elif drawn < 0.36:
            await self._client.read(self._tip, LEADER, Query("highest_offset", self._epoch))
        elif len(self._copied) > SEGMENTS_KEPT:
            await self._delete_oldest(random)
        else:
            await self._copy_one(random)

    async def _add(self, metadata: RemoteLogSegmentMetadata, what: str) -> bool:
        work = self._client.manager.add_remote_log_segment_metadata(metadata)
        return await self._write(work, what, metadata)

    async def _move(
        self,
        segment: RemoteLogSegmentId,
        state: RemoteLogSegmentState,
        what: str,
        custom: CustomMetadata | None = None,
    ) -> bool:
        update = RemoteLogSegmentMetadataUpdate(
            remote_log_segment_id=segment,
            event_timestamp_ms=self._next_offset,
            custom_metadata=custom,
            state=state,
            broker_id=self._broker.broker_id,
        )
        work = self._client.manager.update_remote_log_segment_metadata(update)
        return await self._write(work, what, update)

    async def _write(self, work: Awaitable[int], what: str, wanted: KafkaValue) -> bool:
        begun = self._world.now_ns()
        error = await self._client.write(self._tip, work, what, wanted)
        if isinstance(error, Fenced):
            self.refusals += 1
        elif error is None:
            self.refusals = 0
            self._broker.acknowledged[self._tip] = begun
        return error is None

    async def _copy_one(self, random: Random) -> None:
        start = max(0, self._next_offset - (5 if random.random() < 0.1 else 0))
        segment = RemoteLogSegmentId(self._tip, self._broker.ids.segment_id())
        metadata = RemoteLogSegmentMetadata(
            remote_log_segment_id=segment,
            start_offset=start,
            end_offset=start + 9,
            max_timestamp_ms=start,
            broker_id=self._broker.broker_id,
            event_timestamp_ms=start,
            segment_size_in_bytes=100 + start % 7,
            state=STARTED,
            segment_leader_epochs={self._epoch: start},
            txn_index_empty=random.random() < 0.5,
        )
        if not await self._add(metadata, "add"):
            return
        if random.random() < 0.1:
            await self._add(metadata, "add again")
        size = 129 if random.random() < 0.05 else 8
        self._next_offset = start + 10
        if await self._move(segment, FINISHED, "finish", CustomMetadata(bytes(size))):
            self._copied.append(segment)
        elif size > 128:
            await self._move(segment, DELETING, "delete")
            await self._move(segment, DELETED, "deleted")

    async def _delete_oldest(self, random: Random) -> None:
        segment = self._copied.pop(0)
        if await self._move(segment, DELETING, "delete"):
            await self._move(segment, DELETED, "deleted")
            if random.random() < 0.2:
                await self._move(segment, DELETED, "deleted again")
