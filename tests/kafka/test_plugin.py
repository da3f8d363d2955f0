"""Brokers' plugins at a real service: writes, reads, changes of leaders, a host that dies."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.models.door_secrets import Secrets, token_file
from tests.models.local_world import CLUSTER
from tests.models.ray_brokers import settings_for
from tests.ray.test_serve import served
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.discovery.connecting import connect
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ray.service import RayConnection, RayService, kill_host
from tierledger.events.errors import NotAuthorized
from tierledger.simulation.live.kafka_broker import JARS, PLUGIN, PLUGIN_JAR
from tierledger.storage.connector import URL_SETTING

KAFKAS = {"oldest": PLUGIN / "kafka-3.9.1", "newest": JARS}
"""Classes of brokers, from the oldest to the newest that the plugin is for."""

TOPIC = "AAECAwQFBgcICQoLDA0ODw"

FRESH = Handover(Owner.TIERLEDGER, Owner.NOBODY)

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="module")]


class Plugins:
    """Plugins of several brokers in one Java process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def ask(self, question: str) -> str:
        """What a broker's plugin answers; LiveBroker.java names the questions."""
        return await asyncio.to_thread(self._ask, question)

    def _ask(self, question: str) -> str:
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RayService]:
    """A service of two hosts."""
    settings = settings_for(tmp_path_factory.mktemp("plugin") / "store.sqlite")
    service = RayService(replace(settings, hosts=2))
    await service.start()
    await owned(service)
    yield service
    await service.close()


async def owned(service: RayService) -> None:
    """Brokers are let in from now on."""
    coordinator = RayConnection(service.settings).coordinator
    assert await coordinator.hand_over(FRESH) == ("tierledger", 1)


@pytest.fixture(params=list(KAFKAS))
def plugins(request: pytest.FixtureRequest) -> Iterator[Plugins]:
    """Plugins on the classes of that Kafka."""
    with started(KAFKAS[request.param]) as plugins:
        yield plugins


@contextmanager
def started(jars: Path) -> Iterator[Plugins]:
    """Plugins on the classes of a Kafka, in their process."""
    if not PLUGIN_JAR.exists() or shutil.which("java") is None:
        raise RuntimeError(
            f"{PLUGIN_JAR} or Java is missing: run scripts/setup.sh --with-plugin"
        )
    path = f"{PLUGIN / 'test-classes'}:{PLUGIN_JAR}:{jars / '*'}"
    command = ["java", "-Xmx256m", "-cp", path, "org.tierledger.kafka.LiveBroker", TOPIC]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Plugins(process)
            assert process.stdin is not None, "it is a pipe"
            process.stdin.close()
            assert process.wait(30) == 0
        finally:
            process.kill()  # A plugin that was not closed may keep it.


@pytest.fixture
def first(request: pytest.FixtureRequest) -> int:
    """The first of the partitions that this test has for itself."""
    return 10 * list(KAFKAS).index(request.node.callspec.params["plugins"])


async def owned_by_word_of(secrets: Secrets, identity: str, url: str) -> None:
    config = {URL_SETTING: url, **secrets.client(identity)}
    connection = await connect(ServiceSettings(CLUSTER, config))
    try:
        await connection.coordinator.hand_over(FRESH)
    finally:
        await connection.close()


async def test_a_broker_proves_who_it_is(tmp_path: Path, plugins: Plugins) -> None:
    secrets = Secrets(tmp_path)
    ca = secrets.authority.certificate
    options = ["--cluster", CLUSTER, "--listen", "127.0.0.1:0", "--tls-ca", ca]
    options += ["--tls-cert", secrets.pair[0], "--tls-key", secrets.pair[1]]
    options += ["--tokens", secrets.tokens, "--host-token", token_file(tmp_path, "host")]
    with served(f"sqlite:{tmp_path / 'store.sqlite'}", *options) as process:
        assert process.stdout is not None, "it is a pipe"
        url = process.stdout.readline().split()[-1]
        await owned_by_word_of(secrets, "admin", url)
        with pytest.raises(NotAuthorized, match="may not say who owns the metadata"):
            await owned_by_word_of(secrets, "broker:1", url)
        given = f"tierledger.ssl.ca.location {ca} tierledger.token.location"
        token = token_file(tmp_path, "broker:1")
        for broker in (1, 2):
            await plugins.ask(f"{broker} open {CLUSTER} {url} {given} {token}")
            await plugins.ask(f"{broker} lead {broker}")
        assert await plugins.ask("1 ready 1") == "ready"
        assert await plugins.ask("1 add 1 0") == "done"
        assert await plugins.ask("2 is-ready 2") == "false", "the token is another broker's"
        assert await plugins.ask("2 add 2 0") == "ReplicaNotAvailableException"
    for broker in (1, 2):
        assert await plugins.ask(f"{broker} close") == "done"


