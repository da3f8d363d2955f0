"""Clients that find their service through its store come in by its doors."""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.actors.door.clients import door_of, served
from tests.models.actors.local_world import (
    CLUSTER,
    LocalWorld,
    copy,
    eventually,
    lead,
    listed,
    partition,
    segment,
)
from tests.models.actors.published import publish, published, put_record, settings_of
from tests.models.actors.secrets import Authority, Secrets
from tierledger.actors.calls import LEADER, CountsCall, PartitionKey, QueryCall
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.requests import HostsCall
from tierledger.actors.discovery import found_connection
from tierledger.actors.discovery.found_connection import FoundConnection
from tierledger.actors.discovery.service_record import ServiceRecord
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client import streams
from tierledger.actors.door.client.connection import DoorConnection, connect_at, greeting_of
from tierledger.actors.door.security.settings import CA_KEY, DoorSecurity
from tierledger.actors.door.wire.calls import put_call
from tierledger.actors.messages import Query
from tierledger.events.errors import (
    InvalidArgument,
    NoSuchStore,
    NotAuthorized,
    NotReady,
    OutcomeUnknown,
)
from tierledger.simulation.live.cable import cable

TIP = partition()

PROGRAM = """
import sys
from tests.models.actors.local_world import partition, segment
from tierledger.client import RemoteLogMetadataManager

url, cluster = sys.argv[1:]
with RemoteLogMetadataManager() as manager:
    manager.configure({"metadata.storage.url": url, "cluster.id": cluster, "broker.id": 1})
    manager.on_partition_leadership_changes([partition()], [])
    manager.when_ready([partition()])
    manager.add_remote_log_segment_metadata(segment(3))
    print(*(one.start_offset for one in manager.list_remote_log_segments(partition())))
print(*sorted({"ray", "pyspark"} & set(sys.modules)), "loaded")
"""


async def manager_for(
    world: LocalWorld, broker_id: int = 1, more: Mapping[str, str] | None = None
) -> AsyncRemoteLogMetadataManager:
    """A broker's manager that was told the store, and nothing else."""
    manager = AsyncRemoteLogMetadataManager(deadline_s=20)
    identity = {"cluster.id": CLUSTER, "broker.id": broker_id}
    await manager.configure({**world.storage, **identity, **(more or {})})
    return manager


async def test_a_program_that_was_told_a_store_writes_and_reads_without_ray(
    tmp_path: Path,
) -> None:
    async with published(tmp_path) as world:
        url = world.storage["metadata.storage.url"]
        arguments = [sys.executable, "-c", PROGRAM, url, CLUSTER]
        process = await asyncio.create_subprocess_exec(*arguments, stdout=-1, stderr=-1)
        out, err = await process.communicate()

    assert out.decode().splitlines() == ["30", "loaded"], err.decode()


async def test_a_client_goes_on_when_its_only_host_is_another_at_another_port(
    tmp_path: Path,
) -> None:
    async with published(tmp_path) as world:
        manager = await manager_for(world)
        await lead(manager, TIP)
        await copy(manager, segment(0))
        before = await world.service.coordinator.doors()

        await world.service.kill_host("host-0")
        await copy(manager, segment(1))

        assert set(before.values()).isdisjoint(
            (await world.service.coordinator.doors()).values()
        )
        assert await listed(manager) == [0, 1]
        await manager.close()


async def test_several_hosts_are_reached_each_at_its_own_door(tmp_path: Path) -> None:
    async with published(tmp_path, hosts=2) as world:
        connection = await found_connection.connect(settings_of(world))
        addresses = await connection.coordinator.ask(HostsCall())
        pings = [await connection.host(one).ask(CountsCall()) for one in addresses.values()]

        assert [status["host"] for status in pings] == ["host-0", "host-1"]
        assert [(await connection.to(one)).greeting.host for one in addresses.values()] == list(
            addresses.values()
        )
        assert (await connection.host("host-1").ask(CountsCall()))["host"] == "host-1"
        await connection.close()


