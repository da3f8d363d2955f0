"""An upgrade under load: processes of the release before and of this one side by side."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import pytest_asyncio

from tests.models.actors.local_world import copy, lead, listed, partition, segment
from tests.models.ray.brokers import Brokers, settings_for
from tests.models.ray.releases import Releases
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.restarting import restarted
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.ray_faults import LiveService

HOSTS = 3
PARTITIONS = 16
PAUSE_S = 20.0
"""Longer is no write held up; on a quiet machine it is a second."""

STEP_S = 60.0
WRITING_S = 2.0
"""For how long brokers write to each mixture of releases."""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return Releases(tmp_path_factory.mktemp("releases"))


@pytest_asyncio.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
async def live(
    releases: Releases,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[LiveService]:
    """A service of the former release, whose processes load what is installed."""
    monkeypatch.setenv("PYTHONPATH", str(releases.path))
    releases.install("former")
    settings = replace(settings_for(tmp_path / "store.sqlite"), hosts=HOSTS)
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        settings = replace(settings, storage={"metadata.storage.url": server.place()})
    live = LiveService(settings, tmp_path, nodes=2)
    try:
        await live.start()
        yield live
    finally:
        await live.stop()


class BrokersAtWork:
    """Brokers that write to all partitions, until told to stop; a call that fails is raised."""

    def __init__(
        self, manager: AsyncRemoteLogMetadataManager, tips: list[TopicIdPartition]
    ) -> None:
        self.paused = dict.fromkeys(tips, 0.0)
        self._manager = manager
        self._ended = asyncio.Event()
        self._writing = [asyncio.create_task(self._write(tip)) for tip in tips]

    async def _write(self, tip: TopicIdPartition) -> int:
        number, last = 0, time.monotonic()
        while not self._ended.is_set():
            await copy(self._manager, segment(number, tip))
            number += 1
            now = time.monotonic()
            self.paused[tip], last = max(self.paused[tip], now - last), now
            await asyncio.sleep(0.02)
        return number

    async def end(self) -> list[int]:
        """How many segments each partition has."""
        self._ended.set()
        return await asyncio.gather(*self._writing)


@pytest.mark.parametrize(
    "coordinator_first", [False, pytest.param(True, marks=pytest.mark.long)]
)
async def test_an_upgrade_fails_no_call(
    live: LiveService, releases: Releases, *, coordinator_first: bool
) -> None:
    brokers = Brokers(live.settings)
    manager = await brokers.manager(1)
    tips = [partition(number) for number in range(PARTITIONS)]
    await lead(manager, *tips)
    hosts = await live.hosts()
    former = {host.process for host in hosts}
    assert version("tierledger") not in {host.release for host in hosts}
    coordinator, pid = await live.coordinator()
    load = BrokersAtWork(manager, tips)
    await asyncio.sleep(WRITING_S)

    releases.install("present")
    if coordinator_first:
        os.kill(pid, signal.SIGKILL)
        await live.other_coordinator(but=coordinator)
        coordinator, _ = await live.coordinator()
        await asyncio.sleep(WRITING_S)
    handle = (await live.connection()).coordinator
    async for _ in restarted(handle, STEP_S):
        await asyncio.sleep(WRITING_S)
    written = await load.end()

    hosts = await live.hosts()
    assert [host.release for host in hosts] == [version("tierledger")] * HOSTS
    assert not former & {host.process for host in hosts}
    assert (await live.coordinator())[0] != coordinator
    for tip, count in zip(tips, written, strict=True):
        assert await listed(manager, tip) == list(range(count))
    assert max(load.paused.values()) < PAUSE_S
    for one in brokers.managers:
        await one.close()
