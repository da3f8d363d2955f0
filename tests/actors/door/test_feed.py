"""Replicas that are fed through doors, over real sockets, on good days and bad ones."""

import asyncio
import gc
import shutil
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.actors.door.clients import door_of, greeted, served
from tests.models.actors.local_world import (
    CLUSTER,
    DELETING,
    KEYS,
    TOPIC_ID,
    LocalWorld,
    copy,
    eventually,
    moved,
    partition,
    segment,
)
from tests.models.storage.flipped_bits import flipped
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client import replicas
from tierledger.actors.door.client.replicas import FedReplica, Replicas
from tierledger.actors.door.limits import FEED_METHOD, DoorLimits
from tierledger.actors.door.server import feeding
from tierledger.actors.door.wire.feed import put_frame, subscribe_message
from tierledger.actors.feed import source
from tierledger.actors.feed.frames import Change, Frame, Slice, SnapshotBegun, Subscription
from tierledger.actors.host import feeds
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.events.errors import (
    CorruptLog,
    NotLeader,
    NotReady,
    Overloaded,
    RemoteResourceNotFound,
)
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.simulation.live.cable import Cable, cable

TIP = partition()
PARTITION = pb.Partition(topic_id=TOPIC_ID, partition=0, topic="orders")


@asynccontextmanager
async def replicas_at(*doors: str) -> AsyncIterator[Replicas]:
    async with Replicas("tierledger://" + ",".join(doors), CLUSTER) as made:
        yield made


@asynccontextmanager
async def fed(
    world: LocalWorld, segments: int = 5
) -> AsyncIterator[tuple[AsyncRemoteLogMetadataManager, FedReplica, Cable]]:
    """A leader of so many segments, a replica that has them, and the line between them."""
    manager = await world.leader(TIP)
    position = await copy(manager, *map(segment, range(segments)))
    async with cable(await door_of(world)) as line, replicas_at(line.door) as home:
        replica = home.of(TIP, LEADER, manager.claim_to_lead(TIP))
        await replica.reached(position)
        yield manager, replica, line


