"""A cluster that lives and moves, on virtual time.

Service, import, mirror, comparison and the command are the real ones, on the simulator's loop,
network and store. Kafka is a topic in memory; brokers do what the steps of a life tell them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from secrets import token_bytes
from typing import Any

import pytest
from typing_extensions import override

from tests.models.kafka.fake_topic import PARTITIONS, FakeReader, FakeTopic
from tests.models.kafka.lives import OF_MOVES, Step, What
from tierledger.actors.calls import STORAGE
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.events import Owner, Registered
from tierledger.actors.coordinator.ownership import (
    CONFIRM,
    Handover,
    Owned,
    Ownership,
    PluginMode,
    decision,
)
from tierledger.actors.coordinator.requests import RegisterCall, StatusCall
from tierledger.actors.messages import Query
from tierledger.actors.no_brokers import IMPORTER, OBSERVER
from tierledger.actors.oracle.no_oracle import NoOracle
from tierledger.conformance.recorded_segments import RecordedTopic
from tierledger.events.errors import (
    PartitionDeleted,
    RejectedError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaValue, encode
from tierledger.events.kafka.metadata_partition import metadata_partition
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.moving.comparison import Comparison
from tierledger.moving.following import Following, FollowOptions
from tierledger.moving.importing import TailImport
from tierledger.moving.mirroring import Mirror
from tierledger.moving.move import OwnershipMove
from tierledger.moving.topic import KafkaCluster
from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.service.cluster import Cluster, CoordinatorWay
from tierledger.simulation.service.lying_store import StoreConnection
from tierledger.simulation.service.network import WORLD_CONTEXT
from tierledger.simulation.service.plan import calm
from tierledger.simulation.service.stage import CLUSTER_ID, Stage
from tierledger.simulation.service.virtual_loop import VirtualProcess
from tierledger.storage.backend import AtomicConflict
from tierledger.storage.catalog import Catalog
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.storage.partition.forgetting import forget
from tierledger.storage.partition.reader import PartitionReader

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

BROKERS = 2
PROGRAM = 100
"""A broker's client of the service registers under its id and this; its plugin under its id."""

DEADLINE_S = 30.0
ATTEND_S = 0.5
SILENCE_S = 4.0
"""After so long a broker that is gone no longer counts as attending."""

DEAD_S, UNOWNED_S = 6.0, 12.0
"""How long a broker is dead, and then alive without the plugin."""

STILL_LOOKS = 60
"""Looks, one a second, until an import or a mirror has to be without trouble."""

TROUBLE_S = 2.0
"""Within so long after its begin something happens to a move."""

CUT_OFF_S = 8.0
"""For so long a broker is cut off, at the most."""

LIFE_S = 10_000.0
"""Virtual seconds in which each life ends."""

NOWHERE = KafkaBrokers("nobody:9092")

IMPORTED_S = 20.0
"""Seconds within which the import has taken over what Kafka's topic has."""


@dataclass
class Topic:
    """One incarnation of a topic, with one partition."""

    tip: TopicIdPartition
    leader: int
    epoch: int = 0
    end: int = 0
    """The next offset to be copied."""
    segments: dict[Uuid, RemoteLogSegmentMetadata] = field(default_factory=dict)
    """Those that both managers have to know, in order; also after the topic's deletion."""
    is_hosted: bool = True


class LivingFollowing(Following):
    """The follower of a topic in memory."""

    def __init__(self, cluster: LivingCluster, process: VirtualProcess) -> None:
        options = FollowOptions(NOWHERE, mirror=True)
        super().__init__(cluster.stage.settings, CoordinatorWay(cluster.service), options)
        self._cluster, self._process = cluster, process

    @override
    async def _new_import(self, stack: AsyncExitStack) -> TailImport:
        manager = await stack.enter_async_context(self._cluster.manager(IMPORTER))
        return TailImport(manager, FakeReader(self._cluster.topic), CLUSTER_ID)

    @override
    async def _new_mirror(self, stack: AsyncExitStack) -> Mirror:
        catalog = self._cluster.catalog(self._process)
        topic = self._cluster.topic
        return Mirror(catalog, FakeReader(topic), topic, NOWHERE)

    @override
    async def _kafka_cluster(self) -> KafkaCluster:
        alive = self._cluster.brokers.keys() | self._cluster.unowned
        return KafkaCluster(CLUSTER_ID, frozenset(alive))


