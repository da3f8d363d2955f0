"""Several hosts of one service: they die, they fall silent, and the others go on."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.models.actors.local_world import copy, lead, listed, partition, segment
from tests.models.ray.brokers import Brokers, settings_for
from tierledger.actors.calls import CountsCall
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.restarting import restarted
from tierledger.actors.coordinator.placement import WRITER
from tierledger.actors.coordinator.replacing import THE_COORDINATOR
from tierledger.actors.coordinator.requests import HostsCall, RouteCall
from tierledger.actors.processes import process_of
from tierledger.actors.ray import cluster as ray_cluster
from tierledger.actors.ray.coordinator import coordinator_of
from tierledger.actors.ray.handles import (
    COORDINATOR,
    NamedHost,
    addresses_of,
    call,
    namespace_of,
)
from tierledger.actors.ray.service import RayService, kill_host
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.s3_server import S3Server

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONGER = ("postgres_server", "s3_server")
"""Fixtures of the other stores."""

HOSTS = 3
SILENT_S = 1
PAUSE_S = 20.0
"""No call may take longer while processes are replaced; on a quiet machine it is one."""

LOOK_S = 0.05
"""Between two looks at what nobody announces; the test's own timeout is the limit."""


@pytest_asyncio.fixture(
    loop_scope="module",
    scope="module",
    params=["sqlite", *(pytest.param(one, marks=pytest.mark.long) for one in LONGER)],
)
async def service(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RayService]:
    """A service of three hosts, looked after in this loop; tests/chaos kills on PostgreSQL."""
    settings = settings_for(tmp_path_factory.mktemp("hosts") / "store.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "sqlite":
            server: PostgresServer | S3Server = request.getfixturevalue(request.param)
            url = server.place()
            if isinstance(server, S3Server):
                url = f"slatedb:{url}"
                for name, value in server.environment().items():
                    patch.setenv(name, value)  # For the hosts' processes.
            settings = replace(settings, storage={"metadata.storage.url": url})
        service = RayService(replace(settings, hosts=HOSTS))
        await service.start()
        yield service
        await service.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def manager(service: RayService) -> AsyncIterator[AsyncRemoteLogMetadataManager]:
    brokers = Brokers(service.settings)
    yield await brokers.manager(1)
    for one in brokers.managers:
        await one.close()


async def counts_by_host(service: RayService) -> dict[str, dict[str, Any]]:
    """The counts of each host that answers, by its name."""
    coordinator = coordinator_of(service.settings, ray_cluster.own_node())
    found = {}
    for name, address in (await coordinator.ask(HostsCall())).items():
        with contextlib.suppress(RemoteStorageError, TimeoutError):
            async with asyncio.timeout(SILENT_S):
                found[name] = await NamedHost(address, namespace_of(service.settings)).ask(
                    CountsCall()
                )
    return found


async def all_serve(service: RayService, but: str = "") -> dict[str, dict[str, Any]]:
    """The reports of the hosts, once all run and none is the process `but`."""
    while True:
        hosts = await counts_by_host(service)
        if len(hosts) == HOSTS and but not in {one["process"] for one in hosts.values()}:
            return hosts
        await asyncio.sleep(LOOK_S)


async def led(
    manager: AsyncRemoteLogMetadataManager, topic: int, count: int = 9
) -> list[TopicIdPartition]:
    tips = [partition(100 * topic + number) for number in range(count)]
    await lead(manager, *tips)
    await asyncio.gather(*(copy(manager, segment(0, tip)) for tip in tips))
    return tips


async def write_on(
    manager: AsyncRemoteLogMetadataManager, tips: list[TopicIdPartition]
) -> None:
    """Add a segment to each partition; no acknowledged one may be missing."""
    await asyncio.gather(*(copy(manager, segment(1, tip)) for tip in tips))
    for tip in tips:
        assert await listed(manager, tip) == [0, 1]


async def test_leaders_are_spread_over_processes(
    service: RayService, manager: AsyncRemoteLogMetadataManager
) -> None:
    await all_serve(service)  # A host that is not there yet gets none.
    await led(manager, 1)
    hosts = await all_serve(service)

    assert len({one["pid"] for one in hosts.values()}) == HOSTS
    assert min(one["leaders"] for one in hosts.values()) >= 2


@pytest.mark.parametrize("victim", ["host-1", WRITER])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda one: one.name)
async def test_what_a_host_led_is_led_elsewhere(
    number: signal.Signals,
    victim: str,
    service: RayService,
    manager: AsyncRemoteLogMetadataManager,
) -> None:
    before = (await all_serve(service))[victim]
    tips = await led(manager, 2 + 2 * (victim == WRITER) + (number == signal.SIGKILL))

    os.kill(before["pid"], number)
    await write_on(manager, tips)

    hosts = await all_serve(service, but=before["process"])
    assert victim in hosts