async def test_the_port_of_another_service_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with published(tmp_path) as world, published(tmp_path / "other") as other:
        own = world.service.coordinator.listening()
        foreign = other.service.coordinator.listening()
        assert own[0][0] == foreign[0][0], "both have the same address among their hosts"
        connection = FoundConnection(settings_of(world))
        stale = ((own[0][0], foreign[0][1], own[0][2]),)
        connection.record = await publish(world, stale)

        with pytest.raises(NotReady, match="another service"):
            await connection.any()

        await connection.close()


async def test_a_service_that_ended_or_never_was_is_named(tmp_path: Path) -> None:
    async with published(tmp_path) as world:
        manager = await manager_for(world)
        await put_record(world, None)

        with pytest.raises(NotReady, match="no service runs for cluster 'cluster-1'"):
            await manager_for(world, 2)
        await lead(manager, TIP)  # Who is in asks nobody where the service is.
        await manager.close()

    with pytest.raises(NotReady, match="no service runs"):
        await manager_for(world, 2)
    world.storage["metadata.storage.url"] += "-that-is-not-there"
    with pytest.raises(NoSuchStore, match="no such store"):
        await manager_for(world, 2)


async def test_a_service_of_an_older_release_is_to_be_started_again(tmp_path: Path) -> None:
    async with published(tmp_path) as world:
        record = await publish(world)
        connection = FoundConnection(settings_of(world))
        await put_record(world, record._replace(doors=None))
        with pytest.raises(NotReady) as caught:
            await connection.any()
        await connection.close()

    assert "of a release that does not say where its hosts listen" in str(caught.value)
    assert "tierledger serve" in str(caught.value)


@pytest.mark.parametrize("is_live", [True, False])
async def test_while_the_only_host_is_replaced_a_new_client_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_live: bool
) -> None:
    monkeypatch.setattr(ServiceRecord, "is_live", is_live)
    async with served(tmp_path) as world:  # Nobody keeps its record true.
        await publish(world, (("host-0/1", "127.0.0.1:1", "host-0/1/gone"),))
        if not is_live:
            with pytest.raises(NotReady, match=r"no service runs.*127\.0\.0\.1:1"):
                await found_connection.connect(settings_of(world))
            return
        connection = await found_connection.connect(settings_of(world))
        with pytest.raises(NotReady, match=r"127\.0\.0\.1:1"):
            await connection.coordinator.ask(HostsCall())

        await publish(world)

        while True:  # It looks again after a moment.
            with suppress(NotReady):
                assert list(await connection.coordinator.ask(HostsCall())) == ["host-0"]
                break
            await asyncio.sleep(0.01)
        await connection.close()


