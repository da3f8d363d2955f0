"""Brokers' plugins at a real service: writes, reads, changes of leaders, a host that dies."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.models.actors.local_world import CLUSTER, LocalWorld
from tests.models.actors.secrets import Secrets, token_file
from tests.models.cli.command_line import lines, run
from tests.models.kafka.plugins import EACH_KAFKA, KAFKAS, Plugins, started
from tests.models.ray.brokers import settings_for
from tests.ray.test_serve import served
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.holding import PlaceHold
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.requests import DoorsCall
from tierledger.actors.discovery.connecting import connect
from tierledger.actors.holds import Hold
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ray.service import RayConnection, RayService, kill_host
from tierledger.events.errors import NotAuthorized
from tierledger.storage.connector import URL_SETTING

WRITTEN_S = 6.0
"""After so long a plugin has written down what it was fed, as its README says."""

FRESH = Handover(Owner.TIERLEDGER, Owner.NOBODY)

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="module")]


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
    assert await coordinator.ask(FRESH) == ("tierledger", 1)


@pytest.fixture(params=EACH_KAFKA)
def plugins(request: pytest.FixtureRequest) -> Iterator[Plugins]:
    """Plugins on the classes of that Kafka."""
    with started(KAFKAS[request.param]) as plugins:
        yield plugins


@pytest.fixture
def first(request: pytest.FixtureRequest) -> int:
    """The first of the partitions that this test has for itself."""
    return 10 * list(KAFKAS).index(request.node.callspec.params["plugins"])


async def owner_set_by(secrets: Secrets, identity: str, url: str) -> None:
    config = {URL_SETTING: url, **secrets.client(identity)}
    connection = await connect(ServiceSettings(CLUSTER, config))
    try:
        await connection.coordinator.ask(FRESH)
    finally:
        await connection.close()


@asynccontextmanager
async def owning(store: Path) -> AsyncIterator[LocalWorld]:
    """A service in this process that owns the cluster's metadata."""
    world = LocalWorld({URL_SETTING: f"sqlite:{store}"}, door=True)
    await world.start()
    try:
        await world.service.coordinator.hand_over(FRESH)
        yield world
    finally:
        await world.stop()


async def test_a_broker_proves_who_it_is(tmp_path: Path, plugins: Plugins) -> None:
    secrets = Secrets(tmp_path)
    ca = secrets.authority.certificate
    options = ["--cluster", CLUSTER, "--listen", "127.0.0.1:0", "--tls-ca", ca]
    options += ["--tls-cert", secrets.pair[0], "--tls-key", secrets.pair[1]]
    options += ["--tokens", secrets.tokens, "--host-token", token_file(tmp_path, "host")]
    with served(f"sqlite:{tmp_path / 'store.sqlite'}", *options) as process:
        assert process.stdout is not None, "it is a pipe"
        url = process.stdout.readline().split()[-1]
        await owner_set_by(secrets, "admin", url)
        with pytest.raises(NotAuthorized, match="may not say who owns the metadata"):
            await owner_set_by(secrets, "broker:1", url)
        token = token_file(tmp_path, "broker:1")
        given = {"tierledger.ssl.ca.location": ca, "tierledger.token.location": token}
        for broker in (1, 2):
            await plugins.open(broker, CLUSTER, url, **given)
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
    doors = await RayConnection(service.settings).coordinator.ask(DoorsCall())
    ask = plugins.ask
    for broker in (1, 2):
        assert await plugins.open(broker, CLUSTER, ",".join(doors.values())) == "done"
    assert await ask(f"1 lookup {number} 5") == "RemoteResourceNotFoundException"
    await ask(f"1 lead {number}")
    await ask(f"2 follow {number}")
    assert await ask(f"1 ready {number}") == "ready"
    assert await ask(f"1 list {number}") == ""
    assert await ask(f"1 copy {number} 20") == "done"
    assert await ask(f"1 lookup {number} 15") == "10:COPY_SEGMENT_FINISHED"
    assert await ask(f"1 lookup {number} 200") == "none"
    assert await ask(f"1 highest {number}") == "199"
    assert await ask(f"2 ready {number}") == "ready"
    assert await ask(f"2 add {number} 30") == "ReplicaNotAvailableException"
    assert await ask(f"1 move {number} 0 DELETE_SEGMENT_FINISHED") == "RemoteStorageException"
    missing = await ask(f"1 move {number} 50 COPY_SEGMENT_FINISHED")
    assert missing == "RemoteResourceNotFoundException"

    # The other one leads. The former one still believes so, too, and is let in at times.
    await ask(f"2 lead {number}")
    assert await ask(f"2 ready {number}") == "ready"
    assert await ask(f"2 moved {number} 0 DELETE_SEGMENT_STARTED") == "done"
    assert await ask(f"2 moved {number} 0 DELETE_SEGMENT_FINISHED") == "done"
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
    doors = await RayConnection(service.settings).coordinator.ask(DoorsCall())
    ask = plugins.ask
    await plugins.open(3, CLUSTER, ",".join(doors.values()))
    for number in numbers:
        await ask(f"3 lead {number}")
    for number in numbers:
        assert await ask(f"3 ready {number}") == "ready"
        before = await ask(f"3 copy {number} 3")
        assert before == "done"
    await kill_host("host-1", service.settings)
    for number in numbers:
        assert await ask(f"3 copy {number} 3") == "done"
        assert await ask(f"3 list {number}") == "0,10,20,30,40,50"
    assert await ask("3 close") == "done"


