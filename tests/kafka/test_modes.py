"""Plugins with Kafka's own manager inside: by the owner, in shadow, and on the move."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import (  # type: ignore[import-untyped] # It has no types.
    AIOKafkaConsumer,
    TopicPartition,
)

from tests.models.actors.local_world import LocalWorld, sqlite_in
from tests.models.actors.published import publish, settings_of
from tests.models.kafka.clients import WAIT_S
from tests.models.kafka.ownership_door import OwnershipDoor
from tests.models.kafka.plugins import TOPIC, TOPIC_ID, Plugins, started
from tests.models.ray.brokers import Brokers
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.requests import DoorsCall, FollowCall, StatusCall
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.wall_clock import WallClock
from tierledger.benchmarks.kafka_broker import CLUSTER_ID, JARS, OLDEST, KafkaBroker
from tierledger.events.commands import ImportedRecord
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.kafka.codec import decode
from tierledger.events.metadata import RemoteLogSegmentMetadataSnapshot
from tierledger.moving.following import Following, FollowOptions
from tierledger.storage.kafka_brokers import KafkaBrokers

METADATA = "__remote_log_metadata"
METADATA_PARTITIONS = 2
CLIENTS = "remote.log.metadata.common.client.bootstrap.servers"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(OLDEST, marks=pytest.mark.long, id="3.9"),
        pytest.param(JARS, id="newest"),
    ],
)
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    with KafkaBroker(jars=request.param) as broker:
        yield broker


@pytest.fixture
def plugins(broker: KafkaBroker) -> Iterator[Plugins]:
    with started(broker.jars) as plugins:
        yield plugins


async def opened(
    broker: KafkaBroker, plugins: Plugins, doors: str, mode: str, logs: Path, **more: object
) -> None:
    """Open the plugin of broker 1 in that mode, with that log folder."""
    kafka = {
        CLIENTS: broker.address,
        "remote.log.metadata.topic.replication.factor": 1,
        "remote.log.metadata.topic.num.partitions": METADATA_PARTITIONS,
        "log.dir": logs,
        "tierledger.mode": mode,
        **more,
    }
    assert await plugins.open(1, CLUSTER_ID, doors, **kafka) == "done"


async def test_handover_goes_by_the_owner(
    broker: KafkaBroker, plugins: Plugins, tmp_path: Path
) -> None:
    ask = plugins.ask
    async with OwnershipDoor(CLUSTER_ID) as door:
        await opened(broker, plugins, door.address, "handover", tmp_path)
        await ask("1 lead 1")
        heard = await door.attended(0)
        assert (heard.broker_id, heard.mode, heard.is_idle) == (1, pb.MODE_HANDOVER, True)
        assert await ask("1 is-ready 1") == "false"
        assert await ask("1 lookup 1 5") == "ReplicaNotAvailableException"
        assert await ask("1 add 1 0") == "ReplicaNotAvailableException"

        await door.change_owner("kafka")
        assert await ask("1 found 1 5") == "none"
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 add 1 0") == "done"
        assert not (await door.attended(1)).is_idle

        # Reads go on; what is refused now is asked for again, but not what costs an upload.
        await door.change_owner("moving", "kafka", "tierledger")
        await door.attended(2, is_idle=True)
        assert await ask("1 add 1 1") == "ReplicaNotAvailableException"
        assert await ask("1 lookup 1 5") == "none"
        finished = asyncio.create_task(ask("1 move 1 0 COPY_SEGMENT_FINISHED"))
        await door.attended(2, is_idle=True)
        await door.attended(2, is_idle=True)
        assert not finished.done()

        await door.change_owner("kafka")
        assert await finished == "done"
        assert await ask("1 lookup 1 5") == "0:COPY_SEGMENT_FINISHED"

        # The ledger, which has nobody behind it here, is asked from now on.
        await door.change_owner("tierledger")
        assert await ask("1 is-ready 1") == "false"
        assert await ask("1 lookup 1 5") == "ReplicaNotAvailableException"
        assert door.registered[0].mode == pb.MODE_HANDOVER
    assert await ask("1 close") == "done"
    assert await ask("1 threads") == "none"


async def test_a_broker_that_restarts_without_the_service_remembers_the_owner(
    broker: KafkaBroker, plugins: Plugins, tmp_path: Path
) -> None:
    ask = plugins.ask
    async with OwnershipDoor(CLUSTER_ID) as door:
        await opened(broker, plugins, door.address, "handover", tmp_path)
        await ask("1 lead 5")
        await door.change_owner("kafka")
        # Before 4.0 nobody can ask whether Kafka's manager is ready; it refuses until it is.
        assert await ask("1 found 5 5") == "none"
        assert await ask("1 ready 5") == "ready"
        assert await ask("1 add 5 0") == "done"
        assert await ask("1 move 5 0 COPY_SEGMENT_FINISHED") == "done"
        assert await ask("1 close") == "done"

    # Kafka's manager may not be the owner any more: only what it finds is sure.
    await opened(broker, plugins, "127.0.0.1:1", "handover", tmp_path)
    await ask("1 lead 5")
    assert await ask("1 found 5 5") == "0:COPY_SEGMENT_FINISHED"
    assert await ask("1 is-ready 5") == "false"
    for question in ("lookup 5 15", "list 5", "highest 5", "add 5 1"):
        assert await ask(f"1 {question}") == "ReplicaNotAvailableException"
    assert "as in its last run" in await ask("1 metric Decision")
    assert await ask("1 close") == "done"

    async with OwnershipDoor(CLUSTER_ID) as door:
        await opened(broker, plugins, door.address, "handover", tmp_path)
        # This ledger never had an owner, so it is another.
        while "nobody, owner epoch 0" not in await ask("1 metric Decision"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await door.change_owner("kafka")
        await ask("1 lead 5")
        assert await ask("1 found 5 5") == "0:COPY_SEGMENT_FINISHED"
        assert await ask("1 ready 5") == "ready"
        assert await ask("1 list 5") == "0"
        assert await ask("1 close") == "done"


class Cluster:
    """A service of a Kafka cluster's metadata, and who imports what Kafka's manager writes."""

    def __init__(self, world: LocalWorld, broker: KafkaBroker) -> None:
        self._settings = settings_of(world)
        self._brokers = Brokers(self._settings)
        self._broker = broker
        self.coordinator = world.service.coordinator

    async def doors(self) -> str:
        return ",".join((await self.coordinator.ask(DoorsCall())).values())

    async def hand_over(self, to: Owner, of: Owner, **more: Any) -> int:  # noqa: ANN401 - See Handover.
        """The new owner epoch, once the plugin follows it, idle if it moves."""
        owner_epoch = await self.hand_over_at_once(to, of, **more)
        await self.until(
            "attending",
            lambda one: (
                one["owner_epoch"] == owner_epoch and one["is_idle"] >= (to == Owner.MOVING)
            ),
        )
        return owner_epoch

    async def hand_over_at_once(self, to: Owner, of: Owner, **more: Any) -> int:  # noqa: ANN401
        wish = Handover(to, of, **more)
        return (await self.coordinator.ask(wish)).owner_epoch

    async def stays_busy(self, owner_epoch: int) -> None:
        """The plugin attends again and again in that owner epoch, and is never idle."""
        await self.until("attending", lambda one: one["owner_epoch"] == owner_epoch)
        for _ in range(4):
            await self.until("attending", lambda one: one["heard_ms_ago"] > 100)
            report = await self.until("attending", lambda one: one["heard_ms_ago"] <= 100)
            assert (report["owner_epoch"], report["is_idle"]) == (owner_epoch, False)

    @asynccontextmanager
    async def mirrored(self) -> AsyncIterator[None]:
        """The logs are mirrored into Kafka's topic meanwhile."""
        options = FollowOptions(KafkaBrokers(self._broker.address), mirror=True)
        task = asyncio.create_task(Following(self._settings, self.coordinator, options).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def importing(self) -> AsyncIterator[None]:
        """A follower reports meanwhile that it finishes rounds of the import."""

        async def report() -> None:
            said = {"follower": token_hex(4), "task": "import", "trouble": None}
            try:
                for number in count(1):
                    await self.coordinator.ask(FollowCall({**said, "round": number}))
                    await asyncio.sleep(0.1)
            finally:
                await self.coordinator.ask(FollowCall({**said, "leaves": True}))

        task = asyncio.create_task(report())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, what: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first entry of `what` in the status that `is_so`, once there is one."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for one in (await self.coordinator.ask(StatusCall()))[what]:
                    if is_so(one):
                        return dict(one)
                await asyncio.sleep(0.05)

    async def import_all(self, partition: int) -> None:
        """Import every record that the topic has of a partition."""
        tip = TopicIdPartition(TOPIC_ID, partition, TOPIC)
        if not self._brokers.managers:
            importer = await self._brokers.manager(1_000)
            await importer.announce_import({tip: 0}, [], CLUSTER_ID)
            await importer.when_ready([tip])
        await self._brokers.managers[0].import_records(tip, await self._records(tip))

    async def segments(self, partition: int, start: int) -> tuple[bytes, ...]:
        """The ids of the segments that tierledger knows from an offset on."""
        tip = TopicIdPartition(TOPIC_ID, partition, TOPIC)
        return tuple(
            [
                bytes(one.remote_log_segment_id.id)
                async for one in self._brokers.managers[0].list_remote_log_segments(tip)
                if one.start_offset >= start
            ]
        )

    async def _records(self, tip: TopicIdPartition) -> list[ImportedRecord]:
        records = []
        partitions = [TopicPartition(METADATA, one) for one in range(METADATA_PARTITIONS)]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._broker.address, auto_offset_reset="earliest"
        )
        async with consumer, asyncio.timeout(WAIT_S):
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for one in partitions:
                while await consumer.position(one) < ends[one]:
                    found = await consumer.getone(one)
                    record = decode(found.value)
                    assert not isinstance(record.value, RemoteLogSegmentMetadataSnapshot)
                    if record.value.topic_id_partition == tip:
                        where = (one.partition, found.offset, found.timestamp)
                        records.append(ImportedRecord(*where, record))
        return records

    async def close(self) -> None:
        for manager in self._brokers.managers:
            await manager.close()