class LivingMove(OwnershipMove):
    """The command, in a cluster whose living brokers are known."""

    def __init__(
        self,
        cluster: LivingCluster,
        connection: ServiceConnection,
        to: Owner,
        *,
        accepts_losses: bool,
    ) -> None:
        super().__init__(
            cluster.stage.settings, connection, NOWHERE, to, accepts_losses=accepts_losses
        )
        self._cluster = cluster

    @override
    async def _alive(self) -> set[int]:
        return set(self._cluster.brokers)

    async def moved(self, tell: Callable[[str], None]) -> Owned:
        async with self._cluster.manager(OBSERVER) as manager:
            return await self._made(Comparison(manager, FakeReader(self._cluster.topic)), tell)


class LivingBroker:
    """A broker in handover: attends, and announces roles as its plugin does."""

    def __init__(self, cluster: LivingCluster, broker_id: int) -> None:
        self.broker_id = broker_id
        self.process = VirtualProcess(f"broker-{broker_id}", broker_id)
        self.ownership = Ownership()
        self._fit_for = 0
        """The newest owner epoch in which another manager may take over."""
        self._accepted: set[Uuid] = set()
        self._manager: AsyncRemoteLogMetadataManager | None = None
        self._cluster = cluster

    @property
    def manager(self) -> AsyncRemoteLogMetadataManager:
        assert self._manager is not None, "it has begun"
        return self._manager

    @property
    def reads(self) -> str | None:
        return decision(PluginMode.HANDOVER, self.ownership).reads

    async def run(self) -> None:
        self.ownership = Ownership()  # Whoever registers anew announces everything anew.
        async with self._cluster.manager(PROGRAM + self.broker_id) as self._manager:
            coordinator = CoordinatorWay(self._cluster.service)
            request, given = token_bytes(8), Registered(0, is_given=False)
            while not given.is_given:
                given = await coordinator.ask(
                    RegisterCall(
                        self.broker_id, request, given.incarnation, PluginMode.HANDOVER
                    )
                )
            while True:
                epoch = self.ownership.epoch
                is_moving = self.ownership.owner == Owner.MOVING
                report = Attend(
                    self.broker_id,
                    given.incarnation,
                    PluginMode.HANDOVER,
                    epoch,
                    is_moving and self._fit_for == epoch,
                )
                attended = await coordinator.ask(report)
                newer, self._accepted = attended.ownership, set(map(Uuid, attended.accepted))
                if newer.epoch > epoch:
                    former, self.ownership = self.reads, newer
                    if former != self.reads:
                        await self.announce(self._cluster.hosted)
                await self._catch_up()
                await asyncio.sleep(ATTEND_S)

    async def announce(self, topics: list[Topic]) -> None:
        """Announce that this broker leads or follows these topics, by the present owner."""
        leads = self.reads == Owner.TIERLEDGER
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
                if (known ^ self._cluster.known_by_kafka(one)) - self._accepted:
                    return
        self._fit_for = moving.epoch


