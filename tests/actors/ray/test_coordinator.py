"""The coordinator's actor, without Ray."""

from pathlib import Path

import pytest

from tests.models.storage import faulty_store
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ray import coordinator
from tierledger.actors.ray.coordinator import CoordinatorShell
from tierledger.events.errors import NotReady


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
