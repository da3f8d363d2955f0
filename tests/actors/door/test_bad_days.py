"""Clients and hosts that hang, flood, vanish or freeze: a clear error, no other call waits."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from tests.actors.door.clients import door_of, greeted, raw
from tests.models.actors.local_world import (
    CLUSTER,
    TOPIC_ID,
    CountedIds,
    LocalWorld,
    copy,
    eventually,
    hasty,
    lead,
    listed,
    partition,
    segment,
)
from tierledger.actors.calls import Answered, CommandCall, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.door.client import streams
from tierledger.actors.door.client.connection import connect_at, greeting_of
from tierledger.actors.door.client.streams import Stream, Streams
from tierledger.actors.door.limits import DoorLimits
from tierledger.actors.door.server.conversation import Conversation, Unread
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.door.wire.calls import put_write
from tierledger.actors.host.answering import PAGE_ROWS
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RemoteStorageError,
)
from tierledger.events.log_events import Origin

TIP = partition()
CLAIM = cmd.Claim(1, 1, 1)
PARTITION = pb.Partition(topic_id=TOPIC_ID, partition=0, topic="orders")


def question(number: int = 0, kind: pb.QuestionKind = pb.HIGHEST_OFFSET) -> pb.Call:
    asked = pb.Question(partition=PARTITION, role=pb.LEADER, kind=kind)
    return pb.Call(id=number, question=asked)


class HeldHost:
    """A host that serves everything, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Any]] = []

    def serves(self, *_: object) -> bool:
        return True

    def call(self, _: object) -> asyncio.Future[Any]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    def answer(self, call: object, then: Callable[[object], None], _reader: object) -> int:
        asked = self.call(call)
        asked.add_done_callback(lambda one: None if one.cancelled() else then(one.result()))
        return len(self.asked) - 1

    def drop_call(self, number: int) -> None:
        self.asked[number].cancel()