@pytest_asyncio.fixture
async def cluster(broker: KafkaBroker, tmp_path: Path) -> AsyncIterator[Cluster]:
    store = sqlite_in(tmp_path)
    world = LocalWorld(store, clock=WallClock(), door=True, cluster=CLUSTER_ID)
    async with world:
        await publish(world)
        cluster = Cluster(world, broker)
        yield cluster
        await cluster.close()


async def test_a_broker_goes_over_to_tierledger_with_what_it_had_begun(
    broker: KafkaBroker, plugins: Plugins, cluster: Cluster, tmp_path: Path
) -> None:
    ask = plugins.ask
    await opened(broker, plugins, await cluster.doors(), "handover", tmp_path)
    await ask("1 lead 0")
    await cluster.hand_over(Owner.KAFKA, Owner.NOBODY)
    assert await ask("1 found 0 5") == "none"
    assert await ask("1 copy 0 2") == "done"
    assert await ask("1 add 0 2") == "done"

    move = {"heading": Owner.TIERLEDGER, "give_up_after_ms": 60_000}
    owner_epoch = await cluster.hand_over(Owner.MOVING, Owner.KAFKA, **move)
    finished = asyncio.create_task(ask("1 move 0 2 COPY_SEGMENT_FINISHED"))
    await cluster.import_all(0)
    assert not finished.done()
    await cluster.hand_over(Owner.TIERLEDGER, Owner.MOVING, owner_epoch=owner_epoch)
    assert await finished == "done"
    assert await ask("1 ready 0") == "ready"
    assert await ask("1 list 0") == "0,10,20"
    assert await ask("1 lookup 0 25") == "20:COPY_SEGMENT_FINISHED"
    assert await ask("1 copy 0 1") == "done"

    # On the way back nothing is lost either, if it comes to nothing: Kafka's own manager does
    # not know of the last segment, so this broker is not idle.
    move = {"heading": Owner.KAFKA, "give_up_after_ms": 60_000}
    owner_epoch = await cluster.hand_over_at_once(Owner.MOVING, Owner.TIERLEDGER, **move)
    await cluster.stays_busy(owner_epoch)
    assert await ask("1 add 0 5") == "ReplicaNotAvailableException"
    assert await ask("1 highest 0") == "39"

    # Of the segments that differ all have to be accepted.
    differing = await cluster.segments(0, start=20)
    assert len(differing) == 2
    again = {"owner_epoch": owner_epoch, "accepted": differing[:1], **move}
    owner_epoch = await cluster.hand_over_at_once(Owner.MOVING, Owner.MOVING, **again)
    await cluster.stays_busy(owner_epoch)
    again = {"owner_epoch": owner_epoch, "accepted": differing, **move}
    owner_epoch = await cluster.hand_over(Owner.MOVING, Owner.MOVING, **again)

    await cluster.hand_over(Owner.TIERLEDGER, Owner.MOVING, owner_epoch=owner_epoch)
    assert await ask("1 highest 0") == "39"
    assert await ask("1 copy 0 1") == "done"

    # Once it does, the broker is idle in each of the move's owner epochs, and then goes by
    # Kafka's own manager.
    known = await ask("1 list 0")
    async with cluster.mirrored():
        owner_epoch = await cluster.hand_over(Owner.MOVING, Owner.TIERLEDGER, **move)
        owner_epoch = await cluster.hand_over(
            Owner.MOVING, Owner.MOVING, owner_epoch=owner_epoch, **move
        )
    await cluster.hand_over(Owner.KAFKA, Owner.MOVING, owner_epoch=owner_epoch)
    assert await ask("1 list 0") == known
    assert await ask("1 highest 0") == "49"
    assert await ask("1 close") == "done"
    assert await ask("1 threads") == "none"


