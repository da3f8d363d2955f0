"""The coordinator's and the hosts' actors, without Ray."""

from pathlib import Path
from typing import Any

import pytest

from tests.models.storage import faulty_store
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ray import coordinator, host
from tierledger.actors.ray.coordinator import CoordinatorShell, coordinator_of
from tierledger.actors.ray.handles import RayCoordinator
from tierledger.actors.ray.host import HostShell
from tierledger.events.errors import NoSuchStore, NotReady


async def test_a_start_that_fails_leaves_no_store_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: CoordinatorService) -> None:
        raise NotReady("a host does not start")

    monkeypatch.setattr(CoordinatorService, "start", refused)
    monkeypatch.setattr(coordinator, "own_node", lambda: "node")
    shell = CoordinatorShell(
        ServiceSettings("cluster-1", faulty_store.settings(str(tmp_path))), "node"
    )

    for _ in range(2):
        with pytest.raises(NotReady):
            await shell.start()

    assert faulty_store.faults(str(tmp_path)).open == 0


async def test_who_replaces_a_lost_coordinator_or_host_makes_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (coordinator, host):
        monkeypatch.setattr(module, "own_node", lambda: "node")
    path = tmp_path / "folder" / "store.sqlite"
    settings = ServiceSettings("cluster-1", {"metadata.storage.url": f"sqlite:{path}"})
    way = coordinator_of(settings, "node")

    with pytest.raises(NoSuchStore, match="no such store"):
        await CoordinatorShell(settings, "node").start()
    with pytest.raises(NoSuchStore, match="no such store"):
        await HostShell("host-0/1", settings, "node", way).open()

    assert not path.parent.exists()


async def test_a_coordinator_leaves_the_head_once_another_node_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "own_node", lambda: "node")
    monkeypatch.setattr(coordinator, "HEAD_LOOK_S", 0.0)
    found = [True, True, False, True, True, True]
    looks: list[bool] = []

    def look() -> bool:
        looks.append(found[len(looks)])
        return looks[-1]

    class Served:
        gave_up = 0

        def give_up(self) -> None:
            self.gave_up += 1

    monkeypatch.setattr(coordinator, "may_leave_head", look)
    served: Any = Served()
    shell = CoordinatorShell(ServiceSettings("cluster-1", {}), "node")
    await shell._leave_head(served)

    assert looks == found
    assert served.gave_up == 1


async def test_what_ray_raises_while_a_coordinator_is_looked_for_can_be_tried_again() -> None:
    def fails(**_: object) -> object:
        raise RuntimeError("the control store is busy")

    handle = RayCoordinator(fails)
    with pytest.raises(NotReady, match="the control store is busy"):
        await handle.ask(StatusCall())
