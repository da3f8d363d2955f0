"""Processes that are started before they are needed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.models.ray.brokers import settings_for
from tierledger.actors.ports import HostGone
from tierledger.actors.ray import launcher as launching
from tierledger.actors.ray.launcher import RayLauncher


class StartedProcesses:
    """Actors as Ray would start them: each a number, which lives until it is taken out."""

    def __init__(self) -> None:
        self.begun = 0
        self.nodes: list[object] = []
        """Where each was started."""
        self.alive: set[int] = set()
        self.opened: list[int] = []

    def create(self, *given: object) -> int:
        self.begun += 1
        self.nodes.append(given[-1])
        self.alive.add(self.begun)
        return self.begun

    async def call(self, actor: int, method: str, **_: object) -> Any:  # noqa: ANN401
        if actor not in self.alive:
            raise HostGone(method)
        if method == "open":
            self.opened.append(actor)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> StartedProcesses:
    found = StartedProcesses()
    monkeypatch.setattr(launching, "create_host", found.create)
    monkeypatch.setattr(launching, "call", found.call)
    monkeypatch.setattr(launching, "kill_actor", lambda *_: None)
    monkeypatch.setattr(launching, "on_node", lambda node: node)
    return found


async def settled() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait([task])


async def test_a_process_in_reserve_is_launched_and_another_one_if_it_has_died(
    processes: StartedProcesses, tmp_path: Path
) -> None:
    coordinator: Any = None
    launcher = RayLauncher(settings_for(tmp_path / "s.sqlite"), "home", coordinator)

    launcher.prepare("host-0/2")
    launcher.prepare("host-0/2")  # It is being started.
    await settled()
    launcher.prepare("host-0/2")  # It lives.
    await settled()
    assert processes.begun == 1

    processes.alive.clear()
    launcher.prepare("host-0/2")
    await settled()
    await launcher.launch("host-0/2")
    assert (processes.begun, processes.opened) == (2, [2])

    await launcher.launch("host-0/3")  # Nobody has prepared it.
    assert (processes.begun, processes.opened) == (3, [2, 3])


async def test_a_replacement_goes_to_the_emptiest_node_and_a_successor_leaves_the_former_ones(
    processes: StartedProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "live_nodes", lambda: ["a", "b"])
    coordinator: Any = None
    launcher = RayLauncher(settings_for(tmp_path / "s.sqlite"), "a", coordinator)
    for number in range(2):
        await launcher.launch(f"host-{number}/1")

    launcher.prepare("host-1/2", is_replacement=True)
    await launcher.launch("host-1/2")
    launcher.prepare("host-1/3")
    await launcher.launch("host-1/3")

    assert processes.nodes == ["a", "b", "b", "a"]
