"""A call's id: the same for the caller, in errors, in hosts' logs, and in the log's events."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from tests.actors.door.clients import door_of, greeted, served
from tests.actors.door.test_bad_days import HeldDoor
from tests.models.actors.local_world import LocalWorld, copy, partition, segment
from tests.models.captured_logs import captured_logs
from tierledger.actors.calls import LEADER, CommandCall, PartitionKey, QueryCall
from tierledger.actors.deadline import Deadline
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.server import call_record
from tierledger.actors.door.wire.calls import put_write
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidStateTransition, NotLeader
from tierledger.events.log_events import Origin
from tierledger.storage.partition.reader import PartitionReader

TIP = partition()
NOWHERE = pb.Partition(topic_id=bytes(16), topic="evil\nname", partition=1)

Line = MutableMapping[str, Any]


def calls_in(lines: list[Line]) -> list[Line]:
    return [one for one in lines if "request" in one]


def question(number: int, request_id: bytes = b"") -> pb.Call:
    asked = pb.Question(partition=NOWHERE, role=pb.LEADER, kind=pb.LOOKUP)
    return pb.Call(id=number, question=asked, request_id=request_id)


async def test_a_refused_write_has_one_id_for_the_caller_and_in_the_log(
    world: LocalWorld,
) -> None:
    manager = await world.leader(TIP)
    await manager.add_remote_log_segment_metadata(segment(0))

    with captured_logs() as lines, pytest.raises(InvalidStateTransition) as refused:
        await manager.add_remote_log_segment_metadata(segment(0, size=99))

    (line,) = calls_in(lines)
    assert line["event"] == "a call was refused"
    assert (line["operation"], line["outcome"]) == ("add", "rejected")
    assert (line["partition"], line["log_level"]) == (str(TIP), "info")
    assert str(refused.value).endswith(f"(request {line['request']})")
    assert str(refused.value).count("(request") == 1


async def test_the_id_of_a_write_that_took_long_is_that_of_its_event(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_record, "SLOW_S", 0.0)
    manager = await world.leader(TIP)

    with captured_logs() as lines:
        await copy(manager, segment(0))

    slow = [one for one in calls_in(lines) if one["operation"] in {"add", "update"}]
    assert {one["event"] for one in slow} == {"a call took long"}
    _session, *writes = await requests_of(world)
    assert [one["request"] for one in slow] == writes


async def requests_of(world: LocalWorld) -> list[str]:
    """The request ids of a partition's events, as `tierledger log` shows them."""
    host = world.service.host("host-0").host
    reader = PartitionReader(host.backend, host.keys, host.serde, host.cluster_id, TIP)
    events = [event async for event in reader.events()]
    return [one.request_id.hex() for one in events if one.request_id is not None]


async def test_all_attempts_of_a_question_have_one_id(world: LocalWorld) -> None:
    await world.leader(TIP)
    router, key = (await world.follower(TIP))._connected(), PartitionKey.of(TIP)
    of_another = QueryCall(PartitionKey(bytes(16), 0), LEADER, Query("lookup", 0, 0))

    with captured_logs() as lines, pytest.raises(NotLeader) as late:
        await router.ask(key, LEADER, lambda _: of_another, Deadline(0.5))

    attempts = [one["request"] for one in calls_in(lines)]
    assert len(attempts) > 1
    assert len(set(attempts)) == 1
    assert f"(request {attempts[0]})" in str(late.value)


async def test_hosts_that_pass_a_call_on_name_it_alike(tmp_path: Path) -> None:
    async with served(tmp_path, hosts=2) as world:
        tips = [partition(number) for number in range(4)]
        manager = await world.leader(*tips)
        routes = await world.service.coordinator.route([PartitionKey.of(tip) for tip in tips])
        far = next(
            tip for tip, one in zip(tips, routes, strict=True) if one.leader_host == "host-1/1"
        )
        claim = manager.claim_to_lead(far)
        assert claim is not None
        command = cmd.AddSegment(
            claim._replace(announcement=0), Origin(1, b"passed"), segment(0, far)
        )
        call = pb.Call(id=1)
        put_write(CommandCall(PartitionKey.of(far), command), call.write)
        async with greeted(await door_of(world)) as client:
            with captured_logs() as lines:
                (answer,) = await client.ask(call)

    assert answer.failure.kind == pb.FENCED
    assert [one["request"] for one in calls_in(lines)] == [b"passed".hex()] * 2


async def test_a_call_without_an_id_gets_one_that_its_caller_is_told(
    world: LocalWorld,
) -> None:
    async with greeted(await door_of(world)) as client:
        with captured_logs() as lines:
            answers = await client.ask(question(1), question(2), question(3, b"mine"))

    told = [one.failure.request_id for one in answers]
    assert told == [b"host-0/1#1", b"host-0/1#2", b"mine"]
    assert {one["request"] for one in calls_in(lines)} == {one.hex() for one in told}
    assert all("\n" not in one["request"] for one in calls_in(lines))


async def test_an_id_that_is_too_long_is_refused_and_cut_in_the_log(world: LocalWorld) -> None:
    async with greeted(await door_of(world)) as client:
        with captured_logs() as lines:
            (answer,) = await client.ask(question(1, b"\n" * 65))

    assert "expected 0 to 64 bytes for request_id, got 65" in answer.failure.message
    assert [one["request"] for one in calls_in(lines)] == ["0a" * 64]


async def test_a_flood_of_refusals_is_logged_in_part_and_hides_no_call_in_doubt() -> None:
    async with HeldDoor() as held, greeted(held.door) as client:
        with captured_logs() as lines:
            await client.ask(*(question(number, b"\n" * 65) for number in range(1, 301)))
            late = pb.Call(id=301, deadline_ms=1, write=pb.Write(request_id=b"late"))
            late.write.partition.topic_id = bytes(16)
            late.write.claim.broker_id = 1
            late.write.delete.state = pb.DELETE_PARTITION_MARKED
            (answer,) = await client.ask(late)

    refused = [one for one in calls_in(lines) if one["event"] == "a call was refused"]
    assert call_record.LINES_MAX <= len(refused) < 200
    assert answer.failure.fate == pb.UNKNOWN
    (doubt,) = [one for one in calls_in(lines) if one["event"] == "a call is in doubt"]
    assert bytes.fromhex(doubt["request"]) == b"late"
    assert doubt["log_level"] == "warning"
