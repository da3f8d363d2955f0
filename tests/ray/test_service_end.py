"""A service comes and goes, and leaves nothing behind but its store."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.models.actors.local_world import copy, eventually, listed, partition, segment
from tests.models.ray.brokers import Brokers, settings_for
from tierledger.actors.discovery.service_record import read_record
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ray import cluster as ray_cluster
from tierledger.actors.ray import service as ray_service
from tierledger.actors.ray.service import RayService
from tierledger.events.errors import InvalidArgument, NotReady
from tierledger.simulation.live.processes import descendants, is_running

TIP = partition()


async def test_a_closed_service_leaves_a_store_and_no_process(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "store.sqlite")
    before = set(descendants(os.getpid()))
    service = RayService(settings)
    await service.start()
    manager = await Brokers(settings).manager(1)
    await manager.on_partition_leadership_changes([TIP], [])
    await copy(manager, segment(0))
    await manager.close()
    started = set(descendants(os.getpid())) - before
    assert started
    node: Any = ray_cluster.ray._private.worker._global_node
    assert set(node.all_processes) == {"gcs_server", "raylet"}
    await service.close()

    await eventually(lambda: not any(map(is_running, started)))
    assert await read_record(settings) is None
    with pytest.raises(NotReady, match="no service runs"):
        await Brokers(settings).manager(1)

    again = RayService(settings)
    await again.start()
    reader = await Brokers(settings).manager(2)
    assert await listed(reader) == [0]
    leader = await Brokers(settings).manager(1)
    await leader.on_partition_leadership_changes([TIP], [])
    await copy(leader, segment(1))
    assert await listed(reader) == [0, 1]
    await reader.close()
    await leader.close()
    await again.close()


async def test_a_store_that_no_other_process_can_see_is_refused() -> None:
    settings = ServiceSettings("cluster-1", {"metadata.storage.url": "memory:"})

    with pytest.raises(InvalidArgument):
        await RayService(settings).start()


@pytest.mark.parametrize(
    ("machines", "listen", "is_refused"),
    [
        ({"10.0.0.1", "10.0.0.2"}, "127.0.0.1:0", True),
        ({"10.0.0.1", "10.0.0.2"}, "0.0.0.0:4711", False),
        ({"10.0.0.1"}, "127.0.0.1:0", False),
    ],
)
def test_hosts_on_several_machines_have_to_reach_each_other(
    machines: set[str],
    listen: str,
    is_refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_cluster, "node_ips", lambda: machines)
    service = RayService(replace(settings_for(tmp_path / "store.sqlite"), listen=listen))

    if is_refused:
        with pytest.raises(
            InvalidArgument, match=r"10\.0\.0\.1, 10\.0\.0\.2: expected --listen"
        ):
            service._refuse_unreachable()
    else:
        service._refuse_unreachable()


async def test_the_watch_over_the_coordinator_outlives_whatever_a_look_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Exception] = [AssertionError("Expected str or bytes, got NoneType")]
    looks += [KeyError("actor"), NotReady("not yet")]
    seen = asyncio.Event()

    class Coordinator:
        def __init__(self, *_: object) -> None:
            """It is asked for its process only."""

        async def process(self) -> str:
            if looks:
                raise looks.pop()
            seen.set()
            return "process"

        async def hindrance(self) -> None:
            """Writes are accepted."""

        async def serving(self) -> dict[str, str]:
            return {}

    monkeypatch.setattr(ray_service, "coordinator_of", Coordinator)
    monkeypatch.setattr(ray_service, "WATCH_INTERVAL_S", 0)
    monkeypatch.setattr(ray_cluster, "own_node", lambda: "node")
    watch = asyncio.create_task(RayService(settings_for(tmp_path / "store"))._look_after())

    await asyncio.wait({asyncio.create_task(seen.wait()), watch}, return_when="FIRST_COMPLETED")
    assert not watch.done()
    watch.cancel()


def test_processes_that_come_and_go_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []

    class Log:
        def warning(self, _: str, name: str, process: str) -> None:
            told.append((name, process))

    monkeypatch.setattr(ray_service, "_log", Log())
    service = RayService(settings_for(tmp_path / "store"))

    service._tell_changes("c1", {"host-0": "p1", "host-1": "q1"})
    assert told == []
    service._tell_changes("c1", {"host-1": "q1"})
    assert told == [("host-0", "p1")]
    service._tell_changes("c2", {"host-0": "p2", "host-1": "q1"})
    assert told[1:] == [("host-0", "p2"), ("the coordinator", "c2")]


@pytest.mark.parametrize("address", [None, "10.0.0.1:6379"])
async def test_a_service_without_hosts_is_given_up_if_the_ray_cluster_is_its_own(
    address: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[str] = []
    looks = 0
    seen = asyncio.Event()

    class Coordinator:
        def __init__(self, *_: object) -> None:
            """It has no host, and starts none."""

        async def process(self) -> str:
            return "process"

        async def hindrance(self) -> str | None:
            nonlocal looks
            looks += 1
            if looks == 3:
                seen.set()
            return None if looks == 1 else "host-0 does not start: no room"

        async def serving(self) -> dict[str, str]:
            return {}

    monkeypatch.setattr(ray_service, "coordinator_of", Coordinator)
    monkeypatch.setattr(ray_service, "WATCH_INTERVAL_S", 0)
    monkeypatch.setattr(ray_service, "UNSERVED_S", 0)
    monkeypatch.setattr(ray_cluster, "own_node", lambda: "node")
    settings = settings_for(tmp_path / "store")
    service = RayService(settings, address=address, give_up=reasons.append)
    watch = asyncio.create_task(service._look_after())

    await seen.wait()
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    reason = "nothing could be written for 0 s: host-0 does not start: no room"
    assert set(reasons) == (set() if address else {reason})


async def test_a_start_that_is_refused_leaves_the_actors_of_a_service_that_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    for name, answer in {
        "join_cluster": "10.0.0.1:6379",
        "leave_cluster": None,
        "node_ips": {"10.0.0.1", "10.0.0.2"},
        "actor_names": ["coordinator", "host-0/1"],
    }.items():
        monkeypatch.setattr(ray_cluster, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(ray_cluster, "kill_actor", lambda name, _: ended.append(name))
    settings = settings_for(tmp_path / "store.sqlite")

    with pytest.raises(InvalidArgument, match="expected --listen"):
        await RayService(settings, address="10.0.0.1:6379").start()

    assert ended == []


@pytest.mark.parametrize(("patience_s", "looks"), [(60.0, 3), (-1.0, 1)])
async def test_a_start_waits_for_the_nodes_of_its_cluster_and_not_for_ever(
    patience_s: float, looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes: list[str] = []

    def live_nodes() -> list[str]:
        nodes.append(f"node-{len(nodes)}")
        return nodes

    monkeypatch.setattr(ray_cluster, "join_cluster", lambda address: address)
    monkeypatch.setattr(ray_cluster, "leave_cluster", lambda: None)
    monkeypatch.setattr(ray_cluster, "node_ips", lambda: {"10.0.0.1", "10.0.0.2"})
    monkeypatch.setattr(ray_cluster, "actor_names", lambda _: [])
    monkeypatch.setattr(ray_cluster, "live_nodes", live_nodes)
    monkeypatch.setattr(ray_service, "NODES_TIMEOUT_S", patience_s)
    settings = replace(settings_for(tmp_path / "store.sqlite"), nodes=3)

    with pytest.raises(InvalidArgument, match="expected --listen"):
        await RayService(settings, address="10.0.0.1:6379").start()

    assert len(nodes) == looks


async def test_actors_end_although_the_cluster_answers_no_drain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def gone(*_: object) -> None:
        raise ConnectionError("the cluster's own store of names does not answer")

    monkeypatch.setattr(ray_cluster, "leave_cluster", lambda: None)
    monkeypatch.setattr(ray_cluster, "actor_names", lambda _: ["coordinator", "host-0/1"])
    monkeypatch.setattr(ray_cluster, "find_actor", gone)
    monkeypatch.setattr(ray_cluster, "kill_actor", lambda name, _: ended.append(name))
    service = RayService(settings_for(tmp_path / "store.sqlite"))
    service._connection = object()  # type: ignore[assignment] # As after its start.

    await service.close()

    assert ended == ["host-0/1", "coordinator"]