async def test_shadow_answers_as_kafka_does_and_tells_what_the_ledger_lacks(
    broker: KafkaBroker, plugins: Plugins, cluster: Cluster, tmp_path: Path
) -> None:
    ask = plugins.ask
    await opened(broker, plugins, await cluster.doors(), "shadow", tmp_path)
    await ask("1 lead 2")
    await cluster.hand_over(Owner.KAFKA, Owner.NOBODY)
    async with cluster.importing():
        assert await ask("1 found 2 5") == "none"
        await copied(ask, 2, 0)
        # Of what was not taken over at all yet nothing differs.
        assert await ask("1 lookup 2 5") == "0:COPY_SEGMENT_FINISHED"
        report = await cluster.until("shadows", lambda one: one["skipped"] > 0)
        assert report["different"] == 0
        await cluster.import_all(2)
        equal = report["equal"]
        for question in ("lookup 2 5", "list 2", "highest 2"):
            assert await ask(f"1 {question}") in {"0:COPY_SEGMENT_FINISHED", "0", "9"}
            report = await cluster.until("shadows", lambda one: one["equal"] > equal)  # noqa: B023
            equal = report["equal"]
            assert report["different"] == 0
        assert (report["verification"], report["verified"]) == ("verified", report["equal"])

        await copied(ask, 2, 1)
        assert await ask("1 lookup 2 15") == "10:COPY_SEGMENT_FINISHED"
        report = await cluster.until("shadows", lambda one: one["different"] > 0)
        (difference,) = report["differences"]
        assert (difference["kind"], difference["offset"]) == ("lookup", 15)
        assert len(difference["kafka"]) == 1
        assert not difference["replica"]
        assert (report["standing"], report["verification"]) == (1, "differs")

        # Once it is imported the plugin finds by itself that nothing differs any more.
        await cluster.import_all(2)
        report = await cluster.until("shadows", lambda one: one["resolved"] > 0)
        assert (report["standing"], report["different"], report["differences"]) == (0, 1, [])
        assert report["verification"] == "verified"
    assert await ask("1 metric ShadowDifferent") == "1"
    assert await ask("1 metric ShadowStanding") == "0"
    assert await ask("1 close") == "done"
    assert await ask("1 threads") == "none"