@asynccontextmanager
async def relayed(door: str) -> AsyncIterator[tuple[str, list[asyncio.StreamWriter]]]:
    """A door that leads to that one; and its clients' connections, in order."""
    connections: list[asyncio.StreamWriter] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        there, to = await asyncio.open_connection(*door.split(":"))

        async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                while data := await source.read(65_536):
                    sink.write(data)
            sink.close()

        await asyncio.gather(pass_on(reader, to), pass_on(there, writer))

    server = await asyncio.start_server(relay, "127.0.0.1")
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", connections


async def test_a_quiet_partition_is_asked_about_after_the_home_conversation_broke(
    tmp_path: Path, plugins: Plugins
) -> None:
    ask = plugins.ask
    async with owning(tmp_path / "store.sqlite") as world:
        url = await world.service.url()
        async with relayed(url.removeprefix("tierledger://")) as (door, connections):
            for broker, role in ((1, "lead"), (2, "follow")):
                await plugins.open(broker, CLUSTER, door)
                await ask(f"{broker} {role} 1")
                assert await ask(f"{broker} ready 1") == "ready"
            assert await ask("1 copy 1 3") == "done"
            assert await ask("2 found 1 30") == "none", "the leader says so"
            # Each has a conversation and then a feed, which lives on, and has nothing to tell.
            connections[2].transport.abort()
            async with asyncio.timeout(15):
                assert await ask("2 found 1 30") == "none", "a new conversation says so"
            for broker in (1, 2):
                assert await ask(f"{broker} close") == "done"


