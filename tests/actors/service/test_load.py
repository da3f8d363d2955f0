"""Leaders move to hosts whose leaders are asked less, while brokers write on."""

import asyncio
from itertools import count

import pytest

from tests.models.actors.local_world import LocalWorld, eventually, lead, partition
from tierledger.actors.coordinator import hosts as parts
from tierledger.actors.coordinator import placement
from tierledger.actors.coordinator import service as rules

PARTITIONS = 4


async def test_of_the_partitions_that_are_asked_most_one_moves_to_the_other_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "SETTLED_S", 0.0)
    monkeypatch.setattr(rules, "LOAD_EVERY_S", 0.2)
    monkeypatch.setattr(placement, "CALLS_SPREAD", 5.0)
    async with LocalWorld({"metadata.storage.url": "memory:"}, hosts=2) as world:
        broker = await world.broker(1)
        tips = [partition(number) for number in range(PARTITIONS)]
        await lead(broker, *tips)
        homes = {tip: (await world.route(tip)).leader_host for tip in tips}
        busy = [tip for tip in tips if homes[tip] == homes[tips[0]]]
        assert len(busy) == PARTITIONS // 2

        async def ask() -> None:
            for number in count():
                await broker.highest_offset_for_epoch(busy[number % len(busy)], 0)

        asking = asyncio.create_task(ask())

        async def are_apart() -> bool:
            now = {(await world.route(tip)).leader_host for tip in busy}
            return len(now) == len(busy)

        await eventually(are_apart)
        await asyncio.sleep(1.0)
        assert await are_apart()
        asking.cancel()
        quiet = [tip for tip in tips if tip not in busy]
        assert [(await world.route(tip)).leader_host for tip in quiet] == [
            homes[tip] for tip in quiet
        ]
