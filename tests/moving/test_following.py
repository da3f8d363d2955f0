"""Records of Kafka's metadata topic are imported, changes of our logs mirrored into it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typing_extensions import override

from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import (
    CLUSTER,
    DELETED,
    DELETING,
    FINISHED,
    KEYS,
    LocalWorld,
    eventually,
    hasty,
    lead,
    moved,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors.calls import CountsCall
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.no_brokers import IMPORTER
from tierledger.events.commands import LeaderVerdict
from tierledger.events.errors import FormatTooNew, StorageUnavailable
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaValue, UnknownTags, decode, encode
from tierledger.events.kafka.metadata_partition import metadata_partition
from tierledger.events.kafka.seal import is_seal
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.log_events import ImportRecordDropped, SegmentAdded
from tierledger.events.metadata import (
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
)
from tierledger.moving.comparison import Comparison
from tierledger.moving.importing import TailImport
from tierledger.moving.mirroring import MIRROR, Mirror
from tierledger.moving.topic import MirroredFrom
from tierledger.simulation.lives.fake_topic import PARTITIONS, FakeReader, FakeTopic
from tierledger.storage.catalog import Catalog
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.storage.partition.forgetting import forget
from tierledger.storage.partition.reader import PartitionReader

ORDERS, OTHERS = partition(0), partition(1)


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        yield world


@pytest.fixture
def topic() -> FakeTopic:
    return FakeTopic()


def append(topic: FakeTopic, *values: KafkaValue, partition: int = 0) -> None:
    for value in values:
        topic.add(encode(value), partition)


def copied(number: int, tip: TopicIdPartition = ORDERS) -> tuple[KafkaValue, KafkaValue]:
    added = segment(number, tip)
    return added, moved(added)


async def tail_of(world: LocalWorld, topic: FakeTopic) -> TailImport:
    return TailImport(await world.broker(IMPORTER), FakeReader(topic), CLUSTER)


async def starts(world: LocalWorld, tip: TopicIdPartition = ORDERS) -> list[int]:
    """The segments that were added to a log."""
    bodies = [event.body for event in await world.events(tip)]
    return [body.start_offset for body in bodies if isinstance(body, SegmentAdded)]


async def differences(world: LocalWorld, topic: FakeTopic) -> list[str]:
    comparison = Comparison(await world.broker(9), FakeReader(topic))
    found = await comparison.differences(await comparison.read())
    return [str(one) for one in found]


# The import.


async def test_what_comes_is_taken_over_and_a_new_beginning_repeats_nothing(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), *copied(0, OTHERS))
    tail = await tail_of(world, topic)
    await tail.round()
    append(topic, *copied(1))
    await tail.round()
    again = await tail_of(world, topic)
    await again.round()

    assert await starts(world) == [0, 10]
    assert await starts(world, OTHERS) == [0]
    assert await differences(world, topic) == []


async def test_a_topic_that_was_made_anew_is_taken_for_the_one_before(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0))
    await (await tail_of(world, topic)).round()
    anew = FakeTopic()
    append(anew, *copied(1))
    await (await tail_of(world, anew)).round()

    assert await starts(world) == [0]
    assert len(await differences(world, anew)) > 0


class KafkaNames:
    """Kafka, by which one broker leads everything."""

    def __init__(self, broker_id: int) -> None:
        self._named = LeaderVerdict(broker_id, 1)

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        return [self._named] * len(partitions)


async def test_a_broker_that_gives_the_lead_up_late_does_not_stop_the_import(
    tmp_path: Path, topic: FakeTopic
) -> None:
    append(topic, *copied(0))
    async with LocalWorld(sqlite_in(tmp_path), oracle=KafkaNames(1)) as world:
        broker = await world.broker(1)
        await broker.on_partition_leadership_changes([ORDERS], [], leader_epochs={ORDERS: 1})
        await broker.when_ready([ORDERS])
        tail = await tail_of(world, topic)
        importing = asyncio.create_task(tail.round())
        await eventually(partial(refused_claim, world))

        await broker.on_partition_leadership_changes([], [ORDERS])
        await importing

        assert tail.trouble is None
        assert await starts(world) == [0]


async def refused_claim(world: LocalWorld) -> bool:
    """Whether a claim was refused because Kafka names another broker."""
    return bool(await world.alarms())


async def test_records_that_cannot_be_read_are_named_and_the_others_go_on(
    world: LocalWorld, topic: FakeTopic
) -> None:
    added = segment(0)
    topic.add(None)
    topic.add(b"\x00garbage")
    snapshot = RemoteLogSegmentMetadataSnapshot(
        Uuid(bytes(16)), 0, 1, 1, 1, 1, 1, added.state, {0: 0}
    )
    append(topic, snapshot, *copied(0))

    tail = await tail_of(world, topic)
    await tail.round()
    await tail.round()

    # A null value only says that a compacted topic has forgotten a key.
    assert [one.offset for one in tail.refused] == [1, 2]
    assert tail.trouble is None
    assert await starts(world) == [0]


NEWER = {
    "a version": lambda value: value[:2] + b"\1" + value[3:],
    "an api key": lambda value: value[:1] + b"\4" + value[2:],
    "a frame": lambda value: b"\2" + value[1:],
}


@pytest.mark.parametrize("what", NEWER)
async def test_a_record_of_a_newer_kafka_is_trouble_since_it_may_be_a_segment(
    world: LocalWorld, topic: FakeTopic, what: str
) -> None:
    added, update = copied(0)
    append(topic, *copied(1))
    topic.add(NEWER[what](encode(added)))
    append(topic, update)

    tail = await tail_of(world, topic)
    await tail.round()
    await tail.round()

    assert await starts(world) == [10]  # What comes before and behind goes on.
    expected = "1 records are not imported, metadata partition 0, offset 2: position"
    assert str(tail.trouble).startswith(expected)
    assert "a newer Kafka wrote it" in str(tail.trouble)
    with pytest.raises(FormatTooNew, match="offset 2: position"):
        await differences(world, topic)


async def test_a_compacted_topic_is_imported_and_compared_as_far_as_it_goes(
    world: LocalWorld, topic: FakeTopic
) -> None:
    tags = UnknownTags(record=((7, b"to come"),))
    added, update = copied(0)
    topic.add(encode(added, tags))
    topic.add(encode(update, tags))
    append(topic, *copied(1), *copied(2))  # Of 1 only the update is left, of 2 nothing.
    topic.compacted = {(0, 2), (0, 4), (0, 5)}
    topic.add(None)
    append(topic, *copied(3), *copied(0, OTHERS))

    tail = await tail_of(world, topic)
    await tail.round()

    assert (tail.trouble, tail.refused) == (None, [])
    assert await starts(world) == [0, 30]
    assert await starts(world, OTHERS) == [0]
    assert await differences(world, topic) == []


async def test_a_partition_that_cannot_be_written_stops_no_other_and_is_taken_over_later(
    world: LocalWorld, topic: FakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(topic, *copied(0), *copied(0, OTHERS))
    tail = await tail_of(world, topic)
    real = AsyncRemoteLogMetadataManager.import_records

    async def failing(self: Any, tip: Any, records: Any) -> int:  # noqa: ANN401
        if tip == ORDERS:
            raise StorageUnavailable("the store is away")
        return await real(self, tip, records)

    with monkeypatch.context() as patch:
        patch.setattr(AsyncRemoteLogMetadataManager, "import_records", failing)
        await tail.round()
    assert await starts(world, OTHERS) == [0]
    assert "orders-0: the store is away" in str(tail.trouble)
    assert tail.lag == 4  # From the first record of the partition on.

    append(topic, *copied(1))
    await tail.round()

    assert (tail.trouble, tail.lag) == (None, 0)
    assert await starts(world) == [0, 10]
    assert await differences(world, topic) == []


async def test_what_kafka_drops_has_no_effect_here_either(
    world: LocalWorld, topic: FakeTopic
) -> None:
    unknown = moved(segment(7))
    append(topic, unknown, *copied(0), moved(segment(0), DELETED))

    await (await tail_of(world, topic)).round()

    bodies = [event.body for event in await world.events(ORDERS)]
    assert sum(isinstance(body, ImportRecordDropped) for body in bodies) == 2
    assert await differences(world, topic) == []


async def test_a_partition_whose_deletion_is_finished_is_passed_over(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0))
    for state in RemotePartitionDeleteState:
        append(topic, RemotePartitionDeleteMetadata(ORDERS, state, 5, 1))
    await (await tail_of(world, topic)).round()
    append(topic, *copied(0, OTHERS))
    again = await tail_of(world, topic)
    await again.round()

    assert again.trouble is None
    assert await starts(world, OTHERS) == [0]
    assert await differences(world, topic) == []


async def test_what_was_mirrored_is_not_imported(world: LocalWorld, topic: FakeTopic) -> None:
    topic.add(encode(segment(0)), mirrored=MirroredFrom.of(ORDERS, 1))
    append(topic, *copied(1))

    await (await tail_of(world, topic)).round()

    assert await starts(world) == [10]


# The mirror.


@asynccontextmanager
async def mirror_of(world: LocalWorld, topic: FakeTopic) -> AsyncIterator[Mirror]:
    settings = ServiceSettings(CLUSTER, world.storage)
    connector = settings.connector()
    backend = await connector.backend(read_only=True)
    keys = connector.key_factory(CLUSTER)
    catalog = Catalog(backend, keys, settings.serde(), CLUSTER)
    try:
        yield Mirror(catalog, FakeReader(topic), topic, KafkaBrokers("nobody:9092"))
    finally:
        await backend.close()


async def test_own_events_are_mirrored_in_order_once_and_imported_ones_never(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0))
    tail = await tail_of(world, topic)
    await tail.round()
    await tail.release()
    broker = await world.leader(ORDERS, OTHERS)
    for number, tip in enumerate((ORDERS, OTHERS), 1):
        await broker.add_remote_log_segment_metadata(segment(number, tip))
        await broker.update_remote_log_segment_metadata(moved(segment(number, tip)))

    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        await mirror.round()
        await broker.update_remote_log_segment_metadata(moved(segment(0), DELETING))
        await mirror.round()
        assert (mirror.mirrored, mirror.trouble) == (5, None)
    await broker.update_remote_log_segment_metadata(moved(segment(0), DELETED))
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        assert (mirror.mirrored, mirror.trouble) == (1, None), "the topic says how far it is"

    assert await differences(world, topic) == []
    named = {decode(one).value.topic_id_partition.topic for one in topic.values()}  # type: ignore[union-attr] # No snapshots.
    assert named == {"orders", MIRROR}, "and the fences"
    # A compacted topic takes no record without a key, and keeps the last one of each.
    assert len(set(topic.keys)) == len(topic.keys)


class LateTopic(FakeTopic):
    """An earlier mirror has written `late` just before it is fenced."""

    late: tuple[bytes, MirroredFrom] | None = None

    @override
    async def send(self, *given: Any, **named: Any) -> asyncio.Future[None]:
        fence = MirroredFrom.parse(named["headers"][0][1]).is_fence
        assert fence or self.records[named["partition"]], "the first is a fence"
        if fence and self.late is not None:
            self.add(self.late[0], named["partition"], self.late[1])
        return await super().send(*given, **named)


async def test_what_an_earlier_mirror_writes_before_it_is_fenced_is_not_written_again(
    world: LocalWorld,
) -> None:
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(1))
    await broker.update_remote_log_segment_metadata(moved(segment(1)))
    topic = LateTopic()
    topic.late = (encode(segment(1)), MirroredFrom.of(ORDERS, 1))

    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        await mirror.round()
        assert mirror.mirrored == 1

    found = [one.mirrored for some in topic.records.values() for one in some]
    assert [one.position for one in found if one and not one.is_fence] == [1, 2]


async def test_a_log_that_was_forgotten_is_mirrored_from_its_boundary_on(
    world: LocalWorld, topic: FakeTopic
) -> None:
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(0))
    for state in (FINISHED, DELETING, DELETED):
        await broker.update_remote_log_segment_metadata(moved(segment(0), state))
    backend = world.service._backend
    assert backend is not None
    log = PartitionReader(backend, KEYS, SERDE, CLUSTER, ORDERS)

    async def is_closed() -> bool:
        return not (await log.state()).state.is_open

    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        await broker.on_partition_leadership_changes([], [ORDERS])
        await eventually(is_closed)
        await mirror.round()
        await forget(log)
        await mirror.round()
        assert mirror.trouble is None
        await lead(broker, ORDERS)
        await broker.add_remote_log_segment_metadata(segment(1))
        await mirror.round()
        assert (mirror.mirrored, mirror.trouble) == (5, None)


async def test_what_was_removed_and_forgotten_before_the_mirror_saw_it_goes_from_the_topic(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), *copied(0, OTHERS))
    await imported(world, topic)
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(1))
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
    for number in (0, 1):
        for state in (DELETING, DELETED):
            await broker.update_remote_log_segment_metadata(moved(segment(number), state))
    await released(world, broker, ORDERS)
    backend = world.service._backend
    assert backend is not None
    await forget(PartitionReader(backend, KEYS, SERDE, CLUSTER, ORDERS))
    assert len(await differences(world, topic)) == 2
    await lead(broker, ORDERS)
    await broker.add_remote_log_segment_metadata(segment(2))

    for _ in range(2):
        async with mirror_of(world, topic) as mirror:
            await mirror.round()
            written = len(topic.values())
            await mirror.round()
            assert (len(topic.values()), mirror.trouble) == (written, None)
        assert await differences(world, topic) == []
    assert len(set(topic.keys)) == len(topic.keys)


async def test_what_others_tiered_stays_when_the_log_that_lacks_it_was_forgotten_before(
    world: LocalWorld, topic: FakeTopic
) -> None:
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(0))
    for state in (FINISHED, DELETING, DELETED):
        await broker.update_remote_log_segment_metadata(moved(segment(0), state))
    await released(world, broker, ORDERS)
    backend = world.service._backend
    assert backend is not None
    await forget(PartitionReader(backend, KEYS, SERDE, CLUSTER, ORDERS))
    at = metadata_partition(ORDERS.topic_id, 0, partition_count=PARTITIONS)
    append(topic, *copied(1), partition=at)

    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        await mirror.round()
        assert (mirror.mirrored, mirror.foreign.plain()["foreign_tiered"]) == (0, 1)

    assert len(topic.values()) == 2


async def test_who_writes_the_topic_beside_the_mirror_is_noticed_again_after_each_restart(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), *copied(1))
    await imported(world, topic)
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(2))
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        assert mirror.foreign.plain()["foreign"] == 0, "what was imported is none of them"
    append(topic, *copied(3), segment(4), moved(segment(4), DELETING))
    append(topic, moved(segment(4), DELETED), moved(segment(1), DELETING))
    place = metadata_partition(ORDERS.topic_id, 0, partition_count=PARTITIONS)
    topic.add(b"\x00garbage", place)

    for _ in range(2):
        async with mirror_of(world, topic) as mirror:
            await mirror.round()
            await mirror.round()
            assert (mirror.trouble, mirror.mirrored) == (None, 0)
            report = mirror.foreign.plain()
        (known,) = report["foreign_segments"]
        assert (known["topic"], known["start_offset"], known["state"]) == (
            "orders",
            30,
            "COPY_SEGMENT_FINISHED",
        )
        assert report["foreign"] == 7
        first = topic.records[0][4], topic.records[place][-1]
        assert report["foreign_since_ms"] == min(one.record.timestamp_ms for one in first)
        assert report["foreign_tiered"] == 1
        assert report["foreign_changed"] == 1
    assert await starts(world) == [0, 10, 20], "by tierledger nobody reads or deletes them"


async def test_what_kafka_writes_after_the_way_back_is_imported_behind_our_own(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0))
    tail = await tail_of(world, topic)
    await tail.round()
    await tail.release()
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(1))
    await broker.update_remote_log_segment_metadata(moved(segment(1)))
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        at = next(number for number, some in topic.records.items() if some[-1:] and some[-1][1])
        await broker.on_partition_leadership_changes([], [ORDERS])
        append(topic, moved(segment(1), DELETING), *copied(2), partition=at)

        again = await tail_of(world, topic)
        await again.round()
        assert again.trouble is None
        assert await starts(world) == [0, 10, 20]
        assert await differences(world, topic) == []
        written = len(topic.values())
        await mirror.round()
        assert len(topic.values()) == written, "what was imported is not mirrored"


async def test_who_wrote_the_topic_between_the_import_and_the_mirror_is_noticed(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0))
    await imported(world, topic)
    append(topic, segment(1))

    async with mirror_of(world, topic) as mirror:
        await mirror.round()

        assert mirror.foreign.plain()["foreign"] == 1


async def test_what_others_wrote_is_taken_over_by_the_import_of_the_way_back(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), *copied(1))
    await imported(world, topic)
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(2))
    await broker.update_remote_log_segment_metadata(moved(segment(2)))
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        append(topic, *copied(3), moved(segment(1), DELETING), moved(segment(1), DELETED))
        await broker.add_remote_log_segment_metadata(segment(4))
        await mirror.round()
        assert mirror.foreign.plain()["foreign"] == 4
    assert len(await differences(world, topic)) == 2
    await released(world, broker, ORDERS)

    await imported(world, topic)

    assert await starts(world) == [0, 10, 20, 40, 30]
    assert await differences(world, topic) == []
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        assert (mirror.mirrored, mirror.foreign.plain()["foreign"]) == (0, 0)


# The seal.


async def test_a_seal_is_neither_imported_nor_compared(
    world: LocalWorld, topic: FakeTopic
) -> None:
    topic.seal()
    append(topic, *copied(0))
    tail = await tail_of(world, topic)
    await tail.round()

    assert (tail.trouble, tail.refused) == (None, [])
    assert await differences(world, topic) == []


async def test_behind_a_seal_the_mirror_writes_everything_and_then_deletes_what_was_before(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), *copied(0, OTHERS))
    await imported(world, topic)
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(1))
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        assert mirror.mirrored == 1, "what was imported is there"
    topic.seal()
    await broker.update_remote_log_segment_metadata(moved(segment(1)))

    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        assert (mirror.mirrored, mirror.trouble) == (6, None), "imported events, too"
        assert not any(map(is_seal, topic.values()))
        await broker.update_remote_log_segment_metadata(moved(segment(0), DELETING))
        await mirror.round()
        assert mirror.mirrored == 7
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        assert (mirror.mirrored, mirror.trouble) == (0, None), "the topic says how far it is"
    assert await differences(world, topic) == []


async def test_a_mirror_that_ends_before_its_first_round_does_leaves_the_seal(
    world: LocalWorld, topic: FakeTopic
) -> None:
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(0))
    topic.seal()
    async with mirror_of(world, topic) as mirror:
        await mirror._read()
        tip, key = ORDERS, (bytes(ORDERS.topic_id), ORDERS.partition)
        await mirror._mirror(tip, key)
    assert sum(map(is_seal, topic.values())) == PARTITIONS
    await broker.update_remote_log_segment_metadata(moved(segment(0)))

    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        assert mirror.mirrored == 1, "what the first wrote stands behind the seal"
    assert not any(map(is_seal, topic.values()))
    assert await differences(world, topic) == []


async def test_a_mirror_begins_anew_when_the_topic_is_sealed_meanwhile(
    world: LocalWorld, topic: FakeTopic
) -> None:
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
        topic.seal()
        with pytest.raises(StorageUnavailable, match="was sealed while it was mirrored"):
            await mirror.round()
    assert sum(map(is_seal, topic.values())) == PARTITIONS


# The comparison.


DELETION = RemotePartitionDeleteMetadata(ORDERS, RemotePartitionDeleteState(0), 5, 1)
GONE: list[KafkaValue] = [
    segment(1),
    *(moved(segment(1), state) for state in (FINISHED, DELETING, DELETED)),
]
PLANTED: dict[str, list[KafkaValue]] = {
    "segment AAAAAAAAAAAAAAAAAAAAAQ": [segment(1)],
    "segment AAAAAAAAAAAAAAAAAAAAAA": [moved(segment(0), DELETING)],
    "highest offset of epoch 0": [*GONE],
    "deletion": [DELETION],
}
"""By the question that differs."""


@pytest.mark.parametrize("question", PLANTED)
async def test_what_only_the_topic_says_is_found(
    world: LocalWorld, topic: FakeTopic, question: str
) -> None:
    append(topic, *copied(0))
    await (await tail_of(world, topic)).round()
    assert await differences(world, topic) == []

    append(topic, *PLANTED[question])

    (found,) = await differences(world, topic)
    assert f"orders-0, {question}: by Kafka's metadata topic " in found


async def deleted(broker: AsyncRemoteLogMetadataManager, tip: TopicIdPartition) -> None:
    """Let the leader finish the partition's deletion, as a broker does when a topic goes."""
    for state in RemotePartitionDeleteState:
        deletion = RemotePartitionDeleteMetadata(tip, state, 5, 1)
        await broker.put_remote_partition_delete_metadata(deletion)


