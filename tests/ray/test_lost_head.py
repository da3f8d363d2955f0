"""The head of the Ray cluster is lost: the surviving hosts take over without it.

And another node, which `status` tells, too.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.models.actors.local_world import copy, lead, listed, partition, segment
from tests.models.ray.brokers import Brokers, settings_for
from tierledger.actors.coordinator.nodes import HEAD_AWAY, HOSTS_CROWDED, NODES_MISSING
from tierledger.actors.coordinator.placement import WRITER
from tierledger.actors.processes import node_of, parent_of
from tierledger.cli.commands.status.look import ClusterView, StatusOptions, take_look
from tierledger.cli.opened_store import StoreOptions
from tierledger.simulation.live.ray_faults import HostFacts, LiveService
from tierledger.simulation.live.s3_server import S3Server

HOSTS = 3
FORESEEN_S = 15.0
"""The successor of the writing host is known to all hosts by then."""

TOLD_S = 40.0
"""Ray takes up to 20 s to learn that a node is gone, and a look takes 3 s."""

CROWDED_S = 120.0

TAKEN_OVER_S = 20.0
"""Longer is none of the ways to take over; on a quiet machine it takes 2.2 s."""


@pytest_asyncio.fixture(params=["sqlite", pytest.param("bucket", marks=pytest.mark.long)])
async def live(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LiveService]:
    settings = replace(settings_for(tmp_path / "store.sqlite"), hosts=HOSTS)
    if request.param == "bucket":
        server: S3Server = request.getfixturevalue("s3_server")
        url = f"slatedb:{server.place()}"
        settings = replace(settings, storage={"metadata.storage.url": url})
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)  # For the hosts' processes.
    live = LiveService(settings, tmp_path, nodes=HOSTS)
    try:
        await live.start()
        yield live
    finally:
        await live.stop()


def lose(live: LiveService, hosts: list[HostFacts]) -> None:
    """Lose the head; where the store is a file, only what is not needed to reach that."""
    if not live.settings.connector().is_on_one_machine:
        live.kill_head()
        return
    live.kill_control_store()
    (writer,) = [host for host in hosts if host.name == WRITER]
    os.kill(writer.pid, signal.SIGKILL)


async def look(live: LiveService) -> ClusterView:
    """What `tierledger status` sees."""
    url = live.settings.storage["metadata.storage.url"]
    return await take_look(StatusOptions(StoreOptions(url, live.settings.cluster_id)))


async def told(live: LiveService, code: str | None, within_s: float = TOLD_S) -> None:
    """Return once `status` lists that trouble; None: once it lists none."""
    async with asyncio.timeout(within_s):
        while True:
            codes = {one.code for one in (await look(live)).troubles}
            if code in codes or (code is None and not codes):
                return
            await asyncio.sleep(1)


async def test_what_the_lost_hosts_led_is_led_by_others_although_ray_starts_nothing(
    live: LiveService,
) -> None:
    brokers = Brokers(live.settings)
    manager = await brokers.manager(1)
    tips = [partition(number) for number in range(12)]
    await lead(manager, *tips)
    await asyncio.gather(*(copy(manager, segment(0, tip)) for tip in tips))
    await asyncio.sleep(FORESEEN_S)
    seen = await look(live)
    assert seen.service is not None
    assert seen.service[1].coordinator is not None
    nodes = seen.service[1].coordinator["nodes"]
    assert (nodes["expected"], len(nodes["alive"])) == (HOSTS, HOSTS)
    assert seen.service[1].coordinator["node"] in nodes["alive"]
    assert seen.troubles == []

    lose(live, await live.hosts())
    async with asyncio.timeout(TAKEN_OVER_S):
        await asyncio.gather(*(copy(manager, segment(1, tip)) for tip in tips))

    for tip in tips:
        assert await listed(manager, tip) == [0, 1]
    await told(live, HEAD_AWAY)
    for one in brokers.managers:
        await one.close()


@pytest.mark.long
@pytest.mark.parametrize("live", ["bucket"], indirect=True)
async def test_the_head_is_lost_after_the_node_of_the_coordinator(live: LiveService) -> None:
    brokers = Brokers(live.settings)
    manager = await brokers.manager(1)
    tips = [partition(number) for number in range(12)]
    await lead(manager, *tips)
    process, pid = await live.coordinator()

    await live.replace_node(parent_of(pid))
    await live.other_coordinator(but=process)
    await live.all_serve()
    await asyncio.gather(*(copy(manager, segment(0, tip)) for tip in tips))
    await asyncio.sleep(FORESEEN_S)
    live.kill_head()
    async with asyncio.timeout(TAKEN_OVER_S):
        await asyncio.gather(*(copy(manager, segment(1, tip)) for tip in tips))

    for tip in tips:
        assert await listed(manager, tip) == [0, 1]
    for one in brokers.managers:
        await one.close()


@pytest.mark.long
@pytest.mark.parametrize("live", ["sqlite"], indirect=True)
async def test_a_lost_node_is_told_and_a_restart_spreads_the_hosts_over_the_next_one(
    live: LiveService,
) -> None:
    (far, *_) = await live.elsewhere()
    await live.lose_node(far.raylet)
    await told(live, NODES_MISSING)
    await live.all_serve(but=far.process)

    await live.add_node()
    await told(live, HOSTS_CROWDED, CROWDED_S)
    store = ["--store", live.settings.storage["metadata.storage.url"]]
    command = [sys.executable, "-m", "tierledger.cli.main", "restart", *store]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    await told(live, None)
    assert len({host.raylet for host in await live.hosts()}) == HOSTS


@pytest.mark.long
@pytest.mark.parametrize("live", ["bucket"], indirect=True)
async def test_a_node_that_is_to_go_is_left_by_all_processes(live: LiveService) -> None:
    brokers = Brokers(live.settings)
    manager = await brokers.manager(1)
    tips = [partition(number) for number in range(12)]
    await lead(manager, *tips)
    _, pid = await live.coordinator()
    (node,) = {
        node_of(one.process) for one in await live.hosts() if one.raylet == parent_of(pid)
    }
    assert node is not None

    store = ["--store", live.settings.storage["metadata.storage.url"]]
    leave = ["restart", "--node", node[:8], *store]
    command = [sys.executable, "-m", "tierledger.cli.main", *leave]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert node not in {node_of(one.process) for one in await live.hosts()}
    assert (await live.coordinator())[1] != pid
    await asyncio.gather(*(copy(manager, segment(0, tip)) for tip in tips))
    for one in brokers.managers:
        await one.close()
