"""Every fault alone, on each store, under load: nothing acknowledged is lost, all goes on."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count, islice

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from tests.chaos.storms import Target, struck
from tests.chaos.writer import Writer
from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.coordinator.requests import RouteCall
from tierledger.actors.messages import Query
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.live.chaos.faults import ALWAYS, POSTGRES, SQLITE
from tierledger.simulation.live.chaos.postgres import freeze_in_commit, ports_of
from tierledger.simulation.live.processes import is_running
from tierledger.simulation.live.ray_faults import MOVES, HostFacts
from tierledger.simulation.live.verdict import stored_by
from tierledger.simulation.record.record import RecordSettings, RunRecord, judged

pytestmark = [pytest.mark.chaos, pytest.mark.ray, pytest.mark.asyncio(loop_scope="module")]

_seeds = count(1)

BEFORE = 490
"""Copies of two events each: the next few fill a checkpoint's thousand."""
AFTER = 250

ATTEMPTS = 5
"""Attempts to freeze a host within a statement, each of 1.5 s."""

LOOK_S = 0.02

LATE_S = 20.0
"""How long a thawed host is listened to: what it has to say comes at once, if it does."""


@pytest.mark.parametrize("fault", ALWAYS)
async def test_a_service_outlives(fault: str, target: Target) -> None:
    _, chaos = await struck(target, [fault], next(_seeds))

    assert len(chaos.strikes) == 1
    if fault == "freeze host":
        assert chaos.zombies == 1, "it went on beside its successor"


async def test_a_service_outlives_what_happens_to_its_store(target: Target) -> None:
    """PostgreSQL away, read-only, or left with a commit of nobody's; a file's writer frozen."""
    faults = SQLITE if target.postgres is None else POSTGRES

    verdict, chaos = await struck(target, faults, next(_seeds))

    assert [row.fault for row in verdict.faults] == sorted(faults)
    assert len(chaos.strikes) == len(faults)


async def test_a_second_service_on_the_store_is_refused(target: Target) -> None:
    settings = target.service.settings
    store = settings.storage["metadata.storage.url"]
    command = [sys.executable, "-m", "tierledger.cli.main", "serve", "--store", store]

    second = await asyncio.to_thread(
        subprocess.run,
        [*command, "--cluster", settings.cluster_id],
        capture_output=True,
        text=True,
    )

    assert second.returncode == 2
    assert "a service runs on this store already: pid " in second.stderr


# The zombie, step by step.


@pytest_asyncio.fixture(loop_scope="module")
async def writer(target: Target) -> AsyncIterator[Writer]:
    writer = Writer(target)
    await writer.start()
    yield writer
    await writer.close()


async def led_elsewhere(target: Target, writer: Writer) -> tuple[HostFacts, TopicIdPartition]:
    """A host out of the coordinator's reach, and a partition of the writer's that it leads."""
    service = target.service
    connection = await service.connection()
    for _ in range(MOVES):
        routes = await connection.coordinator.ask(
            RouteCall([PartitionKey.of(tip) for tip in writer.tips])
        )
        far = {host.address: host for host in await service.elsewhere()}
        for route, tip in zip(routes, writer.tips, strict=True):
            if route.leader_host in far:
                return far[route.leader_host], tip
        # All of them are near: what one of those leads has to go elsewhere.
        leading = {route.leader_host for route in routes}
        near = next(host for host in await service.hosts() if host.address in leading)
        os.kill(near.pid, signal.SIGKILL)
        await service.all_serve(but=near.process)
        await writer.manager.when_ready(writer.tips)
    hosts, coordinator = await service.hosts(), await service.coordinator()
    raise AssertionError(f"after {MOVES} moves {coordinator} is still near to all of {hosts}")


async def leader_of(target: Target, tip: TopicIdPartition) -> str | None:
    connection = await target.service.connection()
    (route,) = await connection.coordinator.ask(RouteCall([PartitionKey.of(tip)]))
    return route.leader_host


async def frozen(target: Target, host: HostFacts) -> None:
    """Freeze the host; on PostgreSQL while a statement of it is under way."""
    if target.postgres is None:
        target.service.freeze(host)
        return
    url = target.service.settings.storage["metadata.storage.url"]
    for _ in range(ATTEMPTS):
        if await asyncio.to_thread(freeze_in_commit, url, host.pid, [host.raylet]):
            return
    raise AssertionError("the host sent no statement")


async def test_a_zombie_changes_nothing(target: Target, writer: Writer) -> None:
    host, tip = await led_elsewhere(target, writer)
    numbers, is_frozen = count(), asyncio.Event()
    await writer.copy(tip, islice(numbers, BEFORE))

    on_the_way = asyncio.ensure_future(writer.copy_until(is_frozen, tip, numbers))
    try:
        await frozen(target, host)
    finally:
        is_frozen.set()
    raylet = host.raylet
    try:
        # All of them come to a good end, at the successor.
        await on_the_way
        assert await leader_of(target, tip) != host.address
        thawed = time.time()
        target.service.thaw(host)
        await writer.copy(tip, islice(numbers, AFTER))
        if target.postgres is not None:
            await wrote_late(target, host, thawed)
        await writer.client("reader").read(tip, LEADER, Query("highest_offset", 0))
    finally:
        await target.service.replace_node(raylet)
    assert not is_running(host.pid)

    stored = await stored_by(target.service.settings, writer.tips)
    key = PartitionKey.of(tip)
    assert key in {one.key for one in stored.checkpoints}, "a thousand events make a checkpoint"
    record = RunRecord(
        RecordSettings(
            target.service.settings.cluster_id,
            check_every=500,
            minimums=Minimums(ok_writes=2 * (BEFORE + AFTER), ok_reads=1, leadership_changes=1),
        ),
        writer.recorder.history(),
        stored.logs,
        stored.checkpoints,
        stored.damage,
    )
    found, logs = judged(record)
    assert found == []
    assert logs[key].end + 1 >= 2 * next(numbers)


async def wrote_late(target: Target, host: HostFacts, since: float) -> None:
    """Return once the zombie's own connections have sent a statement to the server.

    Ray may end it first, since its node counts as dead: then it sends none.
    """
    url = target.service.settings.storage["metadata.storage.url"]
    with suppress(FileNotFoundError):  # It ended while it was looked at.
        while is_running(host.pid) and time.time() < since + LATE_S:
            if await asyncio.to_thread(statements_since, url, host.pid, since):
                return
            await asyncio.sleep(LOOK_S)


def statements_since(url: str, pid: int, since: float) -> list[str]:
    """The last statements that a process's connections sent after `since` (epoch seconds)."""
    query = sql.SQL(
        "SELECT client_port, query FROM pg_stat_activity "
        "WHERE client_port IS NOT NULL AND extract(epoch FROM state_change) > {}"
    ).format(sql.Literal(since))
    ports = ports_of(pid)
    with psycopg.connect(url, autocommit=True) as connection:
        return [str(text) for port, text in connection.execute(query) if port in ports]