async def test_shadow_compares_nothing_while_the_import_stands_still(
    broker: KafkaBroker, plugins: Plugins, cluster: Cluster, tmp_path: Path
) -> None:
    ask = plugins.ask
    await opened(broker, plugins, await cluster.doors(), "shadow", tmp_path)
    await ask("1 lead 6")
    await cluster.hand_over(Owner.KAFKA, Owner.NOBODY)
    assert await ask("1 found 6 5") == "none"
    await copied(ask, 6, 0)
    await cluster.import_all(6)
    async with cluster.importing():
        await asked_until(ask, cluster, "lookup 6 5", "equal")
    await asked_until(ask, cluster, "lookup 6 5", "skipped")
    await copied(ask, 6, 1)
    for _ in range(2):
        await asked_until(ask, cluster, "lookup 6 15", "skipped")
    async with cluster.importing():
        # The import goes on, and is behind: one look says nothing yet.
        await cluster.import_all(6)
        report = await asked_until(ask, cluster, "lookup 6 15", "equal")
    assert (report["different"], report["standing"], report["resolved"]) == (0, 0, 0)
    assert await ask("1 close") == "done"


async def asked_until(
    ask: Callable[[str], Awaitable[str]], cluster: Cluster, question: str, what: str
) -> dict[str, Any]:
    """Ask until that count has grown, and no other has."""
    found = await cluster.until("shadows", bool)
    async with asyncio.timeout(WAIT_S):
        while True:
            before = found
            assert await ask(f"1 {question}") != "none"
            found = await cluster.until(
                "shadows",
                lambda one: one["equal"] + one["skipped"] > before["equal"] + before["skipped"],  # noqa: B023
            )
            if found[what] > before[what]:
                return found


