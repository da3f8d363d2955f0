"""A host's answers to clients that keep the protocol, and to those that break it."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tests.actors.door.clients import RawClient, door_of, greeted, raw, served
from tests.models.actors.local_world import (
    CLUSTER,
    TOPIC_ID,
    LocalWorld,
    copy,
    eventually,
    listed,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors.calls import LEADER, CommandCall, CountsCall, PartitionKey
from tierledger.actors.coordinator.messages import Balance, Requested
from tierledger.actors.coordinator.placement import Move
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import DoorAddress, doors_in
from tierledger.actors.door.client.connection import connect_at, greeting_of
from tierledger.actors.door.limits import DoorLimits
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.door.wire.calls import put_write
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidArgument, NotReady
from tierledger.events.log_events import Origin
from tierledger.simulation.live.server import free_ports

TIP = partition()
PARTITION = pb.Partition(topic_id=TOPIC_ID, partition=0, topic="orders")


@pytest.fixture
async def client(world: LocalWorld) -> AsyncIterator[RawClient]:
    """Inside, and greeted."""
    async with greeted(await door_of(world)) as client:
        yield client


def question(number: int, kind: pb.QuestionKind = pb.HIGHEST_OFFSET, **more: Any) -> pb.Call:  # noqa: ANN401
    asked = pb.Question(partition=PARTITION, role=pb.LEADER, kind=kind)
    return pb.Call(id=number, question=asked, **more)


def write(number: int, claim: cmd.Claim, wanted: int = 0) -> pb.Call:
    call = pb.Call(id=number)
    command = cmd.AddSegment(claim, Origin(1, b"%d" % wanted), segment(wanted))
    put_write(CommandCall(PartitionKey.of(TIP), command), call.write)
    return call


# Greetings.


async def test_both_sides_say_who_they_are(world: LocalWorld) -> None:
    async with raw(await door_of(world)) as client:
        greeting = (await client.greet()).greeting

    assert (greeting.version, greeting.cluster_id, greeting.host) == (1, CLUSTER, "host-0/1")
    assert greeting.software.startswith("tierledger ")
    assert (greeting.frame_bytes_max, greeting.calls_max) == DoorLimits()[:2]


@pytest.mark.parametrize(
    ("greeting", "message"),
    [
        (greeting_of("another"), "serves cluster 'cluster-1', not 'another'"),
        (greeting_of("", 1), "not ''"),
        (pb.ClientGreeting(version_min=2, version_max=9, cluster_id=CLUSTER), "2 to 9"),
        (pb.ClientGreeting(cluster_id=CLUSTER), "0 to 0"),
        (pb.ClientGreeting(version_min=3, version_max=1, cluster_id=CLUSTER), "3 to 1"),
        (greeting_of(CLUSTER, -1), "broker_id"),
    ],
)
async def test_who_is_at_the_wrong_door_is_told_so(
    world: LocalWorld, greeting: pb.ClientGreeting, message: str
) -> None:
    async with raw(await door_of(world)) as client:
        frame = await client.greet(greeting)

        assert frame.farewell.kind == pb.INVALID_ARGUMENT
        assert frame.farewell.fate == pb.REJECTED
        assert message in frame.farewell.message
        assert await client.next_or_end() is None


async def test_who_acts_for_no_broker_need_not_know_the_cluster(world: LocalWorld) -> None:
    async with raw(await door_of(world)) as client:
        assert (await client.greet(greeting_of(""))).greeting.cluster_id == CLUSTER


async def test_a_newer_client_that_speaks_this_version_too_is_let_in(world: LocalWorld) -> None:
    greeting = pb.ClientGreeting(version_min=1, version_max=7, cluster_id=CLUSTER)
    async with raw(await door_of(world)) as client:
        assert (await client.greet(greeting)).greeting.version == 1


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (b"\xff\xff\xff", "expected a ClientFrame"),
        (b"", "expected a greeting"),
        (pb.ClientFrame(calls=[question(1)]), "expected a greeting"),
    ],
)
async def test_a_stream_that_begins_with_something_else_ends(
    world: LocalWorld, first: pb.ClientFrame | bytes, message: str
) -> None:
    async with raw(await door_of(world)) as client:
        await client.send(first)
        assert message in (await client.farewell()).message


async def test_garbage_on_the_port_hurts_nobody(world: LocalWorld) -> None:
    host, _, port = (await door_of(world)).rpartition(":")
    manager = await world.leader(TIP)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(range(256)) * 50)
    async with asyncio.timeout(20):
        while await reader.read(1000):
            pass  # What gRPC says; then it ends the connection.
    writer.close()

    await copy(manager, segment(0))
    assert await listed(manager) == [0]


# Calls.


async def test_calls_that_are_none_are_refused_and_name_the_field(
    world: LocalWorld, client: RawClient
) -> None:
    claim = cmd.Claim(1, 1, 1)
    calls = [write(number, claim) for number in range(1, 7)]
    calls[0].write.partition.topic_id = b"short"
    calls[1].write.ClearField("claim")
    calls[2].write.ClearField("change")
    calls[3].write.add.ClearField("segment_leader_epochs")
    calls[4].write.add.end_offset = -1
    calls[5].write.request_id = bytes(65)
    asked = [question(7, kind=99), question(8), pb.Call(id=9), question(10)]  # type: ignore[arg-type]
    asked[1].question.role = 77  # type: ignore[assignment] # As a newer client may say.
    asked[3].question.partition.partition = -1
    named = ["topic_id", "claim", "change", "segment_leader_epochs", "end_offset"]
    named += ["request_id", "kind", "role", "ask", "partition"]

    answers = await client.ask(*calls, *asked)

    assert [one.failure.kind for one in answers] == [pb.INVALID_ARGUMENT] * len(named)
    for name, answer in zip(named, answers, strict=True):
        assert name in answer.failure.message


@pytest.mark.parametrize("ids", [[0], [2, 1], [3, 3]])
async def test_ids_that_do_not_grow_end_the_stream(client: RawClient, ids: list[int]) -> None:
    await client.send(pb.ClientFrame(calls=map(question, ids)))

    assert "expected an id above" in (await client.farewell()).message


async def test_a_write_is_durable_and_a_repeat_of_it_is_known(
    world: LocalWorld, client: RawClient
) -> None:
    manager = await world.leader(TIP)
    claim = manager.claim_to_lead(TIP)
    assert claim is not None

    first = await client.ask(write(1, claim, 4))
    again = await client.ask(write(2, claim, 4), question(3))

    assert first[0].written.position == again[0].written.position == 1
    assert again[1].found.position >= 1
    assert again[1].found.WhichOneof("value") is None
    kinds = [type(one.body).__name__ for one in await world.events(TIP)]
    assert kinds == ["SessionOpened", "SegmentAdded"]


async def test_the_coordinator_is_asked_through_any_host(
    world: LocalWorld, client: RawClient
) -> None:
    await world.leader(TIP)
    of = pb.StatusQuestion
    answers = await client.ask(
        pb.Call(id=1, hosts=pb.HostsQuestion()),
        pb.Call(id=2, route=pb.RouteQuestion(partitions=[PARTITION])),
        pb.Call(id=3, status=of(of=of.SERVICE)),
        pb.Call(id=4, status=of(of=of.HOST)),
        pb.Call(id=5, status=of(of=of.PARTITIONS)),
        pb.Call(id=6, status=of()),
    )

    door = await door_of(world)
    assert [(one.address, one.door) for one in answers[0].hosts.hosts] == [("host-0/1", door)]
    assert answers[1].routes.routes[0].leader.door == door
    assert json.loads(answers[2].status.json)["partitions"] == 1
    assert json.loads(answers[3].status.json)["door"] == door
    assert [one["role"] for one in json.loads(answers[4].status.json)] == ["leader"]
    assert "status.of" in answers[5].failure.message


# Passing on.


async def test_a_host_tells_how_long_calls_at_its_door_took(
    world: LocalWorld, client: RawClient
) -> None:
    manager = await world.leader(TIP)
    claim = manager.claim_to_lead(TIP)
    assert claim is not None
    before = await _calls_at(world)

    await client.ask(write(1, claim), write(2, claim._replace(announcement=0), wanted=1))
    await client.ask(question(3), question(4, pb.QUESTION_KIND_UNSPECIFIED), pb.Call(id=5))
    unknown = pb.Question(partition=pb.Partition(topic_id=bytes(16)), role=pb.LEADER)
    unknown.kind = pb.LOOKUP
    await client.ask(pb.Call(id=6, question=unknown))

    assert await _calls_at(world) - before == Counter(
        {
            ("add", "ok"): 1,
            ("add", "fenced_off"): 1,
            ("highest_offset", "ok"): 1,
            ("?", "rejected"): 2,
            ("lookup", "rejected"): 1,
        }
    )


async def _calls_at(world: LocalWorld) -> Counter[tuple[str, str]]:
    """Calls that were answered at host-0, by operation and outcome."""
    counts = await world.service.host("host-0").ask(CountsCall())
    return Counter(
        {
            (operation, outcome): told["upto_s"][-1][1]
            for outcome, operations in counts["door_times"].items()
            for operation, told in operations.items()
        }
    )


async def test_any_host_answers_and_tells_the_better_address(tmp_path: Path) -> None:
    async with served(tmp_path, hosts=2) as world:
        tips = [partition(number) for number in range(4)]
        manager = await world.leader(*tips)
        keys = [PartitionKey.of(tip) for tip in tips]
        routes = await world.service.coordinator.route(keys)
        assert {route.leader_host for route in routes} == {"host-0/1", "host-1/1"}
        far = next(
            tip for tip, one in zip(tips, routes, strict=True) if one.leader_host == "host-1/1"
        )
        await copy(manager, segment(0, far))

        async with greeted(await door_of(world)) as client:
            where = pb.Partition(topic_id=TOPIC_ID, partition=far.partition)
            asked = pb.Question(partition=where, role=pb.LEADER, kind=pb.HIGHEST_OFFSET)
            answers = await client.ask(
                pb.Call(id=1, question=asked),
                pb.Call(id=2, question=asked, host="host-1/1"),
                pb.Call(id=3, question=asked, host="host-9/1"),
                pb.Call(
                    id=4, status=pb.StatusQuestion(of=pb.StatusQuestion.HOST), host="host-1/1"
                ),
            )

        for answer in answers[:2]:
            assert answer.found.number == 9
            assert answer.better_door == await door_of(world, "host-1")
        assert answers[2].failure.kind == pb.NOT_READY
        assert json.loads(answers[3].status.json)["host"] == "host-1"


async def test_a_host_passes_calls_on_to_where_a_partition_is_led_by_then(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, hosts=3) as world:
        tips = [partition(number) for number in range(4)]
        await world.leader(*tips)
        keys = [PartitionKey.of(tip) for tip in tips]
        routes = await world.service.coordinator.route(keys)
        far, key = next(
            (tip, PartitionKey.of(tip))
            for tip, one in zip(tips, routes, strict=True)
            if one.leader_host == "host-1/1"
        )
        where = pb.Partition(topic_id=TOPIC_ID, partition=far.partition)
        asked = pb.Question(partition=where, role=pb.LEADER, kind=pb.HIGHEST_OFFSET)

        async with greeted(await door_of(world)) as client:
            numbers = count(1)

            async def answer() -> pb.Answer:
                (found,) = await client.ask(pb.Call(id=next(numbers), question=asked))
                return found

            assert not (await answer()).HasField("failure")
            state = world.service.coordinator._machine.state
            move = Move(key, "host-1", "host-2", state.next_position)
            world.service.coordinator._feed(Requested(None, Balance(move)))
            await eventually(lambda: world.service.host("host-2").host.serves(key, LEADER))
            await eventually(lambda: not world.service.host("host-1").host.serves(key, LEADER))

            async def is_answered() -> bool:
                return not (await answer()).HasField("failure")

            await eventually(is_answered)


async def test_a_client_that_reaches_one_host_only_can_do_everything(tmp_path: Path) -> None:
    async with served(tmp_path, hosts=2) as world:
        door = await door_of(world)
        connection = await connect_at(f"tierledger://{door}")(
            ServiceSettings(CLUSTER, world.storage)
        )
        connection._doors = _Forgetful()

        async def way() -> Any:  # noqa: ANN401
            return found

        async def found(_: ServiceSettings) -> Any:  # noqa: ANN401
            return connection

        world.way = way  # type: ignore[method-assign]
        tips = [partition(number) for number in range(4)]
        manager = await world.leader(*tips)
        for number, tip in enumerate(tips):
            await copy(manager, segment(number, tip))

        assert [await listed(manager, tip) for tip in tips] == [[0], [1], [2], [3]]
        assert connection._streams.doors == [door]


class _Forgetful(dict[str, str]):
    """As if the other doors were behind a wall."""

    @override
    def get(self, *_: object) -> Any:
        return None


# Addresses.


@pytest.mark.parametrize("text", ["127.0.0.1:0", "[::1]:4711", "host.example:65535"])
def test_addresses_are_read_as_they_are_written(text: str) -> None:
    assert str(DoorAddress.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "host", ":1", "host:", "host:65536", "host:-1", "::1:5", "[host]:1", "h:٣"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="HOST:PORT"):
        DoorAddress.parse(text)


def test_a_url_names_doors() -> None:
    assert doors_in("tierledger://a:1,[::1]:2") == ["a:1", "[::1]:2"]
    for wrong in ("http://a:1", "tierledger://", "tierledger://a:0", "tierledger://a:1,"):
        with pytest.raises(InvalidArgument):
            doors_in(wrong)


def test_hosts_take_ports_in_a_row_and_are_advertised_so() -> None:
    plain = DoorSettings("127.0.0.1:4711")
    named = DoorSettings("0.0.0.0:4711", "kafka.example")
    mapped = DoorSettings("[::]:4711", "kafka.example:80")
    bound = DoorAddress("0.0.0.0", 4713)  # noqa: S104

    assert str(plain.listen(2)) == plain.advertised(2, plain.listen(2)) == "127.0.0.1:4713"
    assert named.advertised(2, bound) == "kafka.example:4713"
    assert mapped.advertised(2, bound) == "kafka.example:82"
    for ip, dashed in (("10.0.0.7", "10-0-0-7"), ("fd00::7", "fd00--7")):
        pod = DoorSettings("0.0.0.0:4711", "{node}.doors.ns.svc", lambda ip=ip: ip)  # type: ignore[misc]
        assert pod.advertised(2, bound) == f"{dashed}.doors.ns.svc:4713"
    with pytest.raises(InvalidArgument, match="advertise"):
        DoorSettings("0.0.0.0:4711")
    with pytest.raises(InvalidArgument, match="up to 65535"):
        DoorSettings("127.0.0.1:65535").listen(1)


async def test_a_taken_port_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = DoorAddress("127.0.0.1", taken.getsockname()[1])
        gateway = Gateway(_NoDesk(), CLUSTER)  # type: ignore[arg-type] # Nobody gets so far.
        with pytest.raises(NotReady, match=f"{listen} cannot be listened on"):
            await gateway.start(listen)


async def test_a_port_is_not_shared_with_another_host(world: LocalWorld) -> None:
    listen = DoorAddress.parse(await door_of(world))
    gateway = Gateway(_NoDesk(), CLUSTER)  # type: ignore[arg-type] # Nobody gets so far.
    with pytest.raises(NotReady, match="cannot be listened on"):
        await gateway.start(listen)


class _NoDesk:
    address = "host-0/1"


def test_ports_that_are_taken_are_said_before_anything_starts() -> None:
    port = free_ports(2)
    with (
        socket.create_server(("127.0.0.1", port + 1)),
        pytest.raises(InvalidArgument, match=f"{port + 1}: Address already in use; --listen"),
    ):
        DoorSettings(f"127.0.0.1:{port}").refuse_taken(2)
    with pytest.raises(InvalidArgument, match="cannot listen on 192"):
        DoorSettings("192.0.2.1:4711").refuse_taken(1)


async def test_ipv6_is_spoken(tmp_path: Path) -> None:
    async with LocalWorld(sqlite_in(tmp_path), door=DoorSettings("[::1]:0")) as world:
        manager = await world.leader(TIP)
        await copy(manager, segment(0))

        assert (await door_of(world)).startswith("[::1]:")
        assert await listed(manager) == [0]


async def test_a_client_at_the_wrong_door_hears_why(world: LocalWorld) -> None:
    door = await door_of(world)
    with pytest.raises(InvalidArgument, match="not 'another'"):
        await connect_at(f"tierledger://{door}")(ServiceSettings("another", world.storage))
