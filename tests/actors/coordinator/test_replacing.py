"""Processes are replaced one after the other, and what they serve is served on."""

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    lead,
    listed,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors.calls import FOLLOWER
from tierledger.actors.client.restarting import moved_off, restarted
from tierledger.actors.coordinator import hosts as hosts_module
from tierledger.actors.coordinator import service as service_module
from tierledger.actors.coordinator.replacing import (
    THE_COORDINATOR,
    LeaveNode,
    Replacement,
    ReplacementStep,
    ReplaceProcess,
)
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.events.errors import InvalidArgument, NotReady, RejectedError


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host in this process needs no time to be prepared."""
    monkeypatch.setattr(hosts_module, "PREPARED_S", 0.0)


async def placed(world: LocalWorld) -> dict[str, int]:
    status = await world.service.coordinator.status()
    return {host: sum(counts.values()) for host, counts in status["placed"].items()}


async def processes(world: LocalWorld) -> dict[str, str]:
    status = await world.service.coordinator.status()
    found: dict[str, str] = status["hosts"]
    return found


async def test_what_a_host_serves_moves_away_before_its_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "MOVED_AT_ONCE", 2)
    async with LocalWorld(sqlite_in(tmp_path), hosts=2) as world:
        manager = await world.broker()
        tips = [partition(number) for number in range(8)]
        await lead(manager, *tips)
        before = await processes(world)
        wish = ReplaceProcess("host-1", before["host-1"])
        assert (await placed(world))["host-1"] == 4

        told = [await world.service.coordinator.ask(wish) for _ in range(3)]

        assert told == [
            Replacement(ReplacementStep.MOVING, 4),
            Replacement(ReplacementStep.MOVING, 2),
            Replacement(ReplacementStep.STARTING, 0),
        ]
        assert await placed(world) == {"host-0": 8, "host-1": 0}
        (done,) = [one async for one in restarted(world.service.coordinator, 20, ["host-1"])]
        after = await processes(world)
        assert (done.process, after["host-0"]) == ("host-1", before["host-0"])
        assert after["host-1"] != before["host-1"]
        await asyncio.gather(*(copy(manager, segment(0, tip)) for tip in tips))


async def test_what_finds_no_room_waits_for_the_next_process(tmp_path: Path) -> None:
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        manager = await world.leader(partition())
        await copy(manager, segment(0))
        before = await processes(world)

        done = [one async for one in restarted(world.service.coordinator, 20, ["host-0"])]

        assert [(one.process, one.moved) for one in done] == [("host-0", 0)]
        assert (await processes(world))["host-0"] != before["host-0"]
        await copy(manager, segment(1))
        assert await listed(manager) == [0, 1]


async def test_a_host_that_nobody_wants_replaced_any_more_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_module, "PREPARED_S", 60.0)
    async with LocalWorld(sqlite_in(tmp_path), hosts=2) as world:
        manager = await world.broker()
        wish = ReplaceProcess("host-1", (await processes(world))["host-1"])
        await world.service.coordinator.ask(wish)

        await lead(manager, *(partition(number) for number in range(4)))
        assert await placed(world) == {"host-0": 4, "host-1": 0}

        monkeypatch.setattr(hosts_module, "RELIEF_S", 0.0)
        await lead(manager, *(partition(number) for number in range(4, 8)))
        assert await placed(world) == {"host-0": 4, "host-1": 4}


async def test_the_wish_is_done_if_another_process_serves(tmp_path: Path) -> None:
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        for host in ("host-0", THE_COORDINATOR):
            told = await world.service.coordinator.ask(ReplaceProcess(host, "an earlier one"))
            assert told == Replacement(ReplacementStep.DONE, 0)


async def test_a_host_that_is_none_is_refused(tmp_path: Path) -> None:
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        with pytest.raises(RejectedError, match=r"\(host-0\), got 'host-7'"):
            await world.service.coordinator.ask(ReplaceProcess("host-7", "x"))
        with pytest.raises(InvalidArgument, match=r"\(coordinator, host-0\), got 'host-7'"):
            [one async for one in restarted(world.service.coordinator, 20, ["host-7"])]


async def test_a_process_that_is_not_replaced_in_time_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_module, "PREPARED_S", 60.0)
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        await world.leader(partition())

        with pytest.raises(NotReady, match=r"host-0 is not replaced .* 1 leaders"):
            [one async for one in restarted(world.service.coordinator, 0.5, ["host-0"])]


async def test_a_coordinator_resigns_for_its_successor(tmp_path: Path) -> None:
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        resigned = asyncio.Event()
        world.service.coordinator.give_up = resigned.set
        status = await world.service.coordinator.status()

        wish = ReplaceProcess(THE_COORDINATOR, status["coordinator"])
        told = await world.service.coordinator.ask(wish)

        assert told.step is ReplacementStep.STARTING
        await asyncio.wait_for(resigned.wait(), 5)


@pytest.mark.parametrize("patience_s", [30.0, 0.5])
async def test_a_leader_moves_once_its_follower_has_caught_up_or_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr(hosts_module, "CATCH_UP_S", patience_s)
    gate, load = asyncio.Event(), PartitionShell._load

    async def held(shell: PartitionShell) -> None:
        if shell.role == FOLLOWER:
            await gate.wait()
        await load(shell)

    monkeypatch.setattr(PartitionShell, "_load", held)
    async with LocalWorld(sqlite_in(tmp_path), hosts=2) as world:
        manager = await world.leader(partition())
        await copy(manager, segment(0))
        other = await world.broker(2)
        await other.on_partition_leadership_changes([], [partition()])
        former = (await world.service.coordinator.status())["placed"]
        (host,) = [name for name, counts in former.items() if counts["leaders"]]
        wish = ReplaceProcess(host, (await processes(world))[host])

        told = await world.service.coordinator.ask(wish)

        assert told == Replacement(ReplacementStep.MOVING, 1)
        await copy(manager, segment(1))
        if patience_s > 1:
            await asyncio.sleep(0.5)
            assert await world.service.coordinator.ask(wish) == told
            gate.set()
        (done,) = [one async for one in restarted(world.service.coordinator, 20, [host])]
        gate.set()
        assert done.moved == 1
        await copy(manager, segment(2))
        assert await listed(manager) == [0, 1, 2]


class NodesOfProcesses:
    """A coordinator whose processes are on nodes, and leave them when they are asked to."""

    def __init__(self, *staying: str) -> None:
        self.status = {
            "hosts": {"host-0": "host-0/1/a/aa/1", "host-1": "host-1/1/a/bb/2"},
            "coordinator": "one",
            "node": "bb",
        }
        self.asked: list[object] = []
        self._staying = staying

    async def ask(self, request: object) -> object:
        if isinstance(request, StatusCall):
            return deepcopy(self.status)
        assert isinstance(request, ReplaceProcess)
        self.asked.append(request)
        if request.host in self._staying:
            return Replacement(ReplacementStep.DONE, 0)
        if request.host == THE_COORDINATOR:
            self.status["node"] = "aa"
        else:
            self.status["hosts"] |= {request.host: "host-1/2/a/aa/3"}  # type: ignore[operator]
        return Replacement(ReplacementStep.DONE, 0)


async def test_all_processes_of_a_node_leave_it() -> None:
    coordinator: Any = NodesOfProcesses()

    done = [one.process async for one in moved_off(coordinator, 20, "b")]

    assert done == ["host-1", THE_COORDINATOR]
    assert coordinator.asked == [
        LeaveNode("host-1", "host-1/1/a/bb/2"),
        LeaveNode(THE_COORDINATOR, "one"),
    ]
    assert {type(one) for one in coordinator.asked} == {LeaveNode}


async def test_what_cannot_leave_a_node_is_named() -> None:
    coordinator: Any = NodesOfProcesses(THE_COORDINATOR)

    with pytest.raises(NotReady, match=r"coordinator on bb still: `serve` runs there"):
        [one async for one in moved_off(coordinator, 20, "bb")]
    with pytest.raises(InvalidArgument, match=r"\(aa, bb\), got 'cc'"):
        [one async for one in moved_off(coordinator, 20, "cc")]
    with pytest.raises(InvalidArgument, match=r"\(aa, bb\), got ''"):
        [one async for one in moved_off(coordinator, 20, "")]