class LivingCluster:
    """One cluster from its beginning to the end of its life."""

    def __init__(self, seed: int) -> None:
        # In one of three lives the clocks of the service's processes are up to an hour wrong.
        self.stage = Stage(calm(seed))
        self.service = Cluster(self.stage, NoOracle())
        self.topic = FakeTopic()
        self.brokers: dict[int, LivingBroker] = {}
        self.unowned: set[int] = set()
        """Living brokers without the plugin."""
        self.topics: dict[str, Topic] = {}
        """By name, those that exist."""
        self.ever: list[Topic] = []
        self.story: list[str] = []
        """What happened, for who reads of a failure."""
        self._random = Random(f"cluster {seed}")
        self._processes = 0
        self._serving = VirtualProcess("serve")
        self._followed: asyncio.Task[None] | None = None
        self._is_beside = False
        """Whether the leader writes Kafka's topic, whoever owns the metadata."""
        self._connection: ServiceConnection | None = None

    # What its processes use.

    @asynccontextmanager
    async def manager(self, broker_id: int) -> AsyncIterator[AsyncRemoteLogMetadataManager]:
        manager = AsyncRemoteLogMetadataManager(self.service.connect, deadline_s=DEADLINE_S)
        async with manager:
            await manager.configure({"cluster.id": CLUSTER_ID, "broker.id": broker_id})
            yield manager

    def catalog(self, process: VirtualProcess) -> Catalog:
        store = StoreConnection(self.stage.store, process)
        return Catalog(store, self.stage.keys, self.stage.settings.serde(), CLUSTER_ID)

    @property
    def hosted(self) -> list[Topic]:
        return [one for one in self.topics.values() if one.is_hosted]

    async def known(self, topic: Topic, asked: AsyncRemoteLogMetadataManager) -> set[Uuid]:
        """The segments that tierledger knows of a topic.

        `asked`: the asking process's own: what it opens ends with that process.
        """
        try:
            rows = await asked.rows(topic.tip, Query("list"), STORAGE)
        except (PartitionDeleted, RemoteResourceNotFound):
            return set()
        return {Uuid(id_of_row(row)) for row in rows}

    def known_by_kafka(self, topic: Topic) -> set[Uuid]:
        """The segments that Kafka's own manager knows of a topic."""
        records = [one.record for some in self.topic.records.values() for one in some]
        folded = RecordedTopic(records)
        folded.advance(None)
        known = folded.partition(topic.tip.topic_id, topic.tip.partition)
        return {Uuid.parse(one) for one in known.segments}

    # The life.

    def live(self, steps: list[Step]) -> None:
        """Go through `steps`; fails where the way is shut, or a segment lost."""
        loop = self.stage.loop
        loop.create_task(self.service.keep_coordinator(), context=WORLD_CONTEXT.copy())
        operator = self._process("operator")
        living = loop.spawn(operator, self._live(steps))
        living.add_done_callback(lambda _: loop.stop())
        loop.run(until=LIFE_S)
        loop.close()
        done = living.done()
        error = living.exception() if done else TimeoutError("its life does not end")
        loop.discard()
        if error is not None:
            raise AssertionError("\n".join([*self.story, repr(error)])) from error

    async def _live(self, steps: list[Step]) -> None:
        self._connection = await self.service.connect(self.stage.settings)
        self._start_following()
        for _ in range(BROKERS):
            self._start_broker()
        first = Owner.KAFKA if self._random.random() < 0.7 else Owner.TIERLEDGER
        await self._connection.coordinator.ask(Handover(first, Owner.NOBODY))
        await self._agreed()
        try:
            for step in steps:
                at = self.stage.loop.time()
                self.story.append(f"{at:.1f} s: {step.what.value} {step.topic}")
                await self._take(step)
        finally:
            await self._stop_following()

    async def _take(self, step: Step) -> None:
        match step.what:
            case What.MAKE:
                await self._make(step.topic)
            case What.FORGET:
                await self._forget()
            case What.UNOWNED:
                await self._be_unowned()
            case What.REPLACE:
                await self._replace()
            case What.RESTART:
                await self._stop_following()
                self._start_following()
            case What.MOVE:
                await self._move()
            case What.REST:
                for _ in range(4):
                    await self._move()
            case _ if step.what in OF_MOVES:
                await self._move_with(step.what)
                await self._move()
            case _:
                await self._change(step.what, self.topics[step.topic])

    async def _change(self, what: What, topic: Topic) -> None:
        match what:
            case What.TIER:
                for _ in range(self._random.randint(1, 3)):
                    await self._copy(topic)
            case What.RETAIN:
                await self._remove(topic, self._random.randint(0, len(topic.segments)))
            case What.DELETE_RECORDS:
                await self._remove(topic, len(topic.segments))
            case What.REASSIGN:
                topic.leader = self._random.choice([*self.brokers])
                topic.epoch += 1
                await self._announce([topic])
            case What.TIERING_ON:
                topic.is_hosted = True
                await self._announce([topic])
            case What.TIERING_OFF:
                await self._remove(topic, len(topic.segments))
                await self._stop(topic)
            case What.DELETE:
                await self._delete(topic)
            case What.BESIDE:
                await self._write_beside(topic)
            case What.DELETE_WHILE_MOVING:
                moving = asyncio.ensure_future(self._move())
                await self._until(lambda: self._owner == Owner.MOVING or moving.done())
                await self._stop(topic)
                del self.topics[topic.tip.topic]
                with suppress(RejectedError):  # A topic that changes meanwhile may end it.
                    await moving
            case _:
                raise AssertionError(f"{what} concerns no single topic")

    async def _write_beside(self, topic: Topic) -> None:
        """The leader runs without the plugin for a while; then Kafka's manager takes over."""
        if (await self._still())["owner"] == Owner.KAFKA:
            return
        # Its own manager deletes only what was mirrored.
        await self._until(lambda: self.known_by_kafka(topic) == topic.segments.keys())
        self._is_beside = True
        for _ in range(self._random.randint(0, 2)):
            await self._copy(topic)
        await self._remove(topic, self._random.randint(0, len(topic.segments)))
        self._is_beside = False
        await self._stop_following()
        self._start_following()
        await self._move(accepts_losses=True)

    async def _make(self, name: str) -> None:
        topic_id = Uuid((len(self.ever) + 1).to_bytes(16, "big"))
        tip = TopicIdPartition(topic_id, 0, name)
        topic = self.topics[name] = Topic(tip, self._random.choice([*self.brokers]))
        self.ever.append(topic)
        await self._announce([topic])

    async def _delete(self, topic: Topic) -> None:
        if topic.is_hosted:
            await self._remove(topic, len(topic.segments))
            if self._random.random() < 0.4:  # Some brokers also write that it is deleted.
                for state in RemotePartitionDeleteState:
                    await self._write(
                        topic, RemotePartitionDeleteMetadata(topic.tip, state, 5, 1)
                    )
            await self._stop(topic)
        del self.topics[topic.tip.topic]

    async def _copy(self, topic: Topic) -> None:
        number = sum(len(some) for some in self.topic.records.values())
        segment_id = Uuid(self._random.randbytes(12) + number.to_bytes(4, "big"))
        start, topic.end = topic.end, topic.end + 10
        added = RemoteLogSegmentMetadata(
            remote_log_segment_id=RemoteLogSegmentId(topic.tip, segment_id),
            start_offset=start,
            end_offset=topic.end - 1,
            max_timestamp_ms=5,
            broker_id=topic.leader,
            event_timestamp_ms=6,
            segment_size_in_bytes=100,
            state=STARTED,
            segment_leader_epochs={topic.epoch: start},
        )
        await self._write(topic, added)
        await self._write(topic, self._update(topic, segment_id, FINISHED))
        topic.segments[segment_id] = added

    async def _remove(self, topic: Topic, count: int) -> None:
        """Remove the oldest segments."""
        for segment_id in [*topic.segments][:count]:
            for state in (DELETING, DELETED):
                await self._write(topic, self._update(topic, segment_id, state))
            del topic.segments[segment_id]

    def _update(
        self, topic: Topic, segment_id: Uuid, state: RemoteLogSegmentState
    ) -> RemoteLogSegmentMetadataUpdate:
        where = RemoteLogSegmentId(topic.tip, segment_id)
        return RemoteLogSegmentMetadataUpdate(where, 7, state, topic.leader)

    async def _write(self, topic: Topic, value: KafkaValue) -> None:
        """Write by the owner's manager, as the topic's leader."""
        leader = self.brokers[topic.leader]
        if self._is_beside or leader.reads == Owner.KAFKA:
            where = metadata_partition(topic.tip.topic_id, 0, partition_count=PARTITIONS)
            self.topic.add(encode(value), where)
            return
        manager = leader.manager
        await manager.when_ready([topic.tip])
        match value:
            case RemoteLogSegmentMetadata():
                await manager.add_remote_log_segment_metadata(value)
            case RemoteLogSegmentMetadataUpdate():
                await manager.update_remote_log_segment_metadata(value)
            case RemotePartitionDeleteMetadata():
                await manager.put_remote_partition_delete_metadata(value)
            case _:
                raise AssertionError(f"no broker writes {value}")

    async def _announce(self, topics: list[Topic]) -> None:
        for broker in self.brokers.values():
            await broker.announce([one for one in topics if one.is_hosted])

    async def _stop(self, topic: Topic) -> None:
        """No broker hosts the topic any more."""
        topic.is_hosted = False
        for broker in self.brokers.values():
            await broker.manager.on_stop_partitions([topic.tip])

    async def _forget(self) -> None:
        """Forget each log that may be forgotten, as an operator does who looks at `ls`."""
        catalog = self.catalog(self._process("operator"))
        left = {} if self._owner == Owner.KAFKA else self._left()
        async for found in catalog.partitions():
            tip = found.topic_id_partition
            topic = left.get(tip.topic_id)
            reader: PartitionReader = catalog.reader(tip)
            with suppress(RejectedError, AtomicConflict):
                await forget(reader, segments_too=topic is not None)
                if topic is not None:
                    topic.segments.clear()

    def _left(self) -> dict[Uuid, Topic]:
        """Deleted topics."""
        there = self.topics.values()
        return {one.tip.topic_id: one for one in self.ever if one not in there}

    async def _be_unowned(self) -> None:
        """A broker runs without the plugin, and raises log starts over what is tiered.

        Whoever leads then, with the plugin, deletes nothing before an operator confirms it.
        """
        assert self._connection is not None, "it lives"
        if (await self._still())["owner"] == Owner.KAFKA:
            return
        coordinator = self._connection.coordinator
        broker_id = self._random.choice([*self.brokers])
        self.stage.loop.kill(self.brokers.pop(broker_id).process)
        await asyncio.sleep(DEAD_S)
        self.unowned.add(broker_id)
        await asyncio.sleep(UNOWNED_S)
        with pytest.raises(RejectedError, match=f"brokers {broker_id} run without the plugin"):
            await coordinator.ask(CONFIRM)
        self.unowned.clear()
        if self._random.random() < 0.5:
            await self._stop_following()
            self._start_following()
        self._start_broker(broker_id)
        await self._agreed()
        for topic in self.hosted:
            topic.epoch += topic.leader == broker_id
        await self._announce([*self.topics.values()])
        await asyncio.sleep(SILENCE_S)
        for topic in self.hosted:
            for segment_id in topic.segments:
                with pytest.raises(RejectedError, match="deletions of finished segments"):
                    await self._write(topic, self._update(topic, segment_id, DELETING))
            leader = self.brokers[topic.leader].manager
            assert await self.known(topic, leader) == topic.segments.keys(), f"{topic}"
        await coordinator.ask(CONFIRM)
        await asyncio.sleep(SILENCE_S)

    async def _replace(self) -> None:
        """A broker dies for good; a new one takes its topics over."""
        gone = self._random.choice([*self.brokers])
        self.stage.loop.kill(self.brokers.pop(gone).process)
        self._start_broker()
        await self._agreed()
        for topic in self.topics.values():
            if topic.leader == gone:
                topic.leader = self._random.choice([*self.brokers])
                topic.epoch += 1
        await self._announce([*self.topics.values()])
        await asyncio.sleep(SILENCE_S)

    async def _move(self, *, accepts_losses: bool = False) -> None:
        """Move the metadata to the other owner, which then knows all that is to be known.

        What only Kafka's topic said has to be imported first.
        """
        assert self._connection is not None, "it lives"
        owner = (await self._still())["owner"]
        to = Owner.KAFKA if owner == Owner.TIERLEDGER else Owner.TIERLEDGER
        self.story.append(f"{self.stage.loop.time():.1f} s: to {to}")
        move = LivingMove(self, self._connection, to, accepts_losses=accepts_losses)
        await move.moved(self.story.append)
        await self._agreed()
        if accepts_losses:
            await asyncio.sleep(IMPORTED_S)
        async with self.manager(OBSERVER) as asked:
            for topic in self.ever:
                for known in (await self.known(topic, asked), self.known_by_kafka(topic)):
                    assert known == topic.segments.keys(), f"{topic.tip}: {known}, {topic}"

    async def _command(self, to: Owner) -> Owned:
        connection = await self.service.connect(self.stage.settings)
        move = LivingMove(self, connection, to, accepts_losses=False)
        return await move.moved(self.story.append)

    async def _move_with(self, trouble: What) -> None:
        """Try to move the metadata; returns once somebody owns it, after that trouble."""
        owner = (await self._still())["owner"]
        to = Owner.KAFKA if owner == Owner.TIERLEDGER else Owner.TIERLEDGER
        command = self._process("command")
        moving = self.stage.loop.spawn(command, self._command(to))
        await self._until(lambda: self._owner == Owner.MOVING or moving.done())
        await asyncio.sleep(self._random.uniform(0, TROUBLE_S))
        self.story.append(
            f"{self.stage.loop.time():.1f} s: {trouble.value}, on its way to {to}"
        )
        self._trouble(trouble, command)
        if not command.is_dead:
            with suppress(RemoteStorageError):
                await moving
        await self._owned()
        await self._agreed()

    def _trouble(self, what: What, command: VirtualProcess) -> None:
        loop = self.stage.loop
        broker = self.brokers[self._random.choice([*self.brokers])]
        match what:
            case What.KILL_HOST:
                alive = [one for one in self.service.hosts.values() if one.is_reachable]
                loop.kill(self._random.choice(alive))
            case What.KILL_COORDINATOR:
                assert self.service.coordinator is not None, "it is kept"
                loop.kill(self.service.coordinator)
            case What.KILL_SERVE:
                loop.kill(self._serving)
                self._start_following()
            case What.KILL_COMMAND:
                loop.kill(command)
            case What.KILL_BROKER:
                loop.kill(broker.process)
                self._start_broker(broker.broker_id)
            case What.CUT_OFF_BROKER:
                until = loop.clock.now + int(self._random.uniform(1, CUT_OFF_S) * S)
                site = broker.process.site
                for other in sorted({one.site for one in self.service.processes} - {site}):
                    self.stage.network.wires.cut((site, other), until)
                    self.stage.network.wires.cut((other, site), until)
            case _:
                raise AssertionError(f"{what} disturbs no move")

    async def _owned(self) -> None:
        """Return once the move under way has ended; the coordinator gives up one that hangs."""
        while (await self._status())["owner"] == Owner.MOVING:  # noqa: ASYNC110 - As above.
            await asyncio.sleep(1)

    async def _status(self) -> dict[str, Any]:
        assert self._connection is not None, "it lives"
        while True:
            with suppress(RemoteStorageError):
                return await self._connection.coordinator.ask(StatusCall())
            await asyncio.sleep(1)

    async def _still(self) -> dict[str, Any]:
        """The coordinator's status once the follower does its task without trouble."""
        tasks = {Owner.KAFKA: "import", Owner.TIERLEDGER: "mirror"}
        status: dict[str, Any] = {}
        for _ in range(STILL_LOOKS):
            status = await self._status()
            does = (status["kafka"] or {}).get
            if does("task") == tasks[status["owner"]] and does("round") and not does("trouble"):
                return status
            await asyncio.sleep(1)
        raise AssertionError(f"the follower does not stand still: {status['kafka']}")

    @property
    def _owner(self) -> str:
        return min(self.brokers.values(), key=lambda one: one.ownership.epoch).ownership.owner

    async def _agreed(self) -> None:
        """Return once all brokers have the newest owner, and follow nothing that moves."""
        newest = (await self._status())["owner_epoch"]
        await self._until(
            lambda: all(one.ownership.epoch >= newest for one in self.brokers.values())
        )

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110 - Other processes do it.
            await asyncio.sleep(0.05)

    # Processes.

    def _process(self, site: str) -> VirtualProcess:
        self._processes += 1
        process = VirtualProcess(site, self._processes)
        self.service.processes.append(process)
        return process

    def _start_broker(self, broker_id: int | None = None) -> None:
        """Start a new broker, or that one anew."""
        broker = LivingBroker(self, self._processes if broker_id is None else broker_id)
        broker.process = self._process(f"broker-{broker.broker_id}")
        self.brokers[broker.broker_id] = broker
        self._keep(broker.process, broker.run)

    def _start_following(self) -> None:
        process = self._serving = self._process("serve")
        self._followed = self.stage.loop.spawn(process, LivingFollowing(self, process).run())

    async def _stop_following(self) -> None:
        assert self._followed is not None, "it was started"
        self._followed.cancel()
        await asyncio.gather(self._followed, return_exceptions=True)

    def _keep(self, process: VirtualProcess, run: Callable[[], Awaitable[None]]) -> None:
        """Run a process again whenever the service was away."""

        async def keep() -> None:
            while True:
                with suppress(RemoteStorageError):
                    await run()
                await asyncio.sleep(1)

        self.stage.loop.spawn(process, keep())
