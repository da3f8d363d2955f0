"""Whoever dies while the metadata moves, somebody owns it then, and the next move succeeds.

In between, a broker loses its disks, logs change their folder, and a replica moves.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from tests.kafka.test_moving_three import FACTOR, Moved
from tests.kafka.test_one_broker import TOPIC
from tests.kafka.test_service_faults import processes
from tests.models.kafka.clients import WAIT_S
from tests.models.kafka.tiered_broker import STOCK
from tests.models.kafka.tiered_cluster import BROKERS, TieredCluster
from tests.moving.test_stock_cluster import Ledger, eventually
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.cli.exit_status import ExitStatus
from tierledger.moving.procedure import SILENT_MS
from tierledger.simulation.live.processes import descendants, end_all
from tierledger.simulation.live.server import free_ports

DISKS = ("data", "more")

MIN_ISR = {"min.insync.replicas": 2}
"""Also of Kafka's metadata topic."""

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(1800)]


class Moves:
    """Moves of a cluster on which somebody dies."""

    def __init__(self, one: Moved, serve: Callable[[], Popen[str]]) -> None:
        self.one = one
        self._serve = serve
        self._serving = serve()

    async def owner(self) -> str:
        owner: str = (await self.one.ledger.status())["coordinator"]["owner"]
        return owner

    async def stands(self) -> None:
        """Return once somebody owns the metadata, and all brokers and `serve` do their part."""

        async def is_so() -> bool:
            status = (await self.one.ledger.status())["coordinator"]
            if status is None or status["owner"] == "moving":
                return False
            does = status["kafka"] or {}
            alive = {*BROKERS} - self.one.cluster.dead
            task = "mirror" if status["owner"] == "tierledger" else "import"
            attend = {
                report["broker_id"]
                for report in status["attending"]
                if report["owner_epoch"] == status["owner_epoch"]
                and report["heard_ms_ago"] <= SILENT_MS
                and not report["trouble"]
            }
            return (does.get("task"), does.get("trouble")) == (task, None) and attend == alive

        await eventually(is_so)

    async def succeeds(self) -> None:
        """Move to the other owner."""
        await self.stands()
        await self.one.ledger.moved(other(await self.owner()))

    async def disturbed(self, kill: Callable[[Popen[str]], Awaitable[None]]) -> None:
        """Begin to move, kill somebody, and move until the other owner has the metadata."""
        await self.stands()
        owner = await self.owner()
        async with self.moving(other(owner)) as command:
            await kill(command)
        await self.stands()
        if await self.owner() == owner:
            await self.succeeds()

    @asynccontextmanager
    async def moving(self, to: str) -> AsyncIterator[Popen[str]]:
        """The command, from the moment when brokers hold their writes to its end."""
        moving = self.one.ledger.handing_over("--to", to)
        try:
            assert moving.stderr is not None
            told = list[str]()
            while "moving, owner epoch" not in "".join(told):
                told.append(await asyncio.to_thread(moving.stderr.readline))
                assert told[-1], told
            yield moving
            _, errors = await asyncio.to_thread(moving.communicate, timeout=WAIT_S)
            ends = {ExitStatus.WELL, ExitStatus.USAGE, ExitStatus.FAILED, -signal.SIGKILL}
            assert moving.returncode in ends, errors
        finally:
            moving.kill()
            await asyncio.to_thread(moving.communicate)

    # Who dies.

    async def command(self, command: Popen[str]) -> None:
        command.kill()

    async def host(self, _: Popen[str]) -> None:
        await self._kill("HostShell")

    async def coordinator(self, _: Popen[str]) -> None:
        await self._kill("Coordinator")

    async def _kill(self, title: str) -> None:
        victims = await asyncio.to_thread(processes, self._serving, title)
        os.kill(victims[0], signal.SIGKILL)

    async def serve(self, _: Popen[str]) -> None:
        serve = self._serving
        await asyncio.to_thread(end_all, [serve.pid, *descendants(serve.pid)])
        await asyncio.to_thread(serve.wait, WAIT_S)
        self._serving = await asyncio.to_thread(self._serve)

    async def leader(self, _: Popen[str]) -> None:
        leader = await self.one.cluster.leader(TOPIC)
        await asyncio.to_thread(self.one.cluster.kill, leader)
        await self.one.cluster.revive(leader)

    async def controller(self, _: Popen[str]) -> None:
        await asyncio.to_thread(self.one.cluster.controller.restart, signal.SIGKILL)


def other(owner: str) -> str:
    return "kafka" if owner == "tierledger" else "tierledger"


async def test_whoever_dies_during_a_move_the_way_stays_open(tmp_path: Path) -> None:
    door = f"127.0.0.1:{free_ports(2)}"
    store, tier = f"sqlite:{tmp_path / 'ledger.sqlite'}", tmp_path / "tier"
    settings = {**STOCK, **MIN_ISR, FACTOR: len(BROKERS)}
    cluster = TieredCluster(door, tier, settings, DISKS)
    kafka = ",".join(cluster.bootstrap)
    options = ["--cluster", CLUSTER_ID, "--hosts", 2, "--listen", door, "--kafka", kafka]
    with ExitStack() as services:

        def serve() -> Popen[str]:
            return services.enter_context(served(store, *options))

        one = Moved(cluster, Ledger(store, door, kafka), tier)
        moves = Moves(one, serve)
        services.enter_context(cluster)
        await cluster.create(TOPIC, BROKERS)
        await one.grow(80)
        await one.ledger.moved("kafka")
        await one.roll("handover")

        for kill in (moves.controller, moves.command, moves.coordinator, moves.leader):
            await moves.disturbed(kill)
            await one.in_sync()
            await one.grow(40)
            await one.is_whole()
        await one_broker_is_away(one, moves)
        await logs_and_replicas_move(one)
        for kill in (moves.host, moves.serve):
            await moves.disturbed(kill)
            await one.in_sync()
            await one.grow(40)
            await one.is_whole()
        await moves.succeeds()
        await moves.succeeds()
        await one.grow(40)
        await one.is_whole()


async def one_broker_is_away(one: Moved, moves: Moves) -> None:
    """All topics have a minimum of two replicas in sync, also Kafka's metadata topic."""
    away = await one.cluster.leader(TOPIC)
    await asyncio.to_thread(one.cluster.kill, away)
    for _ in range(2):
        await moves.succeeds()
        await one.grow(40)
        await one.is_whole()
    await one.cluster.replace(away)  # It has lost its disks.
    await one.in_sync()
    await moves.stands()
    await one.grow(40)
    await one.is_whole()


async def logs_and_replicas_move(one: Moved) -> None:
    """Each broker's log changes its folder and goes on; then one replica moves off and back."""
    for number in BROKERS:
        (now,) = [
            disk
            for disk in DISKS
            if (one.cluster.brokers[number].folder / disk / f"{TOPIC}-0").exists()
        ]
        async with one.growing():
            await one.cluster.move_log(TOPIC, number, *({*DISKS} - {now}))
            await one.has_tiered_more()
    leader = await one.cluster.leader(TOPIC)
    others = [number for number in BROKERS if number != leader]
    async with one.growing():
        await one.cluster.reassign(TOPIC, others)
        await one.has_tiered_more()
        await one.cluster.reassign(TOPIC, [*others, leader])
    await one.is_whole()
