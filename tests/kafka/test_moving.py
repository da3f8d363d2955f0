"""A real broker goes from Kafka's own manager to tierledger and back, and loses no record."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.kafka.test_one_broker import TOPIC, until
from tests.models.kafka import kafka_page
from tests.models.kafka.clients import consumed, create_topic, produced
from tests.models.kafka.tiered_broker import STOCK, TIERED, TieredBroker
from tests.moving.test_stock_cluster import Ledger
from tests.ray.test_serve import served
from tierledger.cli.exit_status import ExitStatus
from tierledger.simulation.live.server import free_ports

pytestmark = pytest.mark.ray


class Cluster:
    """One broker, what was produced to it, and the service."""

    def __init__(self, broker: TieredBroker, ledger: Ledger) -> None:
        self.broker = broker
        self.ledger = ledger
        self.sent: list[bytes] = []

    async def grow(self, count: int) -> None:
        """Produce, and let all but the end leave the broker's disk."""
        end = len(self.sent) + count
        self.sent += await produced(self.broker.address, TOPIC, len(self.sent), end)
        await until(lambda: self.broker.local_start(TOPIC) >= end - 20)

    async def is_whole(self) -> None:
        """A consumer gets every record, byte for byte."""
        assert await consumed(self.broker.address, TOPIC) == self.sent

    async def become(self, mode: str | None) -> None:
        """Restart the broker with the plugin in that mode; none: without the plugin."""
        await asyncio.to_thread(self.broker.become, mode)

    async def attends(self, mode: str, owner_epoch: int) -> None:
        """The broker's plugin follows that owner epoch."""
        await self.ledger.attended({1: mode}, owner_epoch)


async def test_a_broker_moves_to_tierledger_and_back(tmp_path: Path) -> None:
    door = f"127.0.0.1:{free_ports()}"
    store = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    with TieredBroker(door, tmp_path / "tier", STOCK) as broker:
        assert kafka_page.settings() <= {*broker.settings}
        serve, *handovers = kafka_page.commands(store, door, broker.address)[2:]
        assert serve[:3] == ["serve", "--store", store]
        with served(store, *serve[3:]):
            one = Cluster(broker, Ledger(store, door, broker.address))
            ways = (["kafka"], ["tierledger", "--dry-run"], ["tierledger"])
            assert handovers == [one.ledger.handover("--to", *way) for way in ways]
            await create_topic(broker.address, TOPIC, settings=TIERED)
            await one.grow(80)
            await one.ledger.moved("kafka")

            await one.become("shadow")
            await one.attends("shadow", 1)
            await one.grow(40)
            await one.is_whole()

            await one.become("handover")
            await one.attends("handover", 1)
            await one.grow(40)
            await one.is_whole()

            tried = await one.ledger.hand_over("--to", "tierledger", "--dry-run", "--json")
            found = json.loads(tried.stdout)
            assert (found["refused"], len(found["steps"])) == (None, 4)
            assert {one["check"] for one in found["checks"]} >= {"plugins", "broker-settings"}
            await one.attends("handover", 1)
            await one.ledger.moved("tierledger")
            await one.attends("handover", 4)
            await one.grow(40)
            await one.is_whole()

            await one.become("tierledger")
            await one.attends("tierledger", 4)
            await one.grow(40)
            await one.is_whole()
            refused = await one.ledger.hand_over("--to", "kafka")
            assert refused.exit_code == ExitStatus.USAGE
            assert "broker 1 runs in tierledger" in refused.stderr

            await one.become("handover")
            await one.attends("handover", 4)
            await one.ledger.moved("kafka")
            await one.attends("handover", 7)
            await one.grow(40)
            await one.is_whole()

            await one.become(None)
            await one.grow(40)
            await one.is_whole()