async def test_followers_move_away_from_leaders_once_there_is_a_choice(
    service: RayService, manager: AsyncRemoteLogMetadataManager
) -> None:
    follower = await Brokers(service.settings).manager(2)
    tips = await led(manager, 7)
    await follower.on_partition_leadership_changes([], tips)
    await follower.when_ready(tips)
    for name in ("host-1", "host-2"):
        await kill_host(name, service.settings)
    await write_on(manager, tips)
    await all_serve(service)

    coordinator = coordinator_of(service.settings, ray_cluster.own_node())
    keys = [(bytes(tip.topic_id), tip.partition) for tip in tips]
    while True:
        routes = await coordinator.ask(RouteCall(keys))  # type: ignore[arg-type] # As it travels.
        if all(one.follower_host not in {None, one.leader_host} for one in routes):
            break
        await asyncio.sleep(LOOK_S)
    await follower.when_ready(tips)
    await follower.close()


async def test_a_coordinator_that_nobody_asks_for_comes_back(
    service: RayService, manager: AsyncRemoteLogMetadataManager
) -> None:
    tips = await led(manager, 8)
    namespace = namespace_of(service.settings)
    hosts = await all_serve(service)
    ray_cluster.kill_actor(COORDINATOR, namespace)
    os.kill(hosts["host-2"]["pid"], signal.SIGKILL)  # Which nobody watches now.

    while ray_cluster.find_actor(COORDINATOR, namespace) is None:  # noqa: ASYNC110 - Ray's.
        await asyncio.sleep(LOOK_S)
    await write_on(manager, tips)
    await all_serve(service, but=hosts["host-2"]["process"])


async def test_a_silent_coordinator_is_replaced(
    service: RayService, manager: AsyncRemoteLogMetadataManager
) -> None:
    coordinator = coordinator_of(service.settings, ray_cluster.own_node())
    before = await coordinator.process()
    process = process_of(before)
    assert process is not None
    process.signal(signal.SIGSTOP)

    while await process_of_coordinator(service) in {"", before}:  # noqa: ASYNC110 - It has none.
        await asyncio.sleep(LOOK_S)
    await write_on(manager, await led(manager, 9))


async def process_of_coordinator(service: RayService) -> str:
    """The name of the coordinator's process; empty if it does not answer soon."""
    actor = ray_cluster.find_actor(COORDINATOR, namespace_of(service.settings))
    if actor is None:
        return ""
    try:
        async with asyncio.timeout(1):
            process: str = await actor.process.remote()
            return process
    except (TimeoutError, ray_cluster.ray.exceptions.RayError):
        return ""


@pytest.mark.long
async def test_processes_are_replaced_while_brokers_write(
    service: RayService, manager: AsyncRemoteLogMetadataManager
) -> None:
    tips = await led(manager, 10, count=16)
    before = {name: one["process"] for name, one in (await all_serve(service)).items()}
    coordinator = await process_of_coordinator(service)
    paused = dict.fromkeys(tips, 0.0)
    ended = asyncio.Event()

    async def write(tip: TopicIdPartition) -> int:
        number, last = 0, time.monotonic()
        while not ended.is_set():
            number += 1
            await copy(manager, segment(number, tip))
            now = time.monotonic()
            paused[tip], last = max(paused[tip], now - last), now
            await asyncio.sleep(0.02)
        return number

    writing = [asyncio.create_task(write(tip)) for tip in tips]
    handle = coordinator_of(service.settings, ray_cluster.own_node())
    done = [one.process async for one in restarted(handle, timeout_s=60)]
    ended.set()
    written = await asyncio.gather(*writing)

    after = {name: one["process"] for name, one in (await all_serve(service)).items()}
    assert {*done} == {*before, THE_COORDINATOR}
    assert not {*before.values()} & {*after.values()}
    assert await process_of_coordinator(service) != coordinator
    for tip, number in zip(tips, written, strict=True):
        assert await listed(manager, tip) == list(range(number + 1))
    assert max(paused.values()) < PAUSE_S


async def test_the_successor_of_the_writer_runs_before_that_is_lost(
    service: RayService, manager: AsyncRemoteLogMetadataManager
) -> None:
    if not service.settings.connector().has_one_writer:
        return  # The others take over, and none of them has to start.
    namespace = namespace_of(service.settings)
    await all_serve(service)
    tips = await led(manager, 20, 2)
    while len(waiting := addresses_of(WRITER, namespace)) < 2:  # noqa: ASYNC110 - As above.
        await asyncio.sleep(LOOK_S)
    actor = ray_cluster.find_actor(waiting[-1], namespace)
    assert not await call(actor, "is_open")

    await kill_host(WRITER, service.settings)
    await write_on(manager, tips)

    assert await call(actor, "is_open")
