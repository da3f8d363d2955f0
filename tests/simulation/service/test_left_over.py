"""What is left over when nobody asks anything any more."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.simulation.service.test_streams import Wharf
from tierledger.actors.coordinator.requests import HostsCall
from tierledger.events.errors import RemoteStorageError
from tierledger.simulation.machines.scenario.doors import DoorPlan
from tierledger.simulation.service.left_over import left_over
from tierledger.simulation.service.virtual_loop import VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()  # type: ignore[abstract]  # What it lacks nobody calls.
    yield made
    made.close()
    made.discard()


async def ask(wharf: Wharf, timeout_s: float) -> None:
    with suppress(TimeoutError, RemoteStorageError):
        async with asyncio.timeout(timeout_s):
            await wharf.connection.coordinator.ask(HostsCall())


async def ask_often(wharf: Wharf, timeout_s: float) -> None:
    await asyncio.gather(*(ask(wharf, timeout_s) for _ in range(100)))


def test_a_call_waits_while_it_is_under_way_and_not_longer(loop: VirtualLoop) -> None:
    wharf = Wharf(loop, DoorPlan())
    wharf.coordinator.pause_s = 1.0
    loop.spawn(wharf.client, ask(wharf, 5.0))

    loop.run(until=0.5)
    waiting = list(left_over("client", wharf.connection))
    loop.run(until=2.0)

    assert {one.holder for one in waiting} == {"client: Stream"}
    assert {one.what.partition(" ")[0] for one in waiting} == {"_answers", "what"}
    assert not list(left_over("client", wharf.connection))


def test_a_stream_that_was_left_holds_none_of_its_calls(loop: VirtualLoop) -> None:
    """Their bytes would stay as long as nobody opens that door again."""
    wharf = Wharf(loop, DoorPlan(is_proxied=True, window=300))
    wharf.run(ask(wharf, 5.0))
    loop.pause(wharf.hosts[0])

    wharf.run(ask_often(wharf, 2.0))

    assert not list(left_over("client", wharf.connection))