async def test_the_service_is_asked_where_a_replica_has_no_room(
    service: RayService, plugins: Plugins, first: int
) -> None:
    number = first + 6
    doors = ",".join(
        (await RayConnection(service.settings).coordinator.ask(DoorsCall())).values()
    )
    ask = plugins.ask
    for broker in (1, 2):
        bound = {"tierledger.replica.max.bytes": 1}
        assert await plugins.open(broker, CLUSTER, doors, **bound) == "done"
    await ask(f"1 lead {number}")
    assert await ask(f"1 ready {number}") == "ready"
    assert await ask(f"1 copy {number} 3") == "done"
    await ask(f"2 follow {number}")
    for broker in (1, 2):
        assert await ask(f"{broker} ready {number}") == "ready"
        assert await ask(f"{broker} lookup {number} 15") == "10:COPY_SEGMENT_FINISHED"
        assert await ask(f"{broker} lookup {number} 35") == "none"
        assert await ask(f"{broker} highest {number}") == "29"
        assert await ask(f"{broker} list {number}") == "0,10,20"
        assert await ask(f"{broker} lookup {number + 1} 5") == "RemoteResourceNotFoundException"
        assert await ask(f"{broker} metric PartitionsOver") == "1"
        assert await ask(f"{broker} metric Segments") == "0"
        assert int(await ask(f"{broker} metric Questions")) >= 4

    # A list of more pages than one.
    await ask(f"1 lead {number + 1}")
    assert await ask(f"1 ready {number + 1}") == "ready"
    assert await ask(f"1 write {number + 1} 1 0 1100 1100 COPY_SEGMENT_STARTED") == "done"
    starts = ",".join(str(10 * one) for one in range(1100))
    assert await ask(f"1 list {number + 1}") == starts

    # The other leads. The former one is told, though nobody feeds it, and may be let in again.
    await ask(f"2 lead {number}")
    assert await ask(f"2 ready {number}") == "ready"
    assert await ask(f"2 moved {number} 0 DELETE_SEGMENT_STARTED") == "done"
    assert await ask(f"2 moved {number} 0 DELETE_SEGMENT_FINISHED") == "done"
    while await ask("1 metric Fenced") == "0":  # noqa: ASYNC110 - It has no event.
        await asyncio.sleep(0.01)
    assert await ask(f"2 list {number}") == "10,20"
    await ask(f"1 follow {number}")
    assert await ask(f"1 ready {number}") == "ready"
    assert await ask(f"1 list {number}") == "10,20"
    for broker in (1, 2):
        assert await ask(f"{broker} close") == "done"
    assert await ask("1 threads") == "none"


async def test_a_guard_deletes_only_what_the_ledger_lets_go(
    tmp_path: Path, plugins: Plugins
) -> None:
    ask = plugins.ask
    async with owning(tmp_path / "ledger.sqlite") as world:
        doors = (await world.service.url()).partition("://")[2]
        for broker, more in ((1, {}), (2, {"tierledger.replica.max.bytes": 1})):
            assert await plugins.open(broker, CLUSTER, doors, **more) == "done"
            assert await ask(f"{broker} guard") == "done"
            await ask(f"{broker} lead {broker}")
            assert await ask(f"{broker} ready {broker}") == "ready"
            assert await ask(f"{broker} copy {broker} 4") == "done"
            assert await ask(f"{broker} add {broker} 4") == "done"
        hold = Hold("week", "*", reason="undo", by="somebody", term_ms=10**7, last_offset=9)
        assert await world.service.coordinator.hold(PlaceHold(hold)) == []

        for broker in (1, 2):
            at = f"{broker}"
            # Its deletion has not begun; or a broker of 3.9 gives up the copy.
            assert await ask(f"{broker} erase-data {at} 3") == "ReplicaNotAvailableException"
            assert await ask(f"{broker} erase-data {at} 4") == "deleted"
            assert await ask(f"{broker} erase {at} 0") == "stays"
            assert await ask(f"{broker} erase {at} 0") == "stays", "brokers repeat themselves"
            assert await ask(f"{broker} erase {at} 1") == "deleted"
            assert await ask(f"{broker} list {at}") == "20,30,40"
            await ask(f"{broker} unguard")
            refused = await ask(f"{broker} move {at} 3 DELETE_SEGMENT_STARTED")
            assert refused == "done", "no hold is about it"
        assert await ask("1 guard") == "done"
        await ask("1 close")
        assert await ask("1 erase-data 1 2") == "ReplicaNotAvailableException"
        await ask("2 close")
    for broker in (1, 2):
        shown = "trash", "show", "orders", broker, "--json"
        (kept,) = lines(await asyncio.to_thread(run, tmp_path / "ledger.sqlite", *shown))
        assert (kept["start_offset"], kept["deleted_by"]) == (0, "unknown")
        assert "under the term of the hold week" in kept["reason"]