async def test_shadow_compares_what_the_replica_has_and_asks_nobody(
    broker: KafkaBroker, plugins: Plugins, cluster: Cluster, tmp_path: Path
) -> None:
    ask = plugins.ask
    no_room = {"tierledger.replica.max.bytes": 1}
    await opened(broker, plugins, await cluster.doors(), "shadow", tmp_path, **no_room)
    await ask("1 lead 3")
    await cluster.hand_over(Owner.KAFKA, Owner.NOBODY)
    assert await ask("1 found 3 5") == "none"
    await copied(ask, 3, 0)
    await cluster.import_all(3)
    while await ask("1 metric PartitionsOver") != "1":  # noqa: ASYNC110 - It has none.
        await asyncio.sleep(0.01)
    skipped = int(await ask("1 metric ShadowSkipped"))
    assert await ask("1 lookup 3 5") == "0:COPY_SEGMENT_FINISHED"
    await cluster.until("shadows", lambda one: one["skipped"] > skipped)
    assert await ask("1 metric Questions") == "0"
    assert await ask("1 close") == "done"


async def copied(ask: Callable[[str], Awaitable[str]], partition: int, number: int) -> None:
    """Kafka's own manager knows of another segment of that partition, and nothing was asked."""
    assert await ask(f"1 add {partition} {number}") == "done"
    assert await ask(f"1 move {partition} {number} COPY_SEGMENT_FINISHED") == "done"