async def test_brokers_write_read_and_change_roles(
    service: RayService, plugins: Plugins, first: int
) -> None:
    number = first
    doors = await RayConnection(service.settings).coordinator.doors()
    ask = plugins.ask
    for broker in (1, 2):
        assert await ask(f"{broker} open {CLUSTER} {','.join(doors.values())}") == "done"
    assert await ask(f"1 lookup {number} 5") == "RemoteResourceNotFoundException"
    await ask(f"1 lead {number}")
    await ask(f"2 follow {number}")
    assert await ask(f"1 ready {number}") == "ready"
    assert await ask(f"1 list {number}") == ""
    assert (await ask(f"1 copy {number} 20")).startswith("done")
    assert await ask(f"1 lookup {number} 15") == "10:COPY_SEGMENT_FINISHED"
    assert await ask(f"1 lookup {number} 200") == "none"
    assert await ask(f"1 highest {number}") == "199"
    assert await ask(f"2 ready {number}") == "ready"
    assert await ask(f"2 add {number} 30") == "ReplicaNotAvailableException"
    assert await ask(f"1 move {number} 0 DELETE_SEGMENT_FINISHED") == "RemoteStorageException"
    missing = await ask(f"1 move {number} 50 COPY_SEGMENT_FINISHED")
    assert missing == "RemoteResourceNotFoundException"

    # The other one leads; what the former one still believes counts no more.
    await ask(f"2 lead {number}")
    assert await ask(f"2 ready {number}") == "ready"
    assert await ask(f"2 move {number} 0 DELETE_SEGMENT_STARTED") == "done"
    assert await ask(f"2 move {number} 0 DELETE_SEGMENT_FINISHED") == "done"
    starts = ",".join(str(10 * one) for one in range(1, 20))
    assert await ask(f"2 list {number}") == starts
    await ask(f"1 follow {number}")
    assert await ask(f"1 ready {number}") == "ready"
    assert await ask(f"1 list {number}") == starts

    # Both believe that they lead: each is let in at times, and waits longer after each time.
    for _ in range(3):
        await ask(f"1 lead {number}")
        await ask(f"2 lead {number}")
        assert await ask(f"1 ready {number}") == "ready"
        assert await ask(f"2 ready {number}") == "ready"
        await ask(f"1 follow {number}")
        await ask(f"2 follow {number}")

    await ask(f"1 stop {number}")
    assert await ask(f"1 lookup {number} 15") == "RemoteResourceNotFoundException"
    for broker in (1, 2):
        assert await ask(f"{broker} close") == "done"
        assert await ask(f"{broker} is-ready {number}") == "false"
    assert await ask("1 threads") == "none"


async def test_a_dead_host_costs_no_write(
    service: RayService, plugins: Plugins, first: int
) -> None:
    numbers = range(first + 1, first + 5)
    doors = await RayConnection(service.settings).coordinator.doors()
    ask = plugins.ask
    await ask(f"3 open {CLUSTER} {','.join(doors.values())}")
    for number in numbers:
        await ask(f"3 lead {number}")
    for number in numbers:
        assert await ask(f"3 ready {number}") == "ready"
        before = await ask(f"3 copy {number} 3")
        assert before.startswith("done"), before
    kill_host("host-1", service.settings)
    for number in numbers:
        assert (await ask(f"3 copy {number} 3")).startswith("done")
        assert await ask(f"3 list {number}") == "0,10,20,30,40,50"
    assert await ask("3 close") == "done"