async def test_a_partition_is_kept_once_another_leaves_room(
    service: RayService, plugins: Plugins, first: int
) -> None:
    kept, over = first + 8, first + 9
    doors = ",".join(
        (await RayConnection(service.settings).coordinator.ask(DoorsCall())).values()
    )
    ask = plugins.ask
    await plugins.open(1, CLUSTER, doors)
    for number in (kept, over):
        await ask(f"1 lead {number}")
        assert await ask(f"1 ready {number}") == "ready"
        assert await ask(f"1 copy {number} 1") == "done"
    taken = int(await ask("1 metric ReplicaBytes"))
    await ask("1 close")

    await plugins.open(1, CLUSTER, doors, **{"tierledger.replica.max.bytes": taken})
    for number in (kept, over):
        await ask(f"1 lead {number}")
        assert await ask(f"1 ready {number}") == "ready"
    assert await ask("1 metric PartitionsOver") == "1"
    assert await ask("1 metric Segments") == "1"
    await ask(f"1 stop {kept}")
    while await ask("1 metric PartitionsOver") != "0":  # noqa: ASYNC110 - It has none.
        await asyncio.sleep(0.01)
    assert await ask(f"1 ready {over}") == "ready"
    asked = await ask("1 metric Questions")
    assert await ask(f"1 list {over}") == "0"
    assert await ask("1 metric Questions") == asked
    assert await ask("1 close") == "done"


async def test_a_follower_knows_what_has_been_tiered_a_moment_ago(
    service: RayService, plugins: Plugins, first: int
) -> None:
    ask, partition = plugins.ask, first + 5
    doors = ",".join(
        (await RayConnection(service.settings).coordinator.ask(DoorsCall())).values()
    )
    for broker, role in ((1, "lead"), (2, "follow")):
        assert await plugins.open(broker, CLUSTER, doors) == "done"
        await ask(f"{broker} {role} {partition}")
        assert await ask(f"{broker} ready {partition}") == "ready"

    for number in range(60):
        assert await ask(f"1 add {partition} {number}") == "done"
        assert await ask(f"1 move {partition} {number} COPY_SEGMENT_FINISHED") == "done"
        found = await ask(f"2 lookup {partition} {10 * number}")
        assert found == f"{10 * number}:COPY_SEGMENT_FINISHED"

    assert await ask(f"2 lookup {partition} 600") == "none", "the leader says so"
    for broker in (1, 2):
        assert await ask(f"{broker} close") == "done"


def saved_in(folder: Path) -> list[Path]:
    return [*folder.glob("tierledger.replica.*")]


async def test_a_broker_that_restarts_without_the_service_finds_its_segments(
    tmp_path: Path, plugins: Plugins
) -> None:
    ask, store, away = plugins.ask, tmp_path / "store.sqlite", "ReplicaNotAvailableException"

    async def opened(url: str) -> None:
        assert await plugins.open(1, CLUSTER, url, **{"log.dir": tmp_path}) == "done"
        await ask("1 lead 1")

    async with owning(store) as world:
        await opened(await world.service.url())
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 copy 1 3") == "done"
        assert await ask("1 close") == "done"

    await opened("127.0.0.1:1")
    assert await ask("1 found 1 15") == "10:COPY_SEGMENT_FINISHED"
    assert await ask("1 metric PartitionsSaved") == "1"
    assert int(await ask("1 metric SavedAgeMaxMs")) > 0
    assert await ask("1 is-ready 1") == "false"
    # What it does not find may have been written by others meanwhile.
    for question in ("lookup 1 35", "list 1", "highest 1", "add 1 3"):
        assert await ask(f"1 {question}") == away
    assert await ask("1 close") == "done"

    async with owning(store) as world:
        await opened(await world.service.url())
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 list 1") == "0,10,20"
        assert await ask("1 metric PartitionsSaved") == "0"
        assert await ask("1 metric Snapshots") in {"0", "1"}, "1 if a host was faster"
        assert await ask("1 copy 1 1") == "done"
        assert await ask("1 stop 1") == "done"
        while saved_in(tmp_path):  # noqa: ASYNC110 - It has none.
            await asyncio.sleep(0.01)
        assert await ask("1 close") == "done"