def numbers(replica: FedReplica) -> list[int]:
    """The numbers of all segments that a replica lists, in order."""
    return sorted(one.start_offset // 10 for one in replica.list_remote_log_segments())


def shell_of(world: LocalWorld, role: str = LEADER, host: str = "host-0") -> PartitionShell:
    return world.service.host(host).host._shells[PartitionKey.of(TIP), role]


async def answers(manager: AsyncRemoteLogMetadataManager) -> list[Any]:
    """The leader's answer."""
    return [
        sorted([one async for one in manager.list_remote_log_segments(TIP)], key=str),
        [one async for one in manager.list_remote_log_segments(TIP, 0)],
        await manager.highest_offset_for_epoch(TIP, 0),
        await manager.remote_log_size(TIP, 0),
        await manager.remote_log_segment_metadata(TIP, 0, 15),
        await manager.next_segment_with_txn_index(TIP, 0, 25),
        await manager.remote_log_segment_metadata(TIP, 1, 15),
    ]


async def told(replica: FedReplica) -> list[Any]:
    """The same, from a replica, once it is ready: what was reached may come before that."""
    await replica.when_ready()
    return [
        sorted(replica.list_remote_log_segments(), key=str),
        replica.list_remote_log_segments(0),
        replica.highest_offset_for_epoch(0),
        replica.remote_log_size(0),
        replica.remote_log_segment_metadata(0, 15),
        replica.next_segment_with_txn_index(0, 25),
        replica.remote_log_segment_metadata(1, 15),
    ]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are soon reached, of doors that open later."""
    limits = DoorLimits(reading_s=0.2, subscriptions_max=2)
    monkeypatch.setattr("tierledger.actors.door.server.gateway.DoorLimits", lambda: limits)


# Good days.


async def test_a_replica_answers_as_its_leader_does(world: LocalWorld) -> None:
    async with fed(world, 30) as (manager, replica, _):
        assert await told(replica) == await answers(manager)

        position = await copy(manager, *map(segment, range(30, 40)))
        deleting = moved(segment(3), DELETING)
        position = await manager.update_remote_log_segment_metadata(deleting)
        await replica.reached(position)

        assert await told(replica) == await answers(manager)
        assert (replica.counts.subscriptions, replica.counts.snapshots) == (1, 1)


async def test_one_stream_feeds_many_partitions(world: LocalWorld) -> None:
    tips = [partition(number) for number in range(8)]
    manager = await world.leader(*tips)
    async with cable(await door_of(world)) as line, replicas_at(line.door) as home:
        fed = [home.of(tip, LEADER, manager.claim_to_lead(tip)) for tip in tips]
        for number, (tip, replica) in enumerate(zip(tips, fed, strict=True)):
            position = await copy(manager, *(segment(one, tip) for one in range(number)))
            await replica.when_ready()
            await replica.reached(position)
            assert numbers(replica) == list(range(number))
        assert line.connections == 1


async def test_a_closed_replica_takes_no_memory(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    async with cable(await door_of(world)) as line, replicas_at(line.door) as home:
        replica = home.of(TIP, LEADER, manager.claim_to_lead(TIP))
        await replica.when_ready()
        await replica.close()
        closed = weakref.ref(replica)
        del replica

        def is_freed() -> bool:
            gc.collect()
            return closed() is None

        await eventually(is_freed)


async def test_a_replica_without_a_claim_finds_and_says_no_more(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    position = await copy(manager, segment(1))
    async with replicas_at(await door_of(world)) as home:
        replica = home.of(TIP)  # Nobody follows it: its leader feeds.
        await replica.reached(position)
        assert replica.remote_log_segment_metadata(0, 15) is not None
        with pytest.raises(NotReady, match="may be behind"):
            replica.remote_log_segment_metadata(0, 25)
        with pytest.raises(NotReady, match="may be behind"):
            replica.list_remote_log_segments()

        replica.expect(manager.claim_to_lead(TIP))
        await replica.when_ready()
        assert numbers(replica) == [1]


async def test_a_snapshot_rests_only_while_somebody_waits_for_an_answer(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "FRAME_ROWS", 1)
    monkeypatch.setattr(feeding, "FRAME_BYTES", 1)
    monkeypatch.setattr(feeding, "SLICES_PAUSE_S", 3600.0)
    monkeypatch.setitem(feeding._PAUSES_S, Slice, 3600.0)
    manager = await world.leader(TIP)
    await copy(manager, *map(segment, range(5)))
    door = await door_of(world)
    async with replicas_at(door) as home, replicas_at(door) as other:
        free = home.of(TIP, LEADER, manager.claim_to_lead(TIP))
        await free.when_ready()  # After any rest that its last slice has caused.

        world.service.host("host-0").host._replies[0] = lambda _answer: None
        held = other.of(TIP, LEADER)
        await eventually(lambda: held.counts.snapshots)
        await free.reached(await copy(manager, segment(5)))
        assert held.position == -1


async def test_what_stands_when_a_feed_begins_is_taken_up_in_bounded_parts(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "HASHED_AT_ONCE", 3)
    parts: list[int] = []
    renumber = source.FeedSource._renumber

    def counted(self: source.FeedSource, state: Any, epochs: Any) -> Any:  # noqa: ANN401
        parts.append(len(list(epochs)))
        return renumber(self, state, epochs)

    monkeypatch.setattr(source.FeedSource, "_renumber", counted)
    manager = await world.leader(TIP)
    for number in range(20):
        await manager.add_remote_log_segment_metadata(segment(number, epoch=number))
    async with replicas_at(await door_of(world)) as home:
        replica = home.of(TIP, LEADER, manager.claim_to_lead(TIP))
        await eventually(lambda: world.service.host("host-0").host.feeds._open)
        position = await manager.add_remote_log_segment_metadata(segment(20, epoch=0))
        await replica.reached(position)

        assert await told(replica) == await answers(manager)
        assert (replica.counts.snapshots, replica.counts.dropped) == (1, 0)
    assert len(parts) >= 7
    assert max(parts) <= 3


async def test_so_many_snapshots_are_under_way_and_the_rest_wait_for_their_turn(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "FRAME_ROWS", 1)
    monkeypatch.setattr(feeds, "SNAPSHOTS_AT_ONCE", 2)
    seen: list[dict[str, int]] = []
    take = feeds.FeedSubscriber.take

    def watched(self: feeds.FeedSubscriber) -> Frame | None:
        frame = take(self)
        turns = self._turns
        seen.append({"under_way": len(turns.under_way), "waiting": len(turns.waiting)})
        return frame

    monkeypatch.setattr(feeds.FeedSubscriber, "take", watched)
    manager = await world.leader(TIP)
    await copy(manager, *map(segment, range(50)))
    feeding_host = world.service.host("host-0").host
    async with replicas_at(await door_of(world)) as home:
        made = [home.of(TIP, LEADER, manager.claim_to_lead(TIP)) for _ in range(9)]
        for replica in made:
            await replica.when_ready()
        counts = await feeding_host.feeds.counts()

    assert [replica.counts.snapshots for replica in made] == [1] * 9
    assert max(one["under_way"] for one in seen) == 2
    assert max(one["waiting"] for one in seen) >= 3
    assert counts == {
        "open": 1,
        "replicas": 9,
        "lag_events_max": 0,
        "snapshots": 0,
        "snapshots_waiting": 0,
        "overtaken": 0,
    }


async def test_a_slow_reader_keeps_nobody_from_a_snapshot(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "SNAPSHOTS_AT_ONCE", 1)
    monkeypatch.setattr(feeds, "TURN_S", 0.2)
    manager = await world.leader(TIP)
    await copy(manager, *map(segment, range(5)))
    feeding_host, woken = world.service.host("host-0").host, asyncio.Event()
    asked = Subscription(PartitionKey.of(TIP), LEADER)
    slow = feeding_host.feeds.subscribe(asked, lambda: None)
    assert isinstance(slow.take(), SnapshotBegun)  # And it never takes the rest.
    other = feeding_host.feeds.subscribe(asked, woken.set)

    assert other.take() is None
    await asyncio.wait_for(woken.wait(), 60)
    assert isinstance(other.take(), SnapshotBegun)


# Where partitions are.


async def test_a_replica_goes_where_it_is_fed_and_is_told_when_that_moves(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, hosts=2) as world:
        manager = await world.leader(TIP)
        await world.follower(TIP)
        position = await copy(manager, segment(1))
        (route,) = await world.service.coordinator.route([PartitionKey.of(TIP)])
        assert route.leader_host != route.follower_host
        claims = {LEADER: manager.claim_to_lead(TIP), FOLLOWER: route.followers[0]}
        doors = [await door_of(world, name) for name in ("host-0", "host-1")]
        for first in doors:  # One of them is the wrong one.
            async with replicas_at(first) as home:
                for role, claim in claims.items():
                    replica = home.of(TIP, role, claim)
                    await replica.reached(position)
                    await replica.when_ready()
                    assert numbers(replica) == [1]
                    assert replica.counts.subscriptions <= 2


async def test_who_is_fed_hears_that_a_partition_is_released(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    position = await copy(manager, segment(1))
    async with replicas_at(await door_of(world)) as home:
        replica = home.of(TIP, LEADER)
        await replica.reached(position)
        await manager.on_stop_partitions([TIP])
        await eventually(lambda: replica.trouble is not None)

        assert isinstance(replica.trouble, NotReady | NotLeader)
        assert replica.remote_log_segment_metadata(0, 15) is not None

        await manager.on_partition_leadership_changes([TIP], [])
        await replica.reached(await copy(manager, segment(2)))


async def test_an_unknown_partition_is_fed_once_there_is_one(world: LocalWorld) -> None:
    async with replicas_at(await door_of(world)) as home:
        replica = home.of(TIP, LEADER)
        await eventually(lambda: isinstance(replica.trouble, RemoteResourceNotFound))
        with pytest.raises(NotReady, match="no whole snapshot"):
            replica.list_remote_log_segments()

        manager = await world.leader(TIP)
        await replica.reached(await copy(manager, segment(1)))


# Bad days.


async def test_after_a_cut_a_replica_goes_on_from_where_it_was(world: LocalWorld) -> None:
    async with fed(world) as (manager, replica, line):
        for number in range(5, 10):
            line.cut()
            await replica.reached(await copy(manager, segment(number)))

        assert await told(replica) == await answers(manager)
        assert replica.counts.subscriptions == line.connections >= 5
        assert (replica.counts.snapshots, replica.counts.dropped) == (1, 0)


async def test_a_replica_goes_on_over_a_restart_and_drops_nothing(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    position = await copy(manager, *map(segment, range(5)))
    async with replicas_at(await door_of(world)) as home:
        replica = home.of(TIP, LEADER)
        await replica.reached(position)
        held, subscriptions = replica.position, replica.counts.subscriptions
        await world.restart()
        await eventually(
            lambda: replica.counts.subscriptions > subscriptions and not replica.trouble
        )

        manager = await world.leader(TIP)
        await replica.reached(await copy(manager, segment(5)))
        assert replica.position > held
        assert replica.counts.dropped == 0
        assert replica.remote_log_segment_metadata(0, 55) is not None


async def test_who_reads_too_slowly_gets_a_new_snapshot_and_nothing_older(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "RING_BYTES", 20_000)
    async with fed(world) as (manager, replica, line):
        seen, position = [replica.position], replica.position
        line.hold()
        count = 5
        feed = world.service.host("host-0").host.feeds._open[shell_of(world)]
        (subscriber,) = feed.source._subscribers.values()
        while is_in_ring(feed.source, subscriber):
            position = await copy(manager, large_segment(count))
            count += 1
        assert len(feed.source._ring) < 20  # Nothing piles up here.
        line.let()
        while replica.position < position:
            seen.append(replica.position)
            await asyncio.sleep(0)

        await replica.when_ready()
        assert numbers(replica) == list(range(count))
        assert replica.counts.snapshots >= 2
        whole = [one for one in seen if one >= 0]
        assert whole == sorted(whole)


async def test_who_reads_nothing_is_sent_away_and_the_leader_does_not_wait(
    hasty: None, world: LocalWorld
) -> None:
    manager = await world.leader(TIP)
    async with greeted(await door_of(world), FEED_METHOD) as client:
        await client.send(pb.ClientFrame(subscribed=[subscription(1)]))
        feeds_here = world.service.host("host-0").host.feeds
        await eventually(lambda: feeds_here._open)
        feed = feeds_here._open[shell_of(world)]
        count = 0
        while feed.fed:
            await copy(manager, large_segment(count))
            count += 1


def is_in_ring(feed: source.FeedSource, subscriber: source._Subscriber) -> bool:
    """Whether all that the subscriber was not given yet is kept for it."""
    assert subscriber.next_entry is not None
    return subscriber.next_entry >= feed._entries - len(feed._ring)


def large_segment(number: int) -> RemoteLogSegmentMetadata:
    """A segment whose row soon fills the buffers of gRPC and sockets."""
    added = segment(number)
    return replace(added, segment_leader_epochs=dict.fromkeys(range(1000), 10 * number))


async def test_a_change_that_is_damaged_on_its_way_is_dropped_and_all_fetched_again(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage: list[str] = []

    def put(frame: Frame, into: pb.Fed) -> None:
        put_frame(frame, into)
        if not damage:
            return
        if isinstance(frame, Change) and into.change.contents.rows:
            match damage.pop():
                case "row":
                    row = into.change.contents.rows[0]
                    into.change.contents.rows[0] = flipped(row)
                case "no row":
                    into.change.contents.rows[0] = b"\xc1"
                case "lost":
                    del into.change.contents.rows[:]
                case "form":
                    into.change.checksum = b"short"
                case _:
                    into.ClearField("change")

    monkeypatch.setattr(feeding, "put_frame", put)
    async with fed(world) as (manager, replica, _):
        kinds = ["row", "no row", "lost", "form", "kind"]
        for number, kind in enumerate(kinds, start=5):
            damage.append(kind)
            await replica.reached(await copy(manager, segment(number)))
            await replica.when_ready()
            assert await told(replica) == await answers(manager), kind
            assert replica.counts.dropped == number - 4, kind
        assert replica.counts.snapshots == len(kinds) + 1


async def test_another_history_is_said_and_not_taken(world: LocalWorld) -> None:
    async with fed(world) as (_, replica, line):
        replica._replica.chain_hash = b"another"
        line.cut()
        with pytest.raises(CorruptLog, match="differs at position"):
            await replica.reached(replica.position + 10)
        with pytest.raises(CorruptLog, match="differs at position"):
            replica.list_remote_log_segments()


async def subscription_at(world: LocalWorld, position: int) -> Subscription:
    """The subscription of a replica that has reached `position` and connects again."""
    async with replicas_at(await door_of(world)) as home:
        known = home.of(TIP)
        await known.reached(position)
        return known._replica.subscription()


async def first_fed(world: LocalWorld, asked: Subscription) -> Sequence[pb.Fed]:
    """The content of the first frame."""
    async with greeted(await door_of(world), FEED_METHOD) as client:
        await client.send(pb.ClientFrame(subscribed=[subscribe_message(1, asked)]))
        return (await client.next()).fed


@pytest.mark.parametrize("is_ahead", [True, False], ids=["grown past", "shorter"])
@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
async def test_a_restored_ledger_is_another_however_long_it_is(
    world: LocalWorld, tmp_path: Path, role: str, is_ahead: bool
) -> None:
    store, backup = tmp_path / "store.sqlite", tmp_path / "backup.sqlite"
    await copy(await world.leader(TIP), *map(segment, range(3)))
    await world.stop()
    shutil.copy(store, backup)
    await world.start()
    position = await copy(await world.leader(TIP), *map(segment, range(3, 6)))
    held = await subscription_at(world, position)
    await world.stop()
    shutil.copy(backup, store)
    await world.start()
    manager = await world.leader(TIP)
    await world.follower(TIP)
    if is_ahead:
        assert await copy(manager, *map(segment, range(10, 20))) > position
    for without_rows in (False, True):
        asked = held._replace(role=role, without_rows=without_rows)
        (item,) = await first_fed(world, asked)
        assert item.WhichOneof("what") == "other_history"
        assert item.other_history.position == position


async def test_a_replica_whose_past_is_damaged_is_not_fed_and_that_is_an_alarm(
    world: LocalWorld,
) -> None:
    manager = await world.leader(TIP)
    position = await copy(manager, segment(0))
    held = await subscription_at(world, position)
    await copy(manager, segment(1))
    await world.stop()
    seen: list[str] = []

    def damaged(key: str, value: bytes) -> bytes | None:
        if not key.startswith(KEYS.log(TIP)):
            return None
        seen.append(key)
        return flipped(value) if len(seen) <= position + 1 else None

    assert await world.change_store(damaged)
    await world.start()
    await world.leader(TIP)
    item, *_ = await first_fed(world, held._replace(role=LEADER))
    assert item.ended.failure.kind == pb.CORRUPT_LOG
    assert await world.alarms() == {"damaged": 1}


async def test_who_comes_back_behind_the_ring_is_compared_with_the_log(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "RING_BYTES", 1)
    async with fed(world, 20) as (manager, replica, line):
        line.hold()  # Else it may be back before anything is written.
        line.cut()
        position = await copy(manager, *map(segment, range(20, 40)))
        line.let()
        await replica.reached(position)
        assert await told(replica) == await answers(manager)
        assert (replica.counts.snapshots, replica.trouble) == (2, None)


async def test_a_source_that_is_behind_is_left_after_a_while(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "SILENCE_S", 0.05)
    manager = await world.leader(TIP)
    await copy(manager, segment(1))
    async with replicas_at(await door_of(world)) as home:
        replica = home.of(TIP, LEADER)
        replica._replica.floor = 1000
        await eventually(lambda: replica.counts.subscriptions > 2)
        assert isinstance(replica.trouble, NotReady)
        assert replica.counts.snapshots == 0


async def test_a_feed_that_fails_quarantines_its_partition_and_no_other(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = partition(1)
    manager = await world.leader(TIP, other)
    await copy(manager, segment(1), segment(1, other))
    feed = shell_of(world).machine.open_feed()

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(feed, "take", fails)
    async with replicas_at(await door_of(world)) as home:
        replica, healthy = home.of(TIP, LEADER), home.of(other, LEADER)
        await healthy.reached(await copy(manager, segment(2, other)))
        await eventually(lambda: replica.trouble is not None)
        assert "ZeroDivisionError" in str(replica.trouble)
    assert await world.alarms() == {"quarantined": 1}


async def test_a_feed_is_closed_when_nobody_comes_back(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "LINGER_S", 0.0)
    manager = await world.leader(TIP)
    shell = shell_of(world)
    for number in range(2):
        async with replicas_at(await door_of(world)) as home:
            await home.of(TIP, LEADER).reached(await copy(manager, segment(number)))
            assert shell.after_step is not None
        await eventually(lambda: shell.after_step is None)
        assert shell.machine.state is not None
        assert shell.machine.state.touched is None


# Streams without any rules.


def subscription(number: int, role: pb.Role = pb.LEADER) -> pb.Subscribe:
    return pb.Subscribe(id=number, partition=PARTITION, role=role)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pb.ClientFrame(calls=[pb.Call(id=1)]), "subscriptions only"),
        (pb.ClientFrame(greeting=pb.ClientGreeting()), "subscriptions only"),
        (
            pb.ClientFrame(subscribed=[pb.Subscribe(id=2), pb.Subscribe(id=2)]),
            "expected an id above 2, got 2",
        ),
        (b"\xff\xff\xff", "expected a ClientFrame"),
    ],
)
async def test_what_is_no_subscription_ends_the_stream(
    world: LocalWorld, frame: pb.ClientFrame | bytes, message: str
) -> None:
    async with greeted(await door_of(world), FEED_METHOD) as client:
        await client.send(frame)
        farewell = await client.farewell()
        assert farewell.kind == pb.INVALID_ARGUMENT
        assert message in farewell.message


async def test_subscriptions_among_calls_end_the_stream(world: LocalWorld) -> None:
    async with greeted(await door_of(world)) as client:
        await client.send(pb.ClientFrame(subscribed=[subscription(1)]))
        assert (await client.farewell()).kind == pb.INVALID_ARGUMENT


async def test_a_subscription_that_is_none_ends_and_names_the_field(world: LocalWorld) -> None:
    await world.leader(TIP)
    wrong = [
        (pb.Subscribe(partition=PARTITION), "role"),
        (pb.Subscribe(partition=PARTITION, role=pb.STORAGE), "role"),
        (pb.Subscribe(role=pb.LEADER), "topic_id"),
        (pb.Subscribe(partition=PARTITION, role=pb.LEADER, position=1), "chain_hash"),
        (pb.Subscribe(partition=PARTITION, role=pb.LEADER, chain_hash=b"x"), "position"),
        (pb.Subscribe(partition=PARTITION, role=pb.LEADER, floor=-2), "floor"),
    ]
    async with greeted(await door_of(world), FEED_METHOD) as client:
        for number, (message, field) in enumerate(wrong, start=1):
            message.id = number
            await client.send(pb.ClientFrame(subscribed=[message]))
            (ended,) = (await client.next()).fed
            assert (ended.id, ended.ended.failure.kind) == (number, pb.INVALID_ARGUMENT)
            assert field in ended.ended.failure.message
        await client.send(pb.ClientFrame(subscribed=[subscription(100)]))
        assert (await client.next()).fed[0].WhichOneof("what") == "snapshot"


async def test_too_many_subscriptions_are_refused_and_one_that_ends_makes_room(
    hasty: None, world: LocalWorld
) -> None:
    await world.leader(TIP)
    async with greeted(await door_of(world), FEED_METHOD) as client:
        await client.send(pb.ClientFrame(subscribed=map(subscription, (1, 2, 3))))
        await client.send(pb.ClientFrame(unsubscribed=[1, 77], expected=[pb.Expect(id=77)]))
        await client.send(pb.ClientFrame(subscribed=[subscription(4)]))
        begun, ended = set(), {}
        while 4 not in begun:
            for item in (await client.next()).fed:
                if item.HasField("ended"):
                    ended[item.id] = item.ended.failure.kind
                elif item.HasField("snapshot"):
                    begun.add(item.id)
        assert ended == {3: pb.OVERLOADED}
        feed = world.service.host("host-0").host.feeds._open[shell_of(world)]
        assert len(feed.fed) == 2


async def test_a_partition_has_so_many_replicas(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "SUBSCRIBERS_MAX", 1)
    manager = await world.leader(TIP)
    async with replicas_at(await door_of(world)) as home:
        first, second = home.of(TIP, LEADER), home.of(TIP, LEADER)
        position = await copy(manager, segment(1))
        await first.reached(position)
        await eventually(lambda: isinstance(second.trouble, Overloaded))
        await first.close()
        await second.reached(position)
