"""Followers are told by the hosts that lead, over real sockets, and believe the log alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.actors.door.clients import RawClient, door_of, raw, served
from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    eventually,
    moved,
    partition,
    segment,
)
from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import FEED_METHOD
from tierledger.actors.door.server import hinting
from tierledger.actors.door.wire.segments import key_message
from tierledger.actors.host import heads, host
from tierledger.actors.host.host import Host
from tierledger.actors.host.partition_shell import PartitionShell

TIP = partition()
KEY = PartitionKey.of(TIP)
NEVER = 1 << 60
"""Looks after which all followers are polled, in tests without that net."""

PROMPT_S = 10.0
"""On a busy machine; where nothing is polled, nothing but the hint tells at all."""


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalWorld]:
    monkeypatch.setattr(hinting, "LOOK_S", 0.02)
    async with served(tmp_path, hosts=2) as world:
        yield world


def hosts(world: LocalWorld) -> list[Host]:
    return [one.host for one in world.service._hosts.values()]


def at(world: LocalWorld, role: str) -> Host:
    return next(one for one in hosts(world) if one.serves(KEY, role))


def shell(world: LocalWorld, role: str) -> PartitionShell:
    return at(world, role)._shells[KEY, role]


def is_hinted(world: LocalWorld) -> bool:
    """Whether the follower has heard of all that its leader has written."""
    if not all(
        any(one.serves(KEY, role) for one in hosts(world)) for role in (LEADER, FOLLOWER)
    ):
        return False
    hint = at(world, FOLLOWER).hints._hints.get(KEY, heads.NOTHING)
    return hint == shell(world, LEADER).machine.position >= 0


def has_all(world: LocalWorld) -> bool:
    head = shell(world, LEADER).machine.position
    return shell(world, FOLLOWER).machine.position == head


async def followed(world: LocalWorld) -> AsyncRemoteLogMetadataManager:
    """The manager that leads; the follower is on the other host, and is told."""
    manager = await world.leader(TIP)
    await world.follower(TIP)
    await eventually(lambda: is_hinted(world) and has_all(world))
    assert at(world, LEADER) is not at(world, FOLLOWER)
    await asyncio.sleep(2 * host.POLL_INTERVAL_S)  # So that it counts as told.
    return manager


async def copied(
    world: LocalWorld,
    manager: AsyncRemoteLogMetadataManager,
    number: int,
    within_s: float = PROMPT_S,
) -> None:
    """A segment is copied, and the follower has it in time."""
    async with asyncio.timeout(within_s):
        await copy(manager, segment(number, TIP))
        await eventually(lambda: has_all(world))


async def test_a_follower_reads_at_once_what_its_leader_tells_of(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = await followed(world)
    monkeypatch.setattr(host, "ALL_POLLED_EVERY", NEVER)

    for number in range(20):
        await copied(world, manager, number)


async def test_whoever_is_told_is_polled_once_a_second_and_nobody_else(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[str] = []
    poll_some = Host._poll_some

    async def counted(self: Host, followers: list[PartitionShell]) -> None:
        polls.append(self.name)
        await poll_some(self, followers)

    monkeypatch.setattr(Host, "_poll_some", counted)
    manager = await followed(world)
    await copy(manager, segment(1, TIP))
    await asyncio.sleep(0.2)
    polls.clear()
    await asyncio.sleep(2.2)
    polled = len(polls)
    monkeypatch.setattr(heads.Hints, "arrived", lambda *_: None)
    at(world, FOLLOWER).hints.end(KEY)
    begun = asyncio.get_running_loop().time()
    await eventually(lambda: len(polls) - polled > 10)
    took = asyncio.get_running_loop().time() - begun

    assert 1 <= polled <= 3
    assert took < 10, "polled once a second still"


async def test_another_leader_tells_once_the_first_is_gone(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = await followed(world)
    await copy(manager, segment(1, TIP))
    await world.service.kill_host(at(world, LEADER).name)
    await copy(manager, segment(2, TIP))
    await eventually(lambda: is_hinted(world) and has_all(world))
    await asyncio.sleep(2 * host.POLL_INTERVAL_S)
    monkeypatch.setattr(host, "ALL_POLLED_EVERY", NEVER)

    await copied(world, manager, 3)


async def test_a_leader_that_says_nothing_costs_one_slow_poll(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = await followed(world)
    monkeypatch.setattr(heads.Heads, "moved", lambda *_: None)
    monkeypatch.setattr(hinting, "LOOK_S", 3600)
    await asyncio.sleep(0.1)  # The look that is under way.

    await copied(world, manager, 1, within_s=1.0 + PROMPT_S)
    await asyncio.sleep(2 * host.POLL_INTERVAL_S)
    # Found in the log without a hint of its leader: nobody waits for one any more.
    assert at(world, FOLLOWER).hints.unheard() == {KEY}
    monkeypatch.setattr(host, "ALL_POLLED_EVERY", NEVER)
    await copied(world, manager, 2)


async def test_nobody_is_told_of_a_partition_that_is_not_followed_any_more(
    world: LocalWorld,
) -> None:
    await followed(world)
    leading = at(world, LEADER)
    assert len(leading.heads._watched) == 1
    other = next(one for one in hosts(world) if one is not leading)
    other._shells[KEY, FOLLOWER].feed(msg.StopArrived(None, 0))

    await eventually(lambda: not leading.heads._watched)
    assert not other.hints._hints


# The wire.


async def subscribed(client: RawClient, role: pb.Role = pb.LEADER) -> pb.Fed:
    await client.greet()
    message = pb.Subscribe(id=1, partition=key_message(KEY), role=role, head_only=True)
    await client.send(pb.ClientFrame(subscribed=[message]))
    (item,) = (await client.next()).fed
    return item


async def test_heads_come_as_they_move_and_end_with_the_leader(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    await copy(manager, segment(1, TIP))
    leading = at(world, LEADER)
    door = leading.report.door
    assert door is not None
    async with raw(door, FEED_METHOD) as client:
        first = await subscribed(client)
        assert first.head.position == leading._shells[KEY, LEADER].machine.position
        writes = [
            manager.add_remote_log_segment_metadata(segment(number, TIP))
            for number in range(2, 50)
        ]
        await asyncio.gather(*writes)
        await manager.update_remote_log_segment_metadata(moved(segment(2, TIP)))
        frames, position = 0, first.head.position
        while position < leading._shells[KEY, LEADER].machine.position:
            frame = await client.next()
            assert [item.head.position > position for item in frame.fed] == [True]
            position = frame.fed[0].head.position
            frames += 1
        assert frames < 48
        leading._shells[KEY, LEADER].feed(msg.StopArrived(None, 0))
        while not (frame := await client.next()).fed[0].HasField("ended"):
            pass

    assert frame.fed[0].ended.failure.kind == pb.NOT_LEADER


async def test_a_follower_tells_nobody(world: LocalWorld) -> None:
    await followed(world)
    doors = {one.name: await door_of(world, one.name) for one in hosts(world)}
    async with raw(doors[at(world, FOLLOWER).name], FEED_METHOD) as client:
        assert (await subscribed(client)).ended.failure.kind == pb.NOT_LEADER
    async with raw(doors[at(world, LEADER).name], FEED_METHOD) as client:
        refused = (await subscribed(client, pb.FOLLOWER)).ended.failure

    assert refused.kind == pb.INVALID_ARGUMENT
    assert "expected LEADER for role beside head_only, got follower" in refused.message
