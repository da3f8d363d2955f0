"""Three real brokers go from Kafka's own manager to tierledger and back, and lose no record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.test_one_broker import TOPIC
from tests.models.kafka.clients import WAIT_S
from tests.models.kafka.tiered_broker import STOCK
from tests.models.kafka.tiered_cluster import BROKERS, TieredCluster
from tests.moving.test_stock_cluster import Ledger, eventually
from tests.ray.test_serve import served
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.cli.exit_status import ExitStatus
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.simulation.live.server import free_ports

FACTOR = "rlmm.config.remote.log.metadata.topic.replication.factor"

NOT_TIERED = 30
"""The end of the log that may not have left the brokers' disks."""

LOOK_S = 0.05

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(1800)]


class Owners:
    """The owner of the metadata in each owner epoch, as `status` showed it."""

    def __init__(self) -> None:
        self.owners: dict[int, str] = {}
        """By owner epoch."""

    def look(self, status: dict[str, Any]) -> None:
        """Note the owner; no two brokers may write by different managers at a time."""
        owner = self.owners.setdefault(status["owner_epoch"], status["owner"])
        assert owner == status["owner"]
        writing = {
            # An owner epoch that was never seen as the newest lasted no time.
            Owner.KAFKA if one["mode"] == "shadow" else self.owners.get(one["owner_epoch"])
            for one in status["attending"]
        } - {Owner.MOVING, Owner.NOBODY, None}
        assert len(writing) <= 1, status

    @asynccontextmanager
    async def watched(self, ledger: Ledger) -> AsyncIterator[None]:
        """Look at the status again and again meanwhile."""

        async def watch() -> None:
            async with ledger.connection() as connection:
                while True:
                    self.look(await connection.coordinator.ask(StatusCall()))
                    await asyncio.sleep(LOOK_S)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            (end,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(end, asyncio.CancelledError), end


class Moved:
    """A cluster that is moved: what was produced to it, and what it has tiered."""

    def __init__(self, cluster: TieredCluster, ledger: Ledger, tier: Path) -> None:
        self.cluster = cluster
        self.ledger = ledger
        self.sent: list[bytes] = []
        self.errors: list[str] = []
        """Errors that brokers logged before they were restarted."""
        self._tier = tier
        self._finished: set[str] = set()

    async def grow(self, count: int) -> None:
        """Produce `count` records."""
        start = len(self.sent)
        self.sent += await self.cluster.produced(TOPIC, start, start + count)

    @asynccontextmanager
    async def growing(self) -> AsyncIterator[None]:
        """Produce records meanwhile; the first segments of them are tiered before."""
        async with self.cluster.producing(TOPIC, self.sent):
            await self.has_tiered_more()
            yield

    async def has_tiered_more(self) -> None:
        """Return once records that are produced from now on are tiered."""
        await self.cluster.tiered(TOPIC, len(self.sent) + 1)

    async def is_whole(self) -> None:
        """Read each record, most from the tier; no segment is missing, no trouble is shown."""
        await self.cluster.tiered(TOPIC, len(self.sent) - NOT_TIERED)
        assert await self.cluster.consumed(TOPIC) == self.sent
        await eventually(self._is_known)
        finished = {one["id"] for one in await self._known()}
        assert finished > self._finished, "none is gone, and there are new ones"
        # A log is called after its first offset and its segment.
        assert finished <= {one.stem.partition("-")[2] for one in self._tier.rglob("*.log")}
        self._finished = finished
        await eventually(self._is_well)

    async def _known(self) -> list[dict[str, Any]]:
        """The segments in the ledger whose copy has finished."""
        known = await self.ledger.segments()
        return [one for one in known if one["state"] == "COPY_SEGMENT_FINISHED"]

    async def _is_known(self) -> bool:
        """Whether the ledger has all but the log's end; it may lag behind Kafka's manager."""
        ends = [int(one["end_offset"]) for one in await self._known()]
        return max(ends, default=-1) >= len(self.sent) - NOT_TIERED

    async def _is_well(self) -> bool:
        status = await self.ledger.status()
        followed = status["coordinator"]["kafka"]["trouble"]
        return followed is None and not any(status["totals"]["troubles"].values())

    async def roll(self, mode: str | None, brokers: tuple[int, ...] = BROKERS) -> None:
        """Restart `brokers` one by one, with the plugin in `mode`; None: without it."""
        for number in brokers:
            self.errors += self.cluster.errors()
            await asyncio.to_thread(self.cluster.brokers[number].become, mode)
            await self.in_sync()

    async def in_sync(self) -> None:
        """Return once all replicas of both topics are in sync."""
        await self.cluster.in_sync(TOPIC, BROKERS)
        await self.cluster.in_sync(METADATA_TOPIC, BROKERS)

    async def attends(self, mode: str) -> None:
        """Return once all brokers' plugins follow the newest owner epoch."""
        owner_epoch = (await self.ledger.status())["coordinator"]["owner_epoch"]
        await self.ledger.attended(dict.fromkeys(BROKERS, mode), owner_epoch)

    async def compares_well(self) -> None:
        """Wait for ten more comparisons in shadow; none of them may differ."""
        equal, different = await self._compared()

        async def is_compared() -> bool:
            return (await self._compared())[0] >= equal + 10

        await eventually(is_compared)
        assert (await self._compared())[1] == different

    async def _compared(self) -> tuple[int, int]:
        """How many compared answers were equal, and how many differed."""
        shadows = (await self.ledger.status())["coordinator"]["shadows"]
        return sum(one["equal"] for one in shadows), sum(one["different"] for one in shadows)

    @contextmanager
    def frozen(self, number: int) -> Iterator[None]:
        """Freeze that broker meanwhile."""
        self.cluster.brokers[number].freeze()
        try:
            yield
        finally:
            self.cluster.brokers[number].thaw()


async def test_three_brokers_move_to_tierledger_and_back(tmp_path: Path) -> None:
    door = f"127.0.0.1:{free_ports(2)}"
    store, tier = f"sqlite:{tmp_path / 'ledger.sqlite'}", tmp_path / "tier"
    cluster = TieredCluster(door, tier, {**STOCK, FACTOR: len(BROKERS)})
    kafka = ",".join(cluster.bootstrap)
    options = ["--cluster", CLUSTER_ID, "--hosts", 2, "--listen", door, "--kafka", kafka]
    owners, ledger = Owners(), Ledger(store, door, kafka)
    with served(store, *options), cluster:
        one = Moved(cluster, ledger, tier)
        await cluster.create(TOPIC, BROKERS)
        await one.grow(80)
        async with owners.watched(ledger):
            await to_handover(one)
            await a_frozen_broker_has_it_given_back(one)
            await to_tierledger(one)
            await to_stock(one)
        assert one.errors + cluster.errors() == []
    order = [owners.owners[epoch] for epoch in sorted(owners.owners)]
    assert [owner for owner in order if owner not in {Owner.MOVING, Owner.NOBODY}] == [
        Owner.KAFKA,
        Owner.KAFKA,  # It was given back.
        Owner.TIERLEDGER,
        Owner.KAFKA,
    ]


async def to_handover(one: Moved) -> None:
    """Kafka's own manager owns the metadata, and decides as long as one broker is in shadow."""
    await one.ledger.moved("kafka")
    await one.is_whole()

    await one.roll("shadow")
    await one.attends("shadow")
    await one.grow(80)
    await one.is_whole()
    await one.compares_well()

    await one.roll("handover", BROKERS[:2])
    before = (await one.ledger.status())["coordinator"]["owner_epoch"]
    refused = await one.ledger.hand_over("--to", "tierledger")
    assert refused.exit_code == ExitStatus.USAGE
    assert "broker 3 runs in shadow" in refused.stderr
    assert (await one.ledger.status())["coordinator"]["owner_epoch"] == before, (
        "nothing was begun"
    )

    await one.roll("handover", BROKERS[2:])
    await one.attends("handover")
    await one.grow(80)
    await one.is_whole()


async def a_frozen_broker_has_it_given_back(one: Moved) -> None:
    """The move ends where it began, and the other brokers go on tiering."""
    leader = await one.cluster.leader(TOPIC)
    async with one.growing():
        moving = one.ledger.handing_over("--to", "tierledger")
        try:
            assert moving.stderr is not None
            while "moving, owner epoch" not in (
                line := await asyncio.to_thread(moving.stderr.readline)
            ):
                assert line, "it ended without a move"
            with one.frozen(leader):
                _, errors = await asyncio.to_thread(moving.communicate, timeout=WAIT_S)
                assert moving.returncode == ExitStatus.USAGE, errors
                assert "the owner is as before" in errors
                await one.has_tiered_more()
                assert await one.cluster.leader(TOPIC) != leader
        finally:
            moving.kill()
            await asyncio.to_thread(moving.communicate)
    await one.in_sync()
    await one.attends("handover")
    await one.is_whole()


async def to_tierledger(one: Moved) -> None:
    """Tierledger decides while a broker is killed, and while a replica is moved."""
    async with one.growing():
        await one.ledger.moved("tierledger")
        await one.has_tiered_more()
    await one.attends("handover")
    await one.is_whole()

    leader = await one.cluster.leader(TOPIC)
    async with one.growing():
        await asyncio.to_thread(one.cluster.kill, leader)
        await one.has_tiered_more()
        await one.cluster.revive(leader)
        await one.in_sync()
    await one.attends("handover")
    await one.is_whole()

    leader = await one.cluster.leader(TOPIC)
    others = [number for number in BROKERS if number != leader]
    async with one.growing():
        await one.cluster.reassign(TOPIC, others)
        await one.has_tiered_more()
        assert await one.cluster.leader(TOPIC) in others
        await one.cluster.reassign(TOPIC, [*others, leader])
    await one.is_whole()


async def to_stock(one: Moved) -> None:
    """Kafka's own manager has all that tierledger had."""
    async with one.growing():
        await one.ledger.moved("kafka")
        await one.has_tiered_more()
    await one.attends("handover")
    await one.is_whole()

    await one.roll(None)
    await one.grow(80)
    await one.is_whole()