async def test_tls_and_tokens_are_as_the_service_and_the_settings_say(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
    async with published(tmp_path, security=secrets.door()) as world:
        manager = await manager_for(world, 1, secrets.client("broker:1"))
        await lead(manager, TIP)
        await copy(manager, segment(0))
        assert await listed(manager) == [0]
        await manager.close()

        with pytest.raises(NotAuthorized):
            await manager_for(world, 2, secrets.client("broker:1"))
        with pytest.raises(NotAuthorized, match="token"):
            await manager_for(world, 1, {CA_KEY: secrets.client("broker:1")[CA_KEY]})
        unknown = str(Authority(tmp_path, "unknown").certificate)
        with pytest.raises(NotAuthorized, match="certificate is not accepted"):
            await manager_for(world, 1, {**secrets.client("broker:1"), CA_KEY: unknown})


async def test_who_expects_tls_is_not_led_to_a_service_without(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
    async with published(tmp_path) as world:
        with pytest.raises(InvalidArgument, match="speaks no TLS"):
            await manager_for(world, 1, secrets.client("broker:1"))


def speaks_tls(connection: FoundConnection) -> bool:
    assert connection.record is not None
    return connection.record.speaks_tls


async def test_a_service_that_was_started_again_with_tls_is_found_so(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
    async with published(tmp_path) as world:
        settings = settings_of(world)
        connection = await found_connection.connect(settings)
        assert not speaks_tls(connection)
    certificate, key = map(str, secrets.pair)
    authority = str(secrets.authority.certificate)
    async with published(tmp_path, security=DoorSecurity(certificate, key, ca=authority)):
        while True:  # It looks again after a moment.
            with suppress(NotReady, NotAuthorized):
                await connection.any()
            # It comes in with TLS by now, and does not know the authority.
            if speaks_tls(connection):
                break
            await asyncio.sleep(0.01)
        with pytest.raises(NotAuthorized, match="one of a known authority"):
            await connection.any()
        await connection.close()


@pytest.mark.parametrize("is_told_the_store", [True, False])
async def test_a_host_that_owes_answers_and_says_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_told_the_store: bool
) -> None:
    monkeypatch.setattr(streams, "PING_AFTER_S", 0.01)
    connection: DoorConnection
    async with published(tmp_path) as world, cable(await door_of(world)) as line:
        if is_told_the_store:
            ((address, _, process),) = world.service.coordinator.listening()
            record = await publish(world, ((address, line.door, process),))
            assert record.doors == ((address, line.door, process),)
            connection = FoundConnection(settings_of(world))
        else:
            connection = DoorConnection([line.door], greeting_of(CLUSTER))
        await connection.any()
        line.hold()
        monkeypatch.setattr(streams, "PING_TIMEOUT_S", 0.2)
        with pytest.raises(OutcomeUnknown, match=r"has sent nothing for 0\.2 s"):
            await asyncio.wait_for(connection.coordinator.ask(HostsCall()), 60)
        line.cut()
        line.let()

        while True:  # The port is not knocked at again at once.
            with suppress(NotReady):
                assert list(await connection.coordinator.ask(HostsCall())) == ["host-0"]
                break
            await asyncio.sleep(0.01)
        await connection.close()


async def test_a_silent_host_is_left_though_nobody_waits_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PING_AFTER_S", 0.5)
    monkeypatch.setattr(streams, "PING_TIMEOUT_S", 0.2)
    async with published(tmp_path) as world, cable(await door_of(world)) as line:
        stream = await DoorConnection([line.door], greeting_of(CLUSTER)).any()
        line.hold()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await stream.ask(streams.ping_of(stream.host))

        async with asyncio.timeout(60):
            await eventually(lambda: stream.ended is not None)


async def test_a_host_that_is_slow_with_one_answer_and_gives_others_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PING_AFTER_S", 0.01)
    async with published(tmp_path) as world:
        manager = await manager_for(world)
        await lead(manager, TIP)
        connection = DoorConnection([await door_of(world)], greeting_of(CLUSTER))
        stream = await connection.any()
        monkeypatch.setattr(streams, "PING_TIMEOUT_S", 1.0)
        call = pb.Call(deadline_ms=2500)
        put_call(QueryCall(PartitionKey.of(TIP), LEADER, Query("size", 0, 0), 1 << 40), call)
        held = await asyncio.wait_for(stream.ask(call), 60)

        assert stream.ended is None
        assert held.failure.kind == pb.NOT_READY or held.HasField("found")
        await connection.close()
        await manager.close()


async def test_who_was_told_doors_that_are_gone_comes_in_by_those_that_it_learnt(
    tmp_path: Path,
) -> None:
    async with published(tmp_path, hosts=2) as world:
        connect = connect_at(f"tierledger://{await door_of(world, 'host-0')}")
        connection = await connect(settings_of(world))
        await connection.coordinator.ask(HostsCall())
        await connection.close()
        await world.service.kill_host("host-0")

        connection = await connect(settings_of(world))

        assert (await connection.any()).greeting.host == "host-1/1"
        await connection.close()