async def test_a_restored_ledger_is_not_taken_for_the_present_one(
    tmp_path: Path, plugins: Plugins
) -> None:
    ask, store, backup = plugins.ask, tmp_path / "store.sqlite", tmp_path / "backup.sqlite"

    async def opened(broker: int, url: str) -> None:
        folder = tmp_path / str(broker)
        folder.mkdir(exist_ok=True)
        assert await plugins.open(broker, CLUSTER, url, **{"log.dir": folder}) == "done"
        await ask(f"{broker} lead 1")

    async with owning(store) as world:
        await opened(1, await world.service.url())
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 copy 1 3") == "done"
        assert await ask("1 close") == "done"
    shutil.copy(store, backup)
    async with owning(store) as world:
        await opened(1, await world.service.url())
        assert await ask("1 ready 1") == "ready", "it is the same ledger"
        assert await ask("1 copy 1 3") == "done"
        assert await ask("1 close") == "done"
    shutil.copy(backup, store)
    async with owning(store) as world:
        url = await world.service.url()
        await opened(2, url)  # It knew nothing, and takes the log further than that was.
        assert await ask("2 ready 1") == "ready"
        assert await ask("2 copy 1 9") == "done"
        assert await ask("2 close") == "done"

        await opened(1, url)
        other = "1 metric PartitionsOfAnotherLedger"
        while await ask(other) != "1":  # noqa: ASYNC110 - It has none.
            await asyncio.sleep(0.01)
        assert await ask("1 is-ready 1") == "false"
        for question in ("lookup 1 5", "list 1", "highest 1"):
            assert await ask(f"1 {question}") == "ReplicaNotAvailableException"
        assert await ask("1 close") == "done"

        (tmp_path / "1" / "tierledger.positions").unlink()
        await opened(1, url)
        assert await ask("1 ready 1") == "ready"
        assert len((await ask("1 list 1")).split(",")) == 12
        assert await ask("1 close") == "done"


@pytest.mark.long
async def test_five_seconds_after_the_last_write_a_crash_forgets_nothing(
    tmp_path: Path, plugins: Plugins
) -> None:
    ask, store, backup = plugins.ask, tmp_path / "store.sqlite", tmp_path / "backup.sqlite"
    folder, crashed = tmp_path / "log", tmp_path / "crashed"
    folder.mkdir()

    async def opened(logs: Path, url: str) -> None:
        assert await plugins.open(1, CLUSTER, url, **{"log.dir": logs}) == "done"
        await ask("1 lead 1")

    async with owning(store) as world:
        await opened(folder, await world.service.url())
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 copy 1 3") == "done"
        assert await ask("1 close") == "done"
    shutil.copy(store, backup)
    async with owning(store) as world:
        await opened(folder, await world.service.url())
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 copy 1 3") == "done"
        await asyncio.sleep(WRITTEN_S)
        shutil.copytree(folder, crashed)  # So a crash would leave it.
        assert await ask("1 close") == "done"
    shutil.copy(backup, store)
    async with owning(store) as world:
        await opened(crashed, await world.service.url())
        other = "1 metric PartitionsOfAnotherLedger"
        while await ask(other) != "1":  # noqa: ASYNC110 - It has none.
            await asyncio.sleep(0.01)
        assert await ask("1 close") == "done"
