"""The clients as programs use them: blocking or not, several in one process."""

import asyncio
from pathlib import Path

import pytest

from tests.actors.door.clients import door_of, served
from tests.models.actors.local_world import (
    CLUSTER,
    LocalWorld,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors.calls import CountsCall, PartitionsCall
from tierledger.actors.client.sync_client import RemoteLogMetadataManager
from tierledger.actors.coordinator.requests import DoorsCall, HostsCall, StatusCall
from tierledger.actors.door.client.connection import connect_at
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.errors import NotReady

CONFIG = {"cluster.id": CLUSTER, "metadata.storage.url": "sqlite:nowhere"}


def copied(door: str, broker_id: int, number: int) -> list[int]:
    """The answers that a blocking client gets through a door after it has added a segment."""
    tip = partition(number)
    with RemoteLogMetadataManager(connect_at(f"tierledger://{door}")) as manager:
        manager.configure({**CONFIG, "broker.id": broker_id})
        manager.on_partition_leadership_changes([tip], [])
        manager.when_ready([tip])
        manager.add_remote_log_segment_metadata(segment(number, tip))
        return [one.start_offset // 10 for one in manager.list_remote_log_segments(tip)]


async def test_blocking_clients_come_in_from_threads_with_loops_of_their_own(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as world:
        door = await door_of(world)
        found = await asyncio.gather(
            *(asyncio.to_thread(copied, door, one, one) for one in range(1, 4))
        )

    assert found == [[1], [2], [3]]


async def test_several_doors_are_tried_and_the_others_are_learnt(tmp_path: Path) -> None:
    async with served(tmp_path, hosts=2) as world:
        near, far = await door_of(world), await door_of(world, "host-1")
        connect = connect_at(f"tierledger://127.0.0.1:1,{near}")
        connection = await connect(ServiceSettings(CLUSTER, world.storage))
        assert connection._streams.doors == [near]
        addresses = await connection.coordinator.ask(HostsCall())
        assert addresses == {"host-0": "host-0/1", "host-1": "host-1/1"}
        assert await connection.coordinator.ask(DoorsCall()) == {
            "host-0/1": near,
            "host-1/1": far,
        }

        assert (await connection.host("host-1").ask(CountsCall()))["host"] == "host-1"
        assert connection._streams.doors == [near, far]
        assert await connection.host("host-1/1").ask(PartitionsCall()) == []
        with pytest.raises(NotReady, match="host-7 is not running"):
            await connection.host("host-7").ask(CountsCall())
        status = await connection.coordinator.ask(StatusCall())
        moment = {name: status[name] for name in ("heard_ms_ago", "now_ms", "up_ms")}
        assert status == await world.service.coordinator.status() | moment
        await connection.close()


async def test_nobody_there_is_said_at_once(tmp_path: Path) -> None:
    world = LocalWorld(sqlite_in(tmp_path))
    with pytest.raises(NotReady, match="nothing listens there"):
        await connect_at("tierledger://127.0.0.1:1")(ServiceSettings(CLUSTER, world.storage))
