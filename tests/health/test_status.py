"""A service's status, made of the answers of its coordinator and hosts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.models.actors.local_world import (
    CLUSTER,
    KEYS,
    POLL_S,
    LocalWorld,
    copy,
    partition,
    segment,
    sqlite_in,
)
from tests.models.actors.reports import (
    TOPIC_ID,
    SpokenHost,
    SpokenService,
    counts,
    host,
    reading,
    served,
    session,
    silent,
)
from tests.models.storage.flipped_bits import flipped
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.events import Route
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.no_brokers import IMPORTER, OBSERVER
from tierledger.events.commands import Claim
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.identifiers import Uuid
from tierledger.health import reading as service_reading
from tierledger.health.reading import read_service
from tierledger.health.status import (
    BEHIND,
    HOST_SILENT,
    LAG_NOTED_EVENTS,
    LOADING,
    NO_LEADER,
    NO_SESSION,
    QUARANTINED,
    TROUBLES,
    HostReading,
    status_of,
)

CLAIM = Claim(1, 2, 3)


def test_a_lag_is_the_events_between_the_positions_of_leader_and_follower() -> None:
    hosts = {
        "host-0": host(served(0, position=10)),
        "host-1": host(served(0, "follower", position=7)),
        "host-2": host(served(0, "follower", position=12)),
    }

    (one,) = status_of(reading(hosts)).partitions

    assert one.leader is not None
    assert (one.leader.host, one.leader.lag_events, one.position) == ("host-0", None, 12)
    # The second was read after the leader: it is not ahead, it is not behind.
    assert [(f.host, f.lag_events) for f in one.followers] == [("host-1", 3), ("host-2", 0)]
    assert one.trouble is None


def test_what_is_worst_comes_first_and_is_counted() -> None:
    far = 10 + LAG_NOTED_EVENTS
    hosts = {
        "host-0": host(
            served(1),
            served(2, position=far),
            served(2, "follower"),
            served(3, session=session(is_open=False)),
            served(4, phase="loading", session=None),
            served(5, "follower"),
            served(6, "follower"),
            served(7, phase="quarantined", reason="a checksum is wrong"),
        ),
        "host-1": silent(),
    }
    placed = {(TOPIC_ID, 5): None, (TOPIC_ID, 6): "host-1"}

    status = status_of(reading(hosts, placed))

    found = [(one.partition, one.trouble) for one in status.partitions]
    expected = [QUARANTINED, HOST_SILENT, NO_LEADER, LOADING, NO_SESSION, BEHIND, None]
    assert found == list(zip([7, 6, 5, 4, 3, 2, 1], expected, strict=True))
    assert status.totals()["troubles"] == dict.fromkeys(TROUBLES, 1)
    assert status.partitions[0].leader is not None
    assert status.partitions[0].leader.reason == "a checksum is wrong"


def test_a_follower_of_what_no_broker_leads_is_well() -> None:
    status = status_of(reading({"host-0": host(served(0, "follower"))}))

    (one,) = status.partitions
    assert (one.trouble, one.leader, one.followers[0].lag_events) == (None, None, None)


def test_clients_of_our_own_are_no_brokers() -> None:
    known = {"incarnation": 2, "announced": None}
    brokers = {1: known, OBSERVER: known, IMPORTER: known}

    status = status_of(reading({}, brokers=brokers))

    assert status.brokers == {1: known}


def test_a_deleted_partition_needs_no_session() -> None:
    gone = served(0, session=session(is_open=False), is_deleted=True)

    assert status_of(reading({"host-0": host(gone)})).partitions[0].trouble is None


def test_of_two_leaders_the_one_of_the_later_session_counts() -> None:
    hosts = {
        "host-0": host(served(0, session=session(1), position=30)),
        "host-1": host(served(0, session=session(2), position=20)),
    }

    (one,) = status_of(reading(hosts)).partitions

    assert one.leader is not None
    assert (one.leader.host, one.session) == ("host-1", session(2))


def test_a_silent_host_is_shown_with_what_was_placed_there() -> None:
    status = status_of(reading({"host-10": host(served(0)), "host-2": silent()}))

    first, second = status.hosts
    assert (first.name, first.is_up, first.leaders, first.silence) == (
        "host-2",
        False,
        None,
        "no answer within 2 s",
    )
    assert first.placed == {"leaders": 2, "followers": 1}
    assert (second.name, second.is_up, second.batches_per_commit) == ("host-10", True, 2.5)
    totals = status.totals()
    assert (totals["hosts_silent"], totals["leaders_on_silent_hosts"]) == (1, 2)


def test_a_status_can_be_narrowed_to_a_partition_and_a_host() -> None:
    hosts = {
        "host-0": host(served(0), served(1, topic="a-b")),
        "host-1": host(served(0, "follower")),
    }
    status = status_of(reading(hosts))

    assert len(status.narrowed().partitions) == 2
    assert [one.partition for one in status.narrowed("a-b", 1).partitions] == [1]
    assert [one.partition for one in status.narrowed(TOPIC_ID, 0).partitions] == [0]
    with pytest.raises(RemoteResourceNotFound, match="no topic 'nope'; there are "):
        status.narrowed("nope", 1)
    with pytest.raises(RemoteResourceNotFound, match="no host 'nope'; there are host-0"):
        status.narrowed(host="nope")
    narrowed = status.narrowed(host="host-1")
    assert [one.name for one in narrowed.hosts] == ["host-1"]
    assert [one.partition for one in narrowed.partitions] == [0]


# Asking.


async def test_a_silent_host_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_reading, "SILENT_AFTER_S", 0.05)
    service = SpokenService(
        {"host-0": SpokenHost(served(0)), "host-1": SpokenHost(is_silent=True)},
        starting=["host-2"],
    )

    found = await read_service(service)

    assert found.hosts["host-0"] == HostReading("host-0/1", counts(served(0)), [served(0)])
    assert found.hosts["host-1"].counts is None
    assert found.hosts["host-1"].silence == "no answer within 0.05 s"
    assert found.hosts["host-2"].silence == "gone; another process is being started"


@pytest.mark.parametrize("part", ["counts", "partitions", "host", "status", "route"])
async def test_whatever_a_part_raises_it_is_noted_and_the_rest_stands(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:  # noqa: ANN401
        raise AssertionError("Expected str or bytes, got NoneType")

    odd = SpokenHost(served(1, "follower"))
    service = SpokenService({"host-0": SpokenHost(served(0)), "host-1": odd})
    status = await service.status()
    of_host = part in {"counts", "partitions"}
    if part == "host":
        find = service.host
        monkeypatch.setattr(
            service, "host", lambda name: (broken if name == "host-1/1" else find)(name)
        )
    else:
        monkeypatch.setattr(odd if of_host else service, part, broken)

    read = await read_service(service, status["addresses"])

    assert read.hosts["host-0"].partitions == [served(0)]
    silence = read.hosts["host-1"].silence or ""
    assert ("AssertionError: Expected str" in silence) == (of_host or part == "host")
    assert (read.coordinator is None) == (part == "status")


async def test_the_hosts_known_last_are_asked_if_the_coordinator_is_silent() -> None:
    service = SpokenService({"host-0": SpokenHost(served(0))})
    service.is_silent = True

    found = await read_service(service, {"host-0": "host-0/1", "host-1": "host-1/1"})

    assert found.coordinator is None
    assert found.hosts["host-0"].counts is not None
    assert found.hosts["host-1"].silence == "host-1/1 is not running"


async def test_the_coordinator_says_where_a_leader_that_nobody_heard_of_should_be() -> None:
    followed = [served(number, "follower") for number in range(4)]
    service = SpokenService({"host-0": SpokenHost(*followed, served(2))})
    # The last is led by no broker; its place is kept for its next leader.
    for number, place, claim in (
        (0, "host-0/1", CLAIM),
        (1, None, CLAIM),
        (3, "host-0/1", None),
    ):
        key = PartitionKey(bytes(Uuid.parse(TOPIC_ID)), number)
        service.routes[key] = Route(
            known=True, leader_host=place, follower_host=None, leader=claim
        )

    found = await read_service(service)

    assert found.leader_hosts == {(TOPIC_ID, 0): "host-0", (TOPIC_ID, 1): None}


async def test_a_service_says_all_that_a_status_is_made_of() -> None:
    world = LocalWorld({"metadata.storage.url": "memory:"}, hosts=2)
    await world.start()
    tip = partition()
    leader = await world.leader(tip)
    await world.follower(tip)
    last = await copy(leader, segment(0), segment(1))
    connection = await world.service.connect(ServiceSettings(CLUSTER, world.storage))

    async def caught_up() -> bool:
        found = status_of(await read_service(connection)).partitions[0]
        return [one.position for one in found.followers] == [last]

    while not await caught_up():  # noqa: ASYNC110 - It has no event.
        await asyncio.sleep(POLL_S)
    status = status_of(await read_service(connection))

    (one,) = status.partitions
    assert one.leader is not None
    assert (one.trouble, one.position, one.leader.phase) == (None, last, "leading")
    assert one.session is not None
    assert (one.session["broker_id"], one.disputes, one.last_dispute_ms) == (1, 0, None)
    assert [host.is_up for host in status.hosts] == [True, True]
    assert {1, 2} == set(status.brokers)
    assert sum(host.commits or 0 for host in status.hosts) > 0
    assert status.coordinator is not None
    assert status.coordinator["partitions"] == 1
    await world.stop()


async def test_a_quarantine_is_told_with_its_reason(tmp_path: Path) -> None:
    world = LocalWorld(sqlite_in(tmp_path))
    await world.start()
    tip = partition()
    await copy(await world.leader(tip), segment(0))
    await world.stop()
    last = KEYS.log_batch(tip, 2)

    def break_it(key: str, value: bytes) -> bytes | None:
        if key.startswith(KEYS.state(tip)):
            return b""  # Without its checkpoint the log has to be read.
        return flipped(value) if key == last else None

    assert await world.change_store(break_it)
    await world.start()
    broker = await world.broker()
    await broker.on_partition_leadership_changes([tip], [])
    connection = await world.service.connect(ServiceSettings(CLUSTER, world.storage))
    status = status_of(await read_service(connection))
    while status.totals()["troubles"][QUARANTINED] == 0:
        await asyncio.sleep(POLL_S)
        status = status_of(await read_service(connection))

    (one,) = status.partitions
    assert one.leader is not None
    assert "checksum" in (one.leader.reason or "")
    assert status.hosts[0].alarms["quarantined"] == 1
    await world.stop()
