"""A host on Ray that lives and answers pings, and whose door clients do not reach any more."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from tests.models.actors.local_world import copy, lead, listed, partition, segment
from tests.models.ray.brokers import Brokers, settings_for
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.doors import HOST_UNREACHABLE
from tierledger.actors.coordinator.requests import HostsCall, RouteCall, StatusCall
from tierledger.actors.ray.service import RayConnection, RayService
from tierledger.simulation.live.cable import cable
from tierledger.simulation.live.server import free_ports

HOSTS = 3
MOVED_S = 20.0
"""How long leaders may stay where brokers do not reach them; alone it takes 6 s."""


async def test_leaders_leave_a_host_that_answers_pings_but_not_at_its_door(
    tmp_path: Path,
) -> None:
    far, near = free_ports(HOSTS), free_ports(HOSTS)
    settings = replace(
        settings_for(tmp_path / "store.sqlite"),
        hosts=HOSTS,
        listen=f"127.0.0.1:{far}",
        advertise=f"127.0.0.1:{near}",
    )
    async with AsyncExitStack() as undone:
        cables = [
            await undone.enter_async_context(cable(f"127.0.0.1:{far + number}", near + number))
            for number in range(HOSTS)
        ]
        service = RayService(settings)
        await service.start()
        undone.push_async_callback(service.close)
        manager = await Brokers(settings).manager(1)
        undone.push_async_callback(manager.close)
        coordinator = RayConnection(settings).coordinator
        tips = [partition(number) for number in range(6)]
        await lead(manager, *tips)
        for tip in tips:
            await copy(manager, segment(0, tip))
        hosts = await coordinator.ask(HostsCall())

        async def led_from() -> set[str | None]:
            routes = await coordinator.ask(RouteCall([PartitionKey.of(tip) for tip in tips]))
            return {one.leader_host for one in routes}

        assert hosts["host-1"] in await led_from()
        cables[1].shut()
        async with asyncio.timeout(MOVED_S):
            while hosts["host-1"] in await led_from():  # noqa: ASYNC110 - Nobody announces it.
                await asyncio.sleep(0.05)
        for tip in tips:
            await copy(manager, segment(1, tip))

        assert [await listed(manager, tip) for tip in tips] == [[0, 1]] * len(tips)
        status = await coordinator.ask(StatusCall())
        assert [(one["code"], one["subject"]) for one in status["conditions"]] == [
            (HOST_UNREACHABLE, "host-1")
        ]
        assert await coordinator.ask(HostsCall()) == hosts  # It lives on.
