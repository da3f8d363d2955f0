"""A service whose clock is hours off serves a stock broker whose clock is right."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from typing_extensions import override

from tests.kafka.test_one_broker import TOPIC, settings_of
from tests.models.actors import published
from tests.models.actors.local_world import LocalWorld, sqlite_in
from tests.models.kafka.clients import consumed, create_topic, delete_topic, produced
from tests.models.kafka.tiered_broker import STOCK, TieredBroker
from tests.moving.test_stock_cluster import eventually
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.requests import DoorsCall, StatusCall
from tierledger.actors.wall_clock import WallClock
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.moving.following import Following, FollowOptions
from tierledger.moving.sealing import create
from tierledger.storage.kafka_brokers import KafkaBrokers

PARTITIONS = {key: STOCK[key] for key in STOCK if "metadata.topic" in key}


class WrongClock(WallClock):
    def __init__(self, hours: float) -> None:
        self._off_ms = int(hours * 3_600_000)

    @override
    def now_ms(self) -> int:
        return super().now_ms() + self._off_ms


@pytest.mark.long
@pytest.mark.parametrize("hours", [-1.1, 1.1])
async def test_what_is_tiered_is_read_mirrored_and_deleted(
    tmp_path: Path, hours: float
) -> None:
    """Each process of the service is this one."""
    world = LocalWorld(
        sqlite_in(tmp_path), clock=WrongClock(hours), door=True, cluster=CLUSTER_ID
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world)
        await published.publish(world)
        coordinator = world.service.coordinator
        await coordinator.ask(Handover(Owner.TIERLEDGER, Owner.NOBODY))
        (door,) = (await coordinator.ask(DoorsCall())).values()
        broker = TieredBroker(door, tmp_path / "tier", PARTITIONS)
        # In a thread, as the service runs in this one.
        await asyncio.to_thread(broker.__enter__)
        stack.callback(broker.remove)
        brokers = KafkaBrokers(broker.address)
        await create(brokers, 3)
        options = FollowOptions(brokers, mirror=True)
        following = Following(published.settings_of(world), coordinator, options)
        task = asyncio.create_task(following.run())
        await create_topic(broker.address, TOPIC, settings=settings_of(broker))
        sent = await produced(broker.address, TOPIC, 0, 80)

        async def is_tiered() -> bool:
            return broker.is_tiered(TOPIC)

        async def is_mirrored() -> bool:
            report = (await coordinator.ask(StatusCall()))["kafka"] or {}
            finished = len(broker.tiered_logs())
            return report.get("trouble") is None and report.get("records", 0) >= finished

        async def is_gone() -> bool:
            return not broker.tiered_logs()

        await eventually(is_tiered)
        await eventually(is_mirrored)
        assert await consumed(broker.address, TOPIC) == sent
        await delete_topic(broker.address, TOPIC)
        await eventually(is_gone)
        assert broker.errors() == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
