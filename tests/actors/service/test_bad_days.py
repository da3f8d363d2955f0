"""A whole service on bad days: messages that arrive in any order, old clients, two hosts."""

from pathlib import Path

import pytest

from tests.models.actors.harness import kinds
from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    eventually,
    lead,
    listed,
    moved,
    partition,
    segment,
)
from tests.models.storage import faulty_store
from tierledger.actors.calls import LEADER, PartitionKey, PlaceCall, Placement
from tierledger.actors.coordinator.events import Announcement
from tierledger.actors.coordinator.requests import RegisterCall
from tierledger.actors.messages import Assignment
from tierledger.events.errors import Fenced, NotLeader
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.log_events import SessionOpened
from tierledger.events.metadata import RemotePartitionDeleteMetadata

TIP = partition()
KEY = PartitionKey.of(TIP)


async def test_of_announcements_that_arrive_out_of_order_the_last_one_sent_stands(
    world: LocalWorld,
) -> None:
    router = await world.router()
    incarnation, _ = await router.coordinate(RegisterCall(7, b"request", 0))
    leaders = ((bytes(TIP.topic_id), TIP.partition, TIP.topic, None, None),)
    sent = [
        Announcement(7, incarnation, 1, leaders, (), ()),
        Announcement(7, incarnation, 2, (), (), (leaders[0][:3],)),
        Announcement(7, incarnation, 3, leaders, (), ()),
    ]

    await router.coordinate(sent[2])
    for late in sent[:2]:
        with pytest.raises(Fenced, match=rf"announced \({incarnation}, {late.number}\) after"):
            await router.coordinate(late)
    await world.until_led(TIP, sent[2].claim)
    position = await world.coordinator_position()
    await router.coordinate(sent[2])

    assert await world.coordinator_position() == position
    assert kinds(await world.events(TIP)) == ["SessionOpened"]


async def test_a_client_from_before_a_restart_is_told_so_by_every_call(
    world: LocalWorld,
) -> None:
    old = await world.leader(TIP)
    one = segment(0)
    await old.add_remote_log_segment_metadata(one)
    new = await world.leader(TIP)
    deletion = RemotePartitionDeleteMetadata(
        TIP, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 8, 1
    )

    for call in (
        old.on_partition_leadership_changes([TIP], []),
        old.on_partition_leadership_changes([], [TIP]),
        old.on_stop_partitions([TIP]),
    ):
        with pytest.raises(Fenced, match="registered anew, as incarnation 2"):
            await call
    for write in (
        old.add_remote_log_segment_metadata(segment(1)),
        old.update_remote_log_segment_metadata(moved(one)),
        old.put_remote_partition_delete_metadata(deletion),
    ):
        with pytest.raises(Fenced, match=r"broker 1 under \(1, 1\) does not lead"):
            await write
    assert not await old.is_ready(TIP)
    assert await new.is_ready(TIP)
    assert kinds(await world.events(TIP)) == ["SessionOpened", "SegmentAdded", "SessionOpened"]


async def test_a_broker_that_shuts_down_closes_what_it_led_and_nothing_else(
    world: LocalWorld,
) -> None:
    tips = [partition(number) for number in range(4)]
    leaving, staying = await world.leader(*tips[:2]), await world.leader(*tips[2:], broker_id=2)
    await staying.on_partition_leadership_changes([], tips[:2])
    taken = tips[1]
    await lead(staying, taken)

    await leaving.on_partition_leadership_changes([], tips)
    await leaving.when_ready(tips)

    async def is_closed() -> bool:
        return kinds(await world.events(tips[0])) == ["SessionOpened", "SessionClosed"]

    await eventually(is_closed)  # Hosts hear of it soon after.
    for tip in tips[1:]:
        assert "SessionClosed" not in kinds(await world.events(tip))
        await copy(staying, segment(0, tip))
    with pytest.raises(NotLeader):
        await leaving.add_remote_log_segment_metadata(segment(1, taken))


async def test_of_two_hosts_with_one_partition_the_log_fences_the_first(tmp_path: Path) -> None:
    """A placement of a coordinator that knows of another placement than all others do."""
    world = LocalWorld(faulty_store.settings(str(tmp_path)), hosts=2)
    await world.start()
    manager = await world.leader(TIP)
    for number in range(3):
        await copy(manager, segment(number))
    route = await world.route(TIP)
    assert route.leader_host is not None
    assert route.leader is not None
    first = world.service.host(route.leader_host)
    others = [world.service.host(name) for name in ("host-0", "host-1")]
    (second,) = [host for host in others if host is not first]
    stray = Placement(KEY, TIP.topic, LEADER, Assignment(2, route.leader, topic=TIP.topic))
    await second.ask(PlaceCall([stray]))

    async def has_written() -> bool:
        return len(await world.events(TIP)) >= 8

    await eventually(has_written)

    # The first leader says so, and the client finds the one that leads under its claim.
    for number in range(3, 6):
        await copy(manager, segment(number))
    assert await listed(manager) == list(range(6))
    events = await world.events(TIP)
    assert kinds(events).count("SegmentAdded") == 6
    opened = [event.body for event in events if isinstance(event.body, SessionOpened)]
    assert [body.number for body in opened] == list(range(1, len(opened) + 1))
    assert len(opened) >= 3
    await world.stop()
