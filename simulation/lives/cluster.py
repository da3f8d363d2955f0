"""A cluster that lives and moves, on virtual time.

Service, import, mirror, comparison and the command are the real ones, on the simulator's loop,
network and store. Kafka is a topic in memory; brokers do what the steps of a life tell them,
and their leaders go on copying segments while the metadata moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from random import Random
from typing import Any

from typing_extensions import override

from tierledger.actors.calls import STORAGE
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import CONFIRM, Handover, Owned
from tierledger.actors.coordinator.purge_requests import CleanUp
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.actors.messages import Query
from tierledger.actors.no_brokers import IMPORTER, OBSERVER
from tierledger.actors.oracle.no_oracle import NoOracle
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    PartitionDeleted,
    RejectedError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaValue
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.log_events import UNTIL_RELEASED_MS, Origin
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.tables.segment_rows import START, id_of_row, unpack_row
from tierledger.moving.comparison import Comparison, Disagreement
from tierledger.moving.following import Following, FollowOptions
from tierledger.moving.importing import TailImport
from tierledger.moving.mirroring import Mirror
from tierledger.moving.move import OwnershipMove
from tierledger.moving.topic import KafkaCluster
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.recorded_client import CountedIds
from tierledger.simulation.lives.brokers import LivingBroker, add_record
from tierledger.simulation.lives.fake_topic import FakeReader, FakeTopic
from tierledger.simulation.lives.steps import OF_MOVES, LifeStep, What, step_of
from tierledger.simulation.lives.topics import KafkasManager, Topic
from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.service.cluster import Cluster, CoordinatorWay
from tierledger.simulation.service.lying_store import StoreConnection
from tierledger.simulation.service.network import WORLD_CONTEXT
from tierledger.simulation.service.plan import FURTHER
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

DEADLINE_S = 30.0
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

LIFE_S = 1_000.0
"""Virtual seconds in which each life ends."""

LIST = Query("list")

NOWHERE = KafkaBrokers("nobody:9092")

STEPS = tuple(one.value for one in What)
"""The marks of a life: each kind of step."""

SHOWN = 5
"""How many segments a violation names."""

AGREED_S = 20.0
"""Seconds after a move within which both managers know the same."""

COPY_S = 3.0
"""Upper bound of the pause after a segment that is copied while the metadata moves."""

SILENT_SHARE = 0.5
"""The share of segments that comparisons leave out: only the rules of a move keep them."""


class LifeEnded(Exception):
    """A life went wrong: what was found, and by which checker."""

    def __init__(self, checker: str, message: str) -> None:
        super().__init__(message)
        self.checker = checker


class LivingFollowing(Following):
    """The follower of a topic in memory."""

    def __init__(self, cluster: LivingCluster, life: VirtualProcess) -> None:
        options = FollowOptions(NOWHERE, mirror=True)
        coordinator = CoordinatorWay(cluster.service)
        super().__init__(cluster.settings, coordinator, options, name=life.name)
        self._cluster, self._life = cluster, life

    @override
    async def _new_import(self, stack: AsyncExitStack) -> TailImport:
        manager = await stack.enter_async_context(self._cluster.manager(IMPORTER))
        return TailImport(manager, FakeReader(self._cluster.kafka), CLUSTER_ID)

    @override
    async def _new_mirror(self, stack: AsyncExitStack) -> Mirror:
        catalog, topic = self._cluster.catalog(self._life), self._cluster.kafka
        return Mirror(catalog, FakeReader(topic), topic, NOWHERE)

    @override
    async def _kafka_cluster(self) -> KafkaCluster:
        alive = self._cluster.brokers.keys() | self._cluster.unowned
        return KafkaCluster(CLUSTER_ID, frozenset(alive))


class HalfBlind(Comparison):
    """A comparison that does not see some of the segments."""

    def __init__(self, manager: AsyncRemoteLogMetadataManager, cluster: LivingCluster) -> None:
        super().__init__(manager, FakeReader(cluster.kafka))
        self._silent = cluster.silent

    @override
    async def differences(self, partitions: Iterable[TopicIdPartition]) -> list[Disagreement]:
        found = await super().differences(partitions)
        return [one for one in found if one.segment not in self._silent]


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
            cluster.settings, connection, NOWHERE, to, accepts_losses=accepts_losses
        )
        self._cluster = cluster
        self._accepts_losses = accepts_losses

    @override
    async def _alive(self) -> set[int]:
        return set(self._cluster.brokers)

    async def moved(self) -> Owned:
        cluster = self._cluster
        async with cluster.manager(OBSERVER) as manager:
            if self._accepts_losses:  # It accepts what it has seen.
                comparison = Comparison(manager, FakeReader(cluster.kafka))
            else:
                comparison = HalfBlind(manager, cluster)
            return await self._made(comparison, cluster.tell)


class LivingCluster(Stage):
    """One cluster from its beginning to the end of its life; `live` may be called once."""

    def __init__(self, scenario: Scenario, *, keeps: bool = False) -> None:
        super().__init__(scenario, keeps=keeps, further=(*FURTHER, *STEPS))
        self.service = Cluster(self, NoOracle())
        self.kafka = FakeTopic()
        self._kafkas = KafkasManager(self.kafka)
        self.brokers: dict[int, LivingBroker] = {}
        self.unowned: set[int] = set()
        """Living brokers without the plugin."""
        self.topics: dict[str, Topic] = {}
        """By name, those that exist."""
        self.ever: list[Topic] = []
        self.silent: set[bytes | None] = set()
        """Ids of segments that comparisons leave out."""
        self.violations: list[Violation] = []
        self.copied = self.written = self.moves = 0
        """The numbers of segments, of writes by either manager, and of moves that succeeded."""
        self._random = Random()
        """That of the present step: a step draws the same whatever came before it."""
        self._managers = 0
        self._operator = self._new_life("operator")
        self._serving = self._operator
        self._followed: asyncio.Task[None] | None = None
        self._is_beside = False
        """Whether the leader writes Kafka's topic, whoever owns the metadata."""
        self._connection: ServiceConnection | None = None

    def tell(self, line: str) -> None:
        """Note what happens, for who looks at the picture."""
        self.recording.moment(self._operator.name, "move", line)

    def lost(self, where: str, topic: Topic, missing: set[Uuid]) -> None:
        """Note a violation if `missing`, which are segments of that topic, are any."""
        if missing:
            known = ", ".join(sorted(map(str, missing))[:SHOWN])
            at = ms_text(self.now_ns())
            message = f"{where} lacks {len(missing)} segments of {topic.tip}, at {at}: {known}"
            self.violations.append(Violation("lost_record", None, message))

    # What its processes use.

    @asynccontextmanager
    async def manager(self, broker_id: int) -> AsyncIterator[AsyncRemoteLogMetadataManager]:
        self._managers += 1
        manager = AsyncRemoteLogMetadataManager(
            self.service.connect, CountedIds(self._managers), deadline_s=DEADLINE_S
        )
        async with manager:
            await manager.configure({"cluster.id": CLUSTER_ID, "broker.id": broker_id})
            yield manager

    def catalog(self, process: VirtualProcess) -> Catalog:
        store = StoreConnection(self.store, process)
        return Catalog(store, self.keys, self.settings.serde(), CLUSTER_ID)

    @property
    def hosted(self) -> list[Topic]:
        return [one for one in self.topics.values() if one.is_hosted]

    async def known(self, topic: Topic, asked: AsyncRemoteLogMetadataManager) -> set[Uuid]:
        """The segments that tierledger knows of a topic.

        `asked`: the asking process's own: what it opens ends with that process.
        """
        try:
            rows = await asked.rows(topic.tip, LIST, STORAGE)
        except (PartitionDeleted, RemoteResourceNotFound):
            return set()
        return {Uuid(id_of_row(row)) for row in rows}

    def known_by_kafka(self, topic: Topic) -> set[Uuid]:
        """The segments that Kafka's own manager knows of a topic, once it has read all."""
        self._kafkas.read()
        return self._kafkas.known(topic)

    # The life.

    def live(self) -> None:
        """Go through the scenario's steps; `violations` has what was found."""
        loop = self.loop
        loop.create_task(self.service.keep_coordinator(), context=WORLD_CONTEXT.copy())
        living = loop.spawn(self._operator, self._live())
        living.add_done_callback(lambda _: loop.stop())
        loop.run(until=LIFE_S)
        loop.close()
        error = living.exception() if living.done() else LifeEnded("liveness", "it never ends")
        match error:
            case None:
                return
            case LifeEnded(checker=checker):
                self.violations.append(Violation(checker, None, str(error)))
            case RemoteStorageError():
                at = ms_text(self.now_ns())
                message = f"the way is shut at {at}: {type(error).__name__}: {error}"
                self.violations.append(Violation("liveness", None, message))
            case _:
                raise error

    async def _live(self) -> None:
        seed = self.scenario.seed
        self._random = Random(f"life {seed} begins")
        self._connection = await self.service.connect(self.settings)
        self._start_following()
        for _ in range(BROKERS):
            self._start_broker()
        first = Owner.KAFKA if self._random.random() < 0.7 else Owner.TIERLEDGER
        await self._connection.coordinator.ask(Handover(first, Owner.NOBODY))
        await self._agreed()
        try:
            for decision in self.scenario.decisions:
                self._random = Random(f"life {seed} at {decision.at}")
                step = step_of(decision)
                if self._may_be(step):
                    self.tell(f"{step.what.value} {step.topic}".strip())
                    self.recording.mark(step.what.value)
                    await self._take(step)
        finally:
            await self._stop_following()

    def _may_be(self, step: LifeStep) -> bool:
        """Whether there is what the step is about; where other steps are left out, not so."""
        topic = self.topics.get(step.topic)
        match step.what:
            case What.MAKE:
                return topic is None
            case What.TIERING_ON:
                return topic is not None and not topic.is_hosted
            case What.DELETE:
                return topic is not None
            case _:
                return not step.topic or (topic is not None and topic.is_hosted)

    async def _take(self, step: LifeStep) -> None:
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
            case What.TRASH:
                await self._trash(topic, self._random.randint(0, len(topic.segments)))
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
                moving = asyncio.ensure_future(self._move(copies=False))
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
        await self._move(copies=False, accepts_losses=True)

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
        self.copied += 1
        segment_id = Uuid(self._random.randbytes(12) + self.copied.to_bytes(4, "big"))
        if self._random.random() < SILENT_SHARE:
            self.silent.add(bytes(segment_id))
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
        manager = await self._write(topic, self._update(topic, segment_id, FINISHED))
        topic.segments[segment_id] = added
        if manager == Owner.TIERLEDGER:
            topic.by_tierledger.add(segment_id)

    async def _remove(self, topic: Topic, count: int) -> None:
        """Remove the oldest segments."""
        for segment_id in [*topic.segments][:count]:
            topic.by_tierledger.discard(segment_id)
            for state in (DELETING, DELETED):
                await self._write(topic, self._update(topic, segment_id, state))
            del topic.segments[segment_id]

    async def _trash(self, topic: Topic, count: int) -> None:
        """Delete the oldest segments and keep their data, as `clean apply` does."""
        if (await self._still())["owner"] != Owner.TIERLEDGER:
            return
        going = [bytes(one) for one in [*topic.segments][:count]]
        async with self.manager(OBSERVER) as asked:
            known = {id_of_row(row): row for row in await asked.rows(topic.tip, LIST, STORAGE)}
        rows = tuple(known[one] for one in going)
        keep = cmd.Keep(UNTIL_RELEASED_MS, "it is in the way")
        command = cmd.EndSegments(Origin(OBSERVER, None), DELETING, rows, 7, keep)
        assert self._connection is not None, "it lives"
        await self._connection.coordinator.ask(CleanUp(topic.tip, command, "operator"))
        for segment_id, row in zip(going, rows, strict=True):
            del topic.segments[Uuid(segment_id)]
            topic.by_tierledger.discard(Uuid(segment_id))
            topic.trash[segment_id] = unpack_row(row)[START]

    def _update(
        self, topic: Topic, segment_id: Uuid, state: RemoteLogSegmentState
    ) -> RemoteLogSegmentMetadataUpdate:
        where = RemoteLogSegmentId(topic.tip, segment_id)
        return RemoteLogSegmentMetadataUpdate(where, 7, state, topic.leader)

    async def _write(self, topic: Topic, value: KafkaValue) -> str:
        """Write by the owner's manager, as the topic's leader; returns by which."""
        self.written += 1
        if not self._is_beside:
            return await self.brokers[topic.leader].write(topic, value)
        add_record(self.kafka, topic, value)
        return Owner.KAFKA

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
        catalog = self.catalog(self._operator)
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
        self.loop.kill(self.brokers.pop(broker_id).life)
        await asyncio.sleep(DEAD_S)
        self.unowned.add(broker_id)
        await asyncio.sleep(UNOWNED_S)
        await _refused(coordinator.ask(CONFIRM), f"brokers {broker_id} run without the plugin")
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
                deletion = self._write(topic, self._update(topic, segment_id, DELETING))
                await _refused(deletion, "deletions of finished segments")
            known = await self.known(topic, self.brokers[topic.leader].manager)
            self.lost("tierledger's manager", topic, topic.segments.keys() - known)
        await coordinator.ask(CONFIRM)
        await asyncio.sleep(SILENCE_S)

    async def _replace(self) -> None:
        """A broker dies for good; a new one takes its topics over."""
        gone = self._random.choice([*self.brokers])
        self.loop.kill(self.brokers.pop(gone).life)
        self._start_broker()
        await self._agreed()
        for topic in self.topics.values():
            if topic.leader == gone:
                topic.leader = self._random.choice([*self.brokers])
                topic.epoch += 1
        await self._announce([*self.topics.values()])
        await asyncio.sleep(SILENCE_S)

    async def _move(self, *, copies: bool = True, accepts_losses: bool = False) -> None:
        """Move the metadata to the other owner, which then knows all that is to be known.

        What only Kafka's topic said has to be imported first. `copies`: leaders go on copying.
        """
        assert self._connection is not None, "it lives"
        to = _other((await self._still())["owner"])
        self.tell(f"to {to}")
        move = LivingMove(self, self._connection, to, accepts_losses=accepts_losses)
        async with self._copying() if copies else nullcontext():
            await move.moved()
        self.moves += 1
        await self._agreed()
        await self._know_the_same()

    @asynccontextmanager
    async def _copying(self) -> AsyncIterator[None]:
        """Leaders copy segments during the block, and end what they have begun."""
        ends, random = asyncio.Event(), Random(self._random.random())

        async def copy() -> None:
            while not ends.is_set():
                if topics := self.hosted:
                    await self._copy(random.choice(topics))
                await asyncio.sleep(random.uniform(0, COPY_S))

        copying = asyncio.ensure_future(copy())
        try:
            yield
        finally:
            ends.set()
            await copying

    async def _know_the_same(self) -> None:
        """Return once both managers know of each topic what its life has left."""
        until = self.loop.time() + AGREED_S
        async with self.manager(OBSERVER) as asked:
            for topic in self.ever:
                while True:
                    by = {
                        "tierledger's manager": await self.known(topic, asked),
                        "Kafka's manager": self.known_by_kafka(topic),
                    }
                    wrong = {name: one ^ topic.segments.keys() for name, one in by.items()}
                    if not any(wrong.values()) or self.loop.time() >= until:
                        break
                    await asyncio.sleep(1)
                for name, some in wrong.items():
                    self.lost(name, topic, some & topic.segments.keys())
                    if some - topic.segments.keys():
                        raise LifeEnded("back_again", f"{name} knows {some} of {topic.tip}")
                await self._keeps_its_trash(topic)

    async def _keeps_its_trash(self, topic: Topic) -> None:
        """The owner may have changed: what is kept stays in the ledger as it was."""
        if topic.trash:
            reader: PartitionReader = self.catalog(self._operator).reader(topic.tip)
            kept = (await reader.state()).state.kept
            found = {id_of_row(one.row): unpack_row(one.row)[START] for _, one in kept.all()}
            for segment_id, start in topic.trash.items():
                if found.get(segment_id) != start:
                    where = f"{topic.tip}: {Uuid(segment_id)} from offset {start}"
                    raise LifeEnded("needless_loss", f"{where} is not in the trash any more")

    async def _command(self, to: Owner) -> Owned:
        connection = await self.service.connect(self.settings)
        return await LivingMove(self, connection, to, accepts_losses=False).moved()

    async def _move_with(self, trouble: What) -> None:
        """Try to move the metadata; returns once somebody owns it, after that trouble.

        The leaders of a cluster that moves to tierledger go on if one of them is cut off.
        """
        owner = (await self._still())["owner"]
        to = _other(owner)
        goes_on = owner == Owner.KAFKA and trouble is What.CUT_OFF_BROKER
        async with self._copying() if goes_on else nullcontext():
            command = self._new_life("operator")
            moving = self.loop.spawn(command, self._command(to))
            await self._until(lambda: self._owner == Owner.MOVING or moving.done())
            await asyncio.sleep(self._random.uniform(0, TROUBLE_S))
            self.tell(f"{trouble.value}, on its way to {to}")
            self._trouble(trouble, command)
            if not command.is_dead:
                with suppress(RemoteStorageError):
                    await moving
            await self._owned()
            await self._agreed()

    def _trouble(self, what: What, command: VirtualProcess) -> None:
        loop = self.loop
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
                loop.kill(broker.life)
                self._start_broker(broker.broker_id)
            case What.CUT_OFF_BROKER:
                until = loop.clock.now + int(self._random.uniform(1, CUT_OFF_S) * S)
                site = broker.life.site
                for other in sorted({one.site for one in self.lives} - {site}):
                    self.wires.cut((site, other), until)
                    self.wires.cut((other, site), until)
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
        raise LifeEnded("liveness", f"the follower does not stand still: {status['kafka']}")

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

    def _new_life(self, site: str) -> VirtualProcess:
        life = VirtualProcess(site, len(self.lives))
        self.begins(life)
        return life

    def _start_broker(self, broker_id: int | None = None) -> None:
        """Start a new broker, or that one anew."""
        number = len(self.lives) if broker_id is None else broker_id
        life = self._new_life(f"broker-{number}")
        random = Random(f"life {self.scenario.seed} of {life.name}")
        broker = self.brokers[number] = LivingBroker(self, number, life, random)
        self._keep(life, broker.run)

    def _start_following(self) -> None:
        life = self._serving = self._new_life("serve")
        self._followed = self.loop.spawn(life, LivingFollowing(self, life).run())

    async def _stop_following(self) -> None:
        assert self._followed is not None, "it was started"
        self._followed.cancel()
        await asyncio.gather(self._followed, return_exceptions=True)

    def _keep(self, life: VirtualProcess, run: Callable[[], Awaitable[None]]) -> None:
        """Run a process again whenever the service was away."""

        async def keep() -> None:
            while True:
                with suppress(RemoteStorageError):
                    await run()
                await asyncio.sleep(1)

        self.loop.spawn(life, keep())


async def _refused(call: Awaitable[object], why: str) -> None:
    """Raise an error unless `call` is refused for that reason."""
    try:
        await call
    except RejectedError as error:
        if why in str(error):
            return
        raise
    raise LifeEnded("unrefused", f"expected a refusal: {why}")


def _other(owner: str) -> Owner:
    return Owner.KAFKA if owner == Owner.TIERLEDGER else Owner.TIERLEDGER