async def released(
    world: LocalWorld, broker: AsyncRemoteLogMetadataManager, *tips: TopicIdPartition
) -> None:
    """Return once nobody leads these partitions any more, and their sessions are closed."""
    await broker.on_stop_partitions(tips)
    await eventually(world.is_idle)


async def imported(world: LocalWorld, topic: FakeTopic) -> None:
    """Import the topic as it is; the import leads nothing afterwards."""
    tail = await tail_of(world, topic)
    await tail.round()
    assert tail.trouble is None
    await tail.release()
    await eventually(world.is_idle)


async def test_the_way_back_is_open_after_a_topic_was_deleted_and_nobody_leads_it(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), *copied(0, OTHERS))
    await imported(world, topic)
    broker = await world.leader(ORDERS, OTHERS)
    for state in (DELETING, DELETED):
        await broker.update_remote_log_segment_metadata(moved(segment(0), state))
    await deleted(broker, ORDERS)
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
    await released(world, broker, ORDERS, OTHERS)

    assert await differences(world, topic) == []


async def test_the_way_back_is_open_after_kafka_deleted_a_topic_before_the_move(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), moved(segment(0), DELETING), moved(segment(0), DELETED))
    for state in RemotePartitionDeleteState:
        append(topic, RemotePartitionDeleteMetadata(ORDERS, state, 5, 1))
    await imported(world, topic)

    assert await differences(world, topic) == []


