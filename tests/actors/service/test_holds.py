"""A hold that was reported as placed is in force at every leader, and stays so."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.actors.service.test_held_deletions import DELETED, DELETING, move, owned
from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    eventually,
    listed,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.coordinator.breaker import BreakerShares
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
from tierledger.actors.coordinator.messages import SendWork
from tierledger.actors.holds import Deletions, Hold
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.leader.machine import Leader
from tierledger.events.errors import RejectedError

TIP = partition()
HOLD = Hold("audit", "ord*", last_offset=9, reason="the audit reads it", by="somebody")


@pytest.mark.parametrize("world", ["sqlite", "door"], indirect=True)
async def test_what_is_held_is_refused_from_the_answer_on_and_after_a_restart(
    world: LocalWorld,
) -> None:
    leader = await owned(world)
    assert await world.service.coordinator.hold(PlaceHold(HOLD)) == []
    with pytest.raises(RejectedError, match="under the hold audit of somebody"):
        await move(leader, segment(0), DELETING)
    await world.restart()
    leader = await world.leader(TIP)
    with pytest.raises(RejectedError, match="under the hold audit of somebody"):
        await move(leader, segment(0), DELETING)
    await move(leader, segment(1), DELETING)

    host = world.service.host("host-0").host
    (held,) = (await host.counts())["held_back"].items()
    assert (held[0], held[1]["times"], held[1]["last"]) == ("audit", 1, str(TIP))

    done = ReleaseHold("audit", "somebody", "it is over")
    assert await world.service.coordinator.hold(done) == []
    await move(leader, segment(0), DELETING)
    await move(leader, segment(0), DELETED)
    assert await listed(leader) == [1]


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
async def test_a_host_knows_the_newest_hold_before_it_gets_a_leader(world: LocalWorld) -> None:
    await owned(world)
    coordinator, host = world.service.coordinator, world.service.host("host-0").host
    assert await coordinator.hold(PlaceHold(HOLD)) == []
    running = coordinator._machine.hosts.running["host-0"]
    # As one that had started while the hold was being placed, and was not pinged since.
    coordinator._told.pop(running.address)
    host.deletions = Deletions()

    await coordinator._send_work(
        SendWork(running.address, running.watch, HostWork("host-0", ()))
    )

    assert [one.name for one in host.deletions.holds] == [HOLD.name]


@pytest.mark.parametrize("world", ["sqlite", "door"], indirect=True)
async def test_a_partition_whose_host_does_not_answer_is_said_to_be_late(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await owned(world)
    host = world.service.host("host-0").host

    async def silent(deletions: Deletions) -> list[object]:
        raise RejectedError("it does not answer")

    monkeypatch.setattr(host, "heed", silent)

    late = await world.service.coordinator.hold(PlaceHold(HOLD))

    assert [(bytes(one.topic_id), one.partition) for one in late] == [
        (bytes(TIP.topic_id), TIP.partition)
    ]
    monkeypatch.undo()
    assert await world.service.coordinator.hold(PlaceHold(HOLD)) == [], "repeated: it is"


@pytest.mark.parametrize("world", ["sqlite", "door"], indirect=True)
async def test_deletions_race_with_a_hold_and_none_begins_after_its_answer(
    world: LocalWorld,
) -> None:
    leader = await owned(world)
    await copy(leader, *[segment(number) for number in range(2, 40)])
    deleting = [
        asyncio.ensure_future(move(leader, segment(number), DELETING)) for number in range(40)
    ]
    await asyncio.sleep(0)

    every = HOLD._replace(last_offset=None)
    assert await world.service.coordinator.hold(PlaceHold(every)) == []
    before = len(await world.events(TIP))
    results = await asyncio.gather(*deleting, return_exceptions=True)

    assert all(one is None or isinstance(one, RejectedError) for one in results)
    assert len(await world.events(TIP)) == before, "none after the answer"


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
async def test_a_hold_waits_for_a_deletion_that_is_being_stored(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await owned(world)
    host = world.service.host("host-0").host
    may_store, create_each = asyncio.Event(), host.backend.create_each

    async def slow(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - As the store's own.
        await may_store.wait()
        return await create_each(*given, **named)

    monkeypatch.setattr(host.backend, "create_each", slow)
    deleting = asyncio.ensure_future(move(leader, segment(0), DELETING))
    shell = host._shells[PartitionKey.of(TIP), LEADER]
    await eventually(lambda: isinstance(shell.machine, Leader) and shell.machine.in_flight)
    heeding = asyncio.ensure_future(host.heed(Deletions(1 << 40, holds=(HOLD,))))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(heeding), 0.1)

    may_store.set()

    assert await heeding == []
    await deleting


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
async def test_a_hold_waits_for_a_leader_that_has_not_claimed(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it has, the leader of a host that is believed dead may begin a deletion."""
    leader = await owned(world)
    may_load, load, other = asyncio.Event(), PartitionShell.load, partition(5)

    async def slow(shell: PartitionShell) -> None:
        await may_load.wait()
        await load(shell)

    monkeypatch.setattr(PartitionShell, "load", slow)
    await leader.on_partition_leadership_changes([other], [])
    host = world.service.host("host-0").host
    await eventually(lambda: (PartitionKey.of(other), LEADER) in host._shells)
    heeding = asyncio.ensure_future(host.heed(Deletions(1 << 40, holds=(HOLD,))))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(heeding), 0.1)

    may_load.set()

    assert await heeding == []


@pytest.mark.parametrize(
    ("shares", "name", "topic"),
    [((50, 0), "breaker", "*"), ((0, 60), f"breaker-{TIP.topic}", TIP.topic)],
)
async def test_the_breaker_holds_what_is_left_until_an_operator_releases_it(
    shares: tuple[int, int], name: str, topic: str, tmp_path: Path
) -> None:
    async with LocalWorld(sqlite_in(tmp_path), breaker=BreakerShares(*shares)) as world:
        leader = await owned(world)
        large = [segment(number, size=2**30) for number in range(2, 6)]
        await copy(leader, *large)
        for one in large[:3]:
            await move(leader, one, DELETING)
        coordinator = world.service.coordinator

        async def is_held() -> bool:
            return bool((await coordinator.status())["holds"])

        await eventually(is_held)
        (hold,) = (await coordinator.status())["holds"]
        assert (hold["name"], hold["topic"], hold["by"]) == (name, topic, "tierledger")
        assert f"within an hour, more than {max(shares)} %" in hold["reason"]
        assert await coordinator.hold(PlaceHold(HOLD)) == [], "all hosts know both by now"
        with pytest.raises(RejectedError, match=f"under the hold {name} of tierledger"):
            await move(leader, large[3], DELETING)
        await coordinator.hold(ReleaseHold(name, "somebody", "we deleted it"))
        await move(leader, large[3], DELETING)
