"""Streams of a world behave as TCP's do, and the door's own code runs over them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tierledger.actors.coordinator.requests import HostsCall
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.connection import DoorConnection, greeting_of
from tierledger.actors.door.client.streams import Streams
from tierledger.actors.door.limits import DoorLimits
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.gateway import Gateway
from tierledger.events.errors import NotReady, OutcomeUnknown
from tierledger.simulation.campaign.campaign import mutant_named
from tierledger.simulation.machines.environment.recording import Recording
from tierledger.simulation.machines.environment.wires import LOSE, Wires
from tierledger.simulation.machines.scenario.doors import DoorPlan
from tierledger.simulation.mutants.catalogue import planted
from tierledger.simulation.service.network import Network
from tierledger.simulation.service.plan import FURTHER
from tierledger.simulation.service.streams import StreamNetwork
from tierledger.simulation.service.virtual_loop import VirtualLoop, VirtualProcess
from tierledger.simulation.service.wire_watch import WireWatch

CLUSTER = "wharf"
DOORS = ("host-0:4711", "host-1:4711")


class Coordinator:
    """Knows both hosts; it answers after `pause_s`."""

    pause_s = 0.0

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Its answer.
        return await request.put_to(self)

    async def hosts(self) -> dict[str, str]:
        await asyncio.sleep(self.pause_s)
        return {f"host-{number}": f"host-{number}/1" for number in (0, 1)}

    async def doors(self) -> dict[str, str]:
        return {f"host-{number}/1": door for number, door in enumerate(DOORS)}


class Wharf:
    """Two hosts with doors, and a client."""

    def __init__(
        self, loop: VirtualLoop, plan: DoorPlan, delays: Sequence[int] = (400, 200, 500, 300)
    ) -> None:
        self.loop = loop
        self.watch = WireWatch(loop)
        recording = Recording(loop.clock, further=FURTHER)
        self.network = Network(loop, Wires(loop.clock, delays, recording), recording)
        self.streams = StreamNetwork(self.network, plan, self.watch)
        self.coordinator: Any = Coordinator()
        self.hosts = [self._host(number) for number in (0, 1)]
        self.client = VirtualProcess("client")
        self.connection = DoorConnection(
            DOORS, greeting_of(CLUSTER), opened=self.streams.opened
        )

    def _host(self, number: int) -> VirtualProcess:
        process = VirtualProcess(f"host-{number}", 1)
        peers = Streams(greeting_of(CLUSTER), opened=self.streams.opened)
        host: Any = None  # Nobody asks it anything.
        desk = Desk(f"host-{number}/1", host, self.coordinator, peers)
        gateway = Gateway(desk, CLUSTER, self.streams.plan.limits)
        self.streams.listen(f"host-{number}", process, gateway)
        return process

    def run(self, work: Any, seconds: float = 60.0) -> Any:  # noqa: ANN401
        task = self.loop.spawn(self.client, work)
        self.loop.run(until=self.loop.time() + seconds)
        return task.result()

    async def ask(self) -> list[str]:
        async with asyncio.timeout(5.0):  # A silent host is left after four.
            return sorted((await self.connection.coordinator.ask(HostsCall())).values())


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()  # type: ignore[abstract]  # What it lacks nobody calls.
    yield made
    made.close()
    made.discard()


def test_a_host_that_says_nothing_is_asked_last_though_signs_of_life_come(
    loop: VirtualLoop,
) -> None:
    wharf = Wharf(loop, DoorPlan(is_proxied=True))
    both = ["host-0/1", "host-1/1"]
    assert wharf.run(wharf.ask()) == both

    loop.pause(wharf.hosts[0])

    with pytest.raises(OutcomeUnknown, match="sent nothing for 3 s"):
        wharf.run(wharf.ask())
    assert wharf.run(wharf.ask()) == both
    loop.resume(wharf.hosts[0])
    loop.pause(wharf.hosts[1])
    with pytest.raises(OutcomeUnknown, match="sent nothing for 3 s"):
        wharf.run(wharf.ask())
    assert wharf.run(wharf.ask()) == both


def test_a_frozen_host_loses_its_connections_where_nobody_speaks_for_it(
    loop: VirtualLoop,
) -> None:
    wharf = Wharf(loop, DoorPlan(keepalive_s=1.0))
    wharf.run(wharf.ask())
    loop.pause(wharf.hosts[0])

    with pytest.raises(OutcomeUnknown, match="no sign of life"):
        wharf.run(wharf.ask())
    assert wharf.run(wharf.ask()) == ["host-0/1", "host-1/1"]


def test_frames_keep_their_order_however_long_each_travels(loop: VirtualLoop) -> None:
    wharf = Wharf(loop, DoorPlan(), (500_000, 1_500_000, 100_000))
    for _ in range(10):
        wharf.network.wires.arm(("client", "host-0"), LOSE, 0)
    read: list[int] = []

    async def talk() -> None:
        end = wharf.streams.connected(DOORS[0]).client
        frame = pb.ClientFrame(greeting=greeting_of(CLUSTER))
        await end.write(frame.SerializeToString())
        for number in range(1, 30):
            call = pb.Call(id=number, hosts=pb.HostsQuestion())
            await end.write(pb.ClientFrame(calls=[call]).SerializeToString())
        await end.read()
        while len(read) < 29:
            data: Any = await end.read()
            read.extend(one.id for one in pb.HostFrame.FromString(data).answers)

    wharf.run(talk(), 600.0)

    # A host would have ended the stream at ids that do not grow.
    assert sorted(read) == list(range(1, 30))
    assert wharf.watch.violations == []


def test_nobody_listens_at_the_door_of_a_dead_host(loop: VirtualLoop) -> None:
    wharf = Wharf(loop, DoorPlan())
    wharf.run(wharf.ask())
    for host in wharf.hosts:
        loop.kill(host)
    loop.run(until=loop.time() + 1.0)

    with pytest.raises(NotReady, match="nothing listens there"):
        wharf.run(wharf.ask())


async def greeted(wharf: Wharf, calls: Sequence[pb.Call] = ()) -> tuple[Any, pb.HostFrame]:
    """A stream on which a client has sent its first frame, and the frames that it gets."""
    end: Any = wharf.streams.connected(DOORS[0]).client
    frame = pb.ClientFrame(greeting=greeting_of(CLUSTER), calls=calls)
    await end.write(frame.SerializeToString())
    return end, pb.HostFrame.FromString(await end.read())


def test_calls_beside_the_greeting_are_refused_aloud(loop: VirtualLoop) -> None:
    wharf = Wharf(loop, DoorPlan())

    _, frame = wharf.run(greeted(wharf, [pb.Call(id=1, hosts=pb.HostsQuestion())]))

    assert frame.farewell.kind == pb.INVALID_ARGUMENT
    assert frame.farewell.message == "expected nothing beside the greeting in the first frame"


async def unanswered(wharf: Wharf) -> None:
    wharf.coordinator.pause_s = 3600.0
    end, _ = await greeted(wharf)
    call = pb.Call(id=1, deadline_ms=100, hosts=pb.HostsQuestion())
    await end.write(pb.ClientFrame(calls=[call]).SerializeToString())


async def withdrawn(wharf: Wharf) -> None:
    wharf.coordinator.pause_s = 3600.0
    end, _ = await greeted(wharf)
    for number in range(1, 9):
        call = pb.Call(id=number, deadline_ms=100_000, hosts=pb.HostsQuestion())
        frame = pb.ClientFrame(calls=[call], cancelled=[number - 1])
        await end.write(frame.SerializeToString())


@pytest.mark.parametrize(
    ("talk", "mutant", "checker"), [(unanswered, "D5", "overdue"), (withdrawn, "D7", "unread")]
)
def test_the_watch_sees_a_rule_that_is_not_kept(
    loop: VirtualLoop, talk: Callable[[Wharf], Any], mutant: str, checker: str
) -> None:
    plan = DoorPlan(limits=DoorLimits(calls_max=4))
    wharf = Wharf(loop, plan)
    wharf.run(talk(wharf), 10.0)
    assert wharf.watch.violations == []

    with planted(mutant_named(mutant)):
        wharf.run(talk(wharf), 10.0)

    assert {one.checker for one in wharf.watch.violations} == {checker}
