"""The doors of hosts that run on Ray, and a client that knows nothing of it."""

import asyncio

from tests.models.actors.local_world import copy, lead, listed, partition, segment
from tests.models.ray.brokers import Brokers
from tierledger.actors.calls import PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.requests import DoorsCall, HostsCall, RouteCall
from tierledger.actors.discovery.service_record import read_record
from tierledger.actors.door.addresses import url_of
from tierledger.actors.door.client.connection import connect_at
from tierledger.actors.processes import process_of
from tierledger.actors.ray.service import RayConnection, RayService, kill_host
from tierledger.actors.wall_clock import RandomIds


async def test_a_client_comes_in_by_the_doors_and_outlives_a_host(
    service: RayService, brokers: Brokers
) -> None:
    coordinator = RayConnection(service.settings).coordinator
    doors = await coordinator.ask(DoorsCall())
    assert sorted(doors) == sorted((await coordinator.ask(HostsCall())).values())
    manager = AsyncRemoteLogMetadataManager(connect_at(url_of(doors.values())), RandomIds())
    cluster = {"cluster.id": service.settings.cluster_id, "broker.id": 1}
    await manager.configure({**service.settings.storage, **cluster})
    tips = [partition(number) for number in range(4)]
    await lead(manager, *tips)
    for tip in tips:
        await copy(manager, segment(0, tip))
    routes = await coordinator.ask(RouteCall([PartitionKey.of(tip) for tip in tips]))
    assert {route.leader_host for route in routes} == set(doors)

    await kill_host("host-1", service.settings)
    for tip in tips:
        await copy(manager, segment(1, tip))

    assert [await listed(manager, tip) for tip in tips] == [[0, 1]] * 4
    # Who looks for the service now is led to the hosts that live.
    async with asyncio.timeout(60):
        while True:
            record = await read_record(service.settings)
            assert record is not None
            recorded = {one.address: one.door for one in record.host_doors}
            if "host-1/1" not in recorded and recorded == await coordinator.ask(DoorsCall()):
                break
            await asyncio.sleep(0.05)
    assert all(process_of(one.process) is not None for one in record.host_doors)
    await manager.close()