class HeldDoor:
    """A door with such a host behind it."""

    def __init__(
        self,
        address: str = "host-0/1",
        others: dict[str, str] | None = None,
        **limits: Any,  # noqa: ANN401 - Of `DoorLimits`.
    ) -> None:
        """`others`: doors of the other hosts, as a coordinator would tell."""
        self._others = others or {}
        self.host = HeldHost()
        peers = Streams(greeting_of(CLUSTER))
        desk = Desk(address, self.host, self, peers)  # type: ignore[arg-type] # As is asked.
        self.gateway = Gateway(desk, CLUSTER, DoorLimits(**limits))
        self.door = ""
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> "HeldDoor":
        self.door = str(await self.gateway.start(DoorAddress("127.0.0.1", 0)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()
        await self.gateway.abandon()

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Its answer.
        return await request.put_to(self)

    async def doors(self) -> dict[str, str]:
        return self._others

    async def stream(self) -> Stream:
        """A stream, which is closed with the door."""
        stream = await Stream.opened(self.door, greeting_of(CLUSTER))
        self._opened.push_async_callback(stream.close)
        return stream


async def stream_to(world: LocalWorld) -> Stream:
    """The stream of a connection that is closed with the world."""
    connect = connect_at(f"tierledger://{await door_of(world)}")
    connection = await connect(ServiceSettings(CLUSTER, world.storage))
    world.opened.push_async_callback(connection.close)
    return await connection.any()


def write(wanted: int, claim: cmd.Claim = CLAIM) -> pb.Call:
    call = pb.Call()
    command = cmd.AddSegment(claim, Origin(1, b"%d" % wanted), segment(wanted))
    put_write(CommandCall(PartitionKey.of(TIP), command), call.write)
    return call


# Too much.


async def test_ten_thousand_calls_at_once_are_all_answered_once(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    await copy(manager, segment(0))
    stream = await stream_to(world)

    answers = await asyncio.gather(*(stream.ask(question()) for _ in range(10_000)))

    refused = [answer for answer in answers if answer.HasField("failure")]
    assert {answer.failure.kind for answer in refused} <= {pb.OVERLOADED}
    found = {one.found.number for one in answers if not one.HasField("failure")}
    assert found == {9}
    assert await manager.highest_offset_for_epoch(TIP, 0) == 9


async def test_a_flood_of_writes_is_bounded_and_says_what_was_refused(
    world: LocalWorld,
) -> None:
    manager = await world.leader(TIP)
    claim = manager.claim_to_lead(TIP)
    assert claim is not None
    stream = await stream_to(world)

    answers = await asyncio.gather(*(stream.ask(write(one, claim)) for one in range(3000)))

    results = [answer.WhichOneof("result") for answer in answers]
    refused = {answer.failure.kind for answer in answers if answer.HasField("failure")}
    assert set(results) <= {"written", "failure"}
    assert refused <= {pb.OVERLOADED}
    assert len(await listed(manager)) == results.count("written")


async def test_calls_beyond_the_limit_are_read_once_there_is_room() -> None:
    async with HeldDoor(calls_max=3) as held, greeted(held.door) as client:
        await client.send(pb.ClientFrame(calls=map(question, range(1, 11))))
        asked = held.host.asked
        answered: list[int] = []
        for number in range(10):
            await eventually(lambda: len(asked) >= min(10, number + 3))  # noqa: B023
            assert len(asked) == min(10, number + 3)
            asked[number].set_result(True)
            frame = await client.next()
            answered += [answer.id for answer in frame.answers]

        assert answered == list(range(1, 11))


async def test_calls_without_an_answer_are_counted_with_their_time() -> None:
    async with HeldDoor() as held, greeted(held.door) as client:
        late = pb.Call(id=2, deadline_ms=20, write=write(0).write)
        await client.send(pb.ClientFrame(calls=[question(1), late, question(3)]))
        assert (await client.next()).answers[0].failure.fate == pb.UNKNOWN
        await client.send(pb.ClientFrame(cancelled=[1]))
        await client.close()
        times = held.gateway.record.times
        await eventually(lambda: len(times.plain()) == 2)
        await eventually(
            lambda: dict(times.plain()["cancelled"]["highest_offset"]["upto_s"])[None] == 2
        )

    added = times.plain()["unknown"]["add"]
    assert dict(added["upto_s"])[0.01] == 0
    assert 0.02 <= added["sum_s"] < 5


async def test_a_frame_that_is_too_long_ends_the_stream_and_no_other(world: LocalWorld) -> None:
    door = await door_of(world)
    async with greeted(door) as client, greeted(door) as other:
        await client.send(bytes(DoorLimits().frame_bytes_max + 1))
        with pytest.raises(grpc.aio.AioRpcError, match="RESOURCE_EXHAUSTED"):
            await client.next()

        (answer,) = await other.ask(question(1))
        assert answer.failure.kind in {pb.NOT_LEADER, pb.REMOTE_RESOURCE_NOT_FOUND}


async def test_our_client_does_not_send_what_is_too_long() -> None:
    async with HeldDoor(frame_bytes_max=1000) as held:
        stream = await held.stream()
        with pytest.raises(InvalidArgument, match="at most 984 bytes"):
            await stream.ask(pb.Call(next_page=pb.NextPage(cursor="x" * 1000)))
        assert held.host.asked == []


async def test_one_connection_too_many_is_told_so() -> None:
    async with HeldDoor(connections_max=1) as held:
        first = await held.stream()
        with pytest.raises(Overloaded, match="1 connections are open"):
            await held.stream()
        await first.close()
        while True:
            try:
                await (await held.stream()).close()
                break
            except Overloaded:  # Its end is on its way.
                await asyncio.sleep(0.01)


async def test_who_says_nothing_is_not_waited_for() -> None:
    async with HeldDoor(greeting_s=0.1) as held, raw(held.door) as mute:
        assert "a greeting within 0.1 s" in (await mute.farewell()).message


async def test_who_never_reads_is_cut_off_and_nobody_else_waits(tmp_path: Path) -> None:
    async with HeldDoor(reading_s=0.5) as held, greeted(held.door) as deaf:
        other = await held.stream()
        count = 300
        await deaf.send(pb.ClientFrame(calls=map(question, range(1, count + 1))))
        await eventually(lambda: len(held.host.asked) == count)
        for one in held.host.asked:
            one.set_result(_page())
        await eventually(lambda: len(held.gateway._conversations) == 1)

        asked = asyncio.ensure_future(other.ask(question()))
        await eventually(lambda: len(held.host.asked) == count + 1)
        held.host.asked[-1].set_result(True)
        assert (await asked).ready.is_ready


def _page() -> object:
    return Answered([bytes(100)] * PAGE_ROWS, 5)


async def test_answers_that_pile_up_unread_end_the_stream() -> None:
    async with HeldDoor(unread_bytes_max=1_000_000) as held, greeted(held.door) as client:
        await client.send(pb.ClientFrame(calls=map(question, range(1, 31))))
        await eventually(lambda: len(held.host.asked) == 30)
        for one in held.host.asked:
            one.set_result(_page())
        farewell = await client.farewell()

        assert farewell.kind == pb.OVERLOADED
        assert "were not read" in farewell.message


class UnreadStream:
    """A stream with so many unread bytes, and why it was ended."""

    def __init__(self, unread_bytes: int) -> None:
        self.unread_bytes = unread_bytes
        self.farewells: list[RemoteStorageError] = []

    def end(self, error: RemoteStorageError) -> None:
        self.farewells.append(error)


def test_the_stream_with_the_most_unread_bytes_is_ended_if_all_have_too_many() -> None:
    unread = Unread(DoorLimits(unread_bytes_max=100))
    few, many = UnreadStream(30), UnreadStream(70)
    for one in (few, many):
        unread.count(one, one.unread_bytes)  # type: ignore[arg-type] # All that is asked of it.
    assert not many.farewells

    few.unread_bytes = 31
    unread.count(few, 1)  # type: ignore[arg-type]

    assert [str(one) for one in many.farewells] == ["70 bytes of answers were not read"]
    assert not few.farewells
    unread.left(many)  # type: ignore[arg-type]
    unread.count(few, 1)  # type: ignore[arg-type]
    assert len(many.farewells) == 1


# Given up.


async def test_a_call_that_is_cancelled_costs_nothing_further() -> None:
    async with HeldDoor() as held:
        stream = await held.stream()
        asked = asyncio.ensure_future(stream.ask(question()))
        await eventually(lambda: held.host.asked)
        asked.cancel()
        await eventually(held.host.asked[0].cancelled)

        (conversation,) = held.gateway._conversations
        assert conversation._open == {}
        assert conversation._unwritten == 0
        again = asyncio.ensure_future(stream.ask(question()))
        await eventually(lambda: len(held.host.asked) == 2)
        held.host.asked[1].set_result(True)
        assert (await again).ready.is_ready


async def test_a_question_that_is_given_up_is_forgotten_by_the_partition(
    world: LocalWorld,
) -> None:
    manager = await world.follower(TIP)
    host = world.service.host("host-0").host
    (shell,) = host._shells.values()
    manager.observe(TIP, 10_000)
    asked = asyncio.ensure_future(manager.highest_offset_for_epoch(TIP, 0))
    await eventually(lambda: shell.machine.waiting == 1)
    asked.cancel()

    await eventually(lambda: shell.machine.waiting == 0)
    assert host._replies == {}


async def test_a_deadline_that_has_passed_leaves_a_write_unknown_and_a_page_unready() -> None:
    async with HeldDoor() as held:
        stream = await held.stream()
        late = write(1)
        late.deadline_ms = 50
        page = pb.Call(deadline_ms=50, next_page=pb.NextPage(cursor="host-0/1/a/1"))
        answers = await asyncio.gather(stream.ask(late), stream.ask(page))

        assert [one.failure.kind for one in answers] == [pb.OUTCOME_UNKNOWN, pb.NOT_READY]
        assert [one.failure.fate for one in answers] == [pb.UNKNOWN, pb.RETRYABLE]
        assert all(one.cancelled() for one in held.host.asked)


async def test_a_write_that_was_passed_on_and_is_late_is_unknown() -> None:
    async with (
        HeldDoor("host-1/1") as far,
        HeldDoor("host-0/1", {"host-1/1": far.door}) as near,
    ):
        stream = await near.stream()
        late = write(1)
        late.deadline_ms, late.host = 300, "host-1/1"
        answer = await stream.ask(late)

        assert answer.failure.kind == pb.OUTCOME_UNKNOWN
        assert len(far.host.asked) == 1
        await eventually(far.host.asked[0].cancelled)
        assert near.host.asked == []


async def test_a_host_that_fails_at_a_call_fails_at_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with HeldDoor() as held:
        stream, other = await held.stream(), await held.stream()
        waiting = asyncio.ensure_future(other.ask(question()))
        await eventually(lambda: held.host.asked)
        monkeypatch.setattr(held.host, "serves", lambda *_: 1 / 0)
        with pytest.raises(OutcomeUnknown, match="ZeroDivisionError"):
            await stream.ask(question())

        held.host.asked[0].set_result(True)
        assert (await waiting).ready.is_ready


async def test_a_client_that_vanishes_leaves_nothing_behind() -> None:
    async with HeldDoor() as held:
        async with greeted(held.door) as client:
            await client.send(pb.ClientFrame(calls=[question(1), question(2)]))
            await eventually(lambda: len(held.host.asked) == 2)

        await eventually(lambda: not held.gateway._conversations)
        assert all(one.cancelled() for one in held.host.asked)
        assert held.gateway._connections == 0


async def test_a_host_that_goes_away_leaves_what_was_sent_unknown() -> None:
    async with HeldDoor() as held:
        stream = await held.stream()
        asked = asyncio.ensure_future(stream.ask(write(1)))
        await eventually(lambda: held.host.asked)
        await held.gateway.abandon()

        with pytest.raises(OutcomeUnknown):
            await asked
        with pytest.raises(NotReady):
            await stream.ask(write(2))
        with pytest.raises(NotReady, match="nothing listens there"):
            await held.stream()


async def test_a_host_that_closes_says_farewell() -> None:
    async with HeldDoor() as held:
        stream = await held.stream()
        asked = asyncio.ensure_future(stream.ask(write(1)))
        await eventually(lambda: held.host.asked)
        await held.gateway.close()

        with pytest.raises(OutcomeUnknown, match="the host is closing"):
            await asked


async def test_a_stream_ends_if_a_library_cancels_its_reader() -> None:
    class Context:
        async def read(self) -> bytes:
            raise asyncio.CancelledError

    some: Any = None  # Nothing is asked, so nobody needs them.
    context: Any = Context()
    async with asyncio.timeout(5):
        await Conversation(some, DoorLimits(), context, some).run()


# Half open, and frozen.


@pytest.mark.parametrize(
    ("calls_max", "deadline_ms", "is_left"), [(3, 0, True), (1, 0, False), (1, 20, True)]
)
async def test_a_full_host_is_not_pinged_and_left_once_it_is_overdue(
    monkeypatch: pytest.MonkeyPatch, calls_max: int, deadline_ms: int, *, is_left: bool
) -> None:
    class Frozen:
        """A host that greets, and reads no more than two frames."""

        def __init__(self) -> None:
            self.written = 0
            self.never = asyncio.get_running_loop().create_future()
            greeting = pb.HostGreeting(frame_bytes_max=1000, calls_max=calls_max)
            self.frames = [pb.HostFrame(greeting=greeting).SerializeToString()]

        async def read(self) -> bytes:
            return self.frames.pop() if self.frames else await self.never

        async def write(self, _: bytes) -> None:
            self.written += 1
            if self.written > 2:
                await self.never

        def cancel(self) -> None:
            self.never.cancel()

        async def close(self) -> None:
            pass

    monkeypatch.setattr(streams, "PING_AFTER_S", 0.01)
    monkeypatch.setattr(streams, "PING_TIMEOUT_S", 0.05)
    frozen: Any = Frozen()
    stream = await Stream.greeted("nowhere:1", greeting_of(CLUSTER), frozen, frozen)
    asked = []
    for number in range(5):
        call = question(number)
        call.deadline_ms = deadline_ms
        asked.append(asyncio.ensure_future(stream.ask(call)))
        await asyncio.sleep(0)
    await eventually(lambda: frozen.written == 3)

    if is_left:
        await eventually(lambda: stream.ended is not None)
    else:
        await asyncio.sleep(0.3)
        assert stream.ended is None
    await stream.close()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(error) for error in ended} == {NotReady, OutcomeUnknown}


FROZEN_HOST = """
import asyncio, sys
from pathlib import Path
from tests.actors.door.clients import door_of, served

async def main():
    async with served(Path(sys.argv[1])) as world:
        print(await door_of(world), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_frozen_host_leaves_writes_unknown_in_time_and_goes_on_when_it_thaws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        FROZEN_HOST,
        str(tmp_path),
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        door = (await process.stdout.readline()).decode().split()[-1]
        manager = AsyncRemoteLogMetadataManager(
            connect_at(f"tierledger://{door}"), CountedIds(), deadline_s=20.0
        )
        config = {"cluster.id": CLUSTER, "broker.id": 1, "metadata.storage.url": "memory:"}
        await manager.configure(config)
        await lead(manager, TIP)
        await manager.add_remote_log_segment_metadata(segment(0))

        process.send_signal(signal.SIGSTOP)
        with hasty(manager, 1), monkeypatch.context() as soon:
            soon.setattr(streams, "OPEN_S", 0.3)
            with pytest.raises(OutcomeUnknown, match="no answer within 1 s"):
                await manager.add_remote_log_segment_metadata(segment(1))
            with pytest.raises(NotReady):
                await manager.highest_offset_for_epoch(TIP, 0)
            # A new connection is accepted by the system alone; nobody greets.
            with pytest.raises(NotReady, match="no greeting within"):
                await Stream.opened(door, greeting_of(CLUSTER))
        process.send_signal(signal.SIGCONT)

        await manager.add_remote_log_segment_metadata(segment(1))
        assert await listed(manager) == [0, 1]
        await manager.close()
    finally:
        process.kill()
        await process.wait()