async def test_an_import_that_begins_anew_knows_what_was_deleted_though_nobody_leads_it(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0))
    for state in RemotePartitionDeleteState:
        append(topic, RemotePartitionDeleteMetadata(ORDERS, state, 5, 1))
    await imported(world, topic)

    again = await tail_of(world, topic)
    with hasty(again._manager):
        await again.round()

    assert again.trouble is None


async def test_the_way_back_is_open_after_an_empty_partition_was_forgotten(
    world: LocalWorld, topic: FakeTopic
) -> None:
    broker = await world.leader(ORDERS)
    await broker.add_remote_log_segment_metadata(segment(0))
    for state in (FINISHED, DELETING, DELETED):
        await broker.update_remote_log_segment_metadata(moved(segment(0), state))
    async with mirror_of(world, topic) as mirror:
        await mirror.round()
    await released(world, broker, ORDERS)
    backend = world.service._backend
    assert backend is not None
    await forget(PartitionReader(backend, KEYS, SERDE, CLUSTER, ORDERS))

    assert await differences(world, topic) == [], "Kafka knows a highest offset, and no segment"
    await lead(broker, ORDERS)
    assert await differences(world, topic) == []


async def test_what_was_forgotten_under_a_leader_whose_claim_was_given_up_is_compared(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), moved(segment(0), DELETING), moved(segment(0), DELETED))
    broker = await world.leader(ORDERS)
    await broker.on_partition_leadership_changes([], [ORDERS])
    backend = world.service._backend
    assert backend is not None
    log = PartitionReader(backend, KEYS, SERDE, CLUSTER, ORDERS)

    async def is_closed() -> bool:
        return not (await log.state()).state.is_open

    await eventually(is_closed)
    await forget(log)

    assert (await world.route(ORDERS)).leader_host is not None
    assert await differences(world, topic) == []
    assert not (await world.service.host("host-0").ask(CountsCall()))["leaders"], "it was asked"
    assert (await world.route(ORDERS)).leader_host is None, "nobody is sent there again"


async def test_what_nobody_leads_is_compared_by_its_segments(
    world: LocalWorld, topic: FakeTopic
) -> None:
    append(topic, *copied(0), *copied(0, OTHERS))
    await imported(world, topic)
    assert await differences(world, topic) == [], "both know them"

    append(topic, segment(1))
    broker = await world.leader(OTHERS)
    await broker.add_remote_log_segment_metadata(segment(2, OTHERS))
    await released(world, broker, OTHERS)

    first, second = sorted(await differences(world, topic))
    assert first.partition(":")[2] == (
        "orders-0, segment AAAAAAAAAAAAAAAAAAAAAQ: by Kafka's metadata topic "
        "COPY_SEGMENT_STARTED, offsets 10 to 19, 10 bytes, by tierledger none"
    )
    assert second.partition(":")[2] == (
        "orders-1, segment AAAAAAAAAAAAAAAAAAAAAg: by Kafka's metadata topic none, "
        "by tierledger COPY_SEGMENT_STARTED, offsets 20 to 29, 10 bytes"
    )
