"""Hosts that live and answer pings, while clients cannot come in at their doors."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    eventually,
    listed,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.doors import DOORS_UNREACHABLE, HOST_UNREACHABLE
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.live.cable import Cable, cable
from tierledger.simulation.live.server import free_ports

HOSTS = 3
LOOK_S = 0.05
TIPS = [partition(number) for number in range(6)]


class Wired:
    """A service, each door of which is at the far end of a cable."""

    def __init__(self, world: LocalWorld, cables: list[Cable]) -> None:
        self.world = world
        self.cables = cables

    async def led_from(self, tips: list[TopicIdPartition]) -> list[str | None]:
        """The hosts that lead `tips`."""
        routes = await self.world.service.coordinator.route(
            [PartitionKey.of(tip) for tip in tips]
        )
        return [one.leader_host and one.leader_host.rpartition("/")[0] for one in routes]

    async def is_well(self) -> bool:
        return not await self.troubles()

    async def troubles(self) -> list[tuple[str, str]]:
        status = await self.world.service.coordinator.status()
        return [(one["code"], one["subject"]) for one in status["conditions"]]


@pytest.fixture
async def wired(tmp_path: Path) -> AsyncIterator[Wired]:
    far, near = free_ports(HOSTS), free_ports(HOSTS)
    async with AsyncExitStack() as undone:
        cables = [
            await undone.enter_async_context(cable(f"127.0.0.1:{far + number}", near + number))
            for number in range(HOSTS)
        ]
        door = DoorSettings(f"127.0.0.1:{far}", f"127.0.0.1:{near}")
        world = LocalWorld(sqlite_in(tmp_path), HOSTS, door=door)
        yield Wired(await undone.enter_async_context(world), cables)


async def test_what_a_host_led_that_nobody_reaches_is_led_elsewhere_and_written(
    wired: Wired,
) -> None:
    leader = await wired.world.leader(*TIPS)
    for tip in TIPS:
        await copy(leader, segment(0, tip))
    process = wired.world.service.host("host-1").host.process
    assert "host-1" in await wired.led_from(TIPS)

    wired.cables[1].shut()
    for tip in TIPS:
        await copy(leader, segment(1, tip))

    assert [await listed(leader, tip) for tip in TIPS] == [[0, 1]] * len(TIPS)
    assert "host-1" not in await wired.led_from(TIPS)
    assert await wired.troubles() == [(HOST_UNREACHABLE, "host-1")]
    assert wired.world.service.host("host-1").host.process == process  # It lives on.


async def test_a_host_that_is_reached_again_takes_part_again(wired: Wired) -> None:
    leader = await wired.world.leader(*TIPS)
    follower = await wired.world.broker(2)
    await follower.on_partition_leadership_changes([], TIPS)
    await follower.when_ready(TIPS)

    async def is_left() -> bool:
        keys = [PartitionKey.of(tip) for tip in TIPS]
        routes = await wired.world.service.coordinator.route(keys)
        hosts = {host for one in routes for host in (one.leader_host, one.follower_host)}
        return "host-2/1" not in hosts

    assert not await is_left()
    wired.cables[2].shut()
    await eventually(is_left, LOOK_S)
    await follower.when_ready(TIPS)  # Where it follows now.

    wired.cables[2].open()
    await eventually(wired.is_well, LOOK_S)
    more = [partition(number) for number in range(6, 15)]
    await leader.on_partition_leadership_changes(more, [])
    await leader.when_ready(more)
    assert "host-2" in await wired.led_from(more)


async def test_a_coordinator_that_reaches_nobody_moves_nothing(wired: Wired) -> None:
    leader = await wired.world.leader(*TIPS)
    before = await wired.led_from(TIPS)

    for one in wired.cables:
        one.shut()
    await eventually(wired.troubles, LOOK_S)
    assert await wired.troubles() == [(DOORS_UNREACHABLE, "")]
    for one in wired.cables:
        one.open()

    assert await wired.led_from(TIPS) == before
    await eventually(wired.is_well, LOOK_S)
    await copy(leader, segment(0, TIPS[0]))
