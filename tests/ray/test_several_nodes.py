"""A service on a Ray cluster of several nodes that others started."""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from tests.models.actors.local_world import copy, listed, partition, segment
from tests.models.ray.brokers import Brokers, settings_for
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.actors.discovery.service_record import read_record
from tierledger.actors.processes import node_of
from tierledger.actors.ray import cluster as ray_cluster
from tierledger.actors.ray.coordinator import coordinator_of
from tierledger.actors.ray.handles import namespace_of
from tierledger.actors.ray.service import RayService
from tierledger.events.identifiers import TopicIdPartition

NODES = 3
MEMORY_BYTES = 100 * 1024 * 1024


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes on loopback; the last test kills one."""
    head = {"num_cpus": 1, "object_store_memory": MEMORY_BYTES, "include_dashboard": False}
    ray_cluster.ensure_token()
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=1, object_store_memory=MEMORY_BYTES)
    yield cluster
    ray_cluster.leave_cluster()  # Where a test failed before it did.
    cluster.shutdown()  # type: ignore[no-untyped-call]


async def test_closing_leaves_a_cluster_of_others_as_it_was(
    cluster: Cluster, tmp_path: Path
) -> None:
    settings = settings_for(tmp_path / "store.sqlite")
    service = RayService(settings, address=cluster.address)
    record = await service.start()
    namespace = namespace_of(settings)
    assert ray_cluster.actor_names(namespace) == ["coordinator", "host-0/1"]
    await service.close()

    assert await ray_cluster.cluster_at(cluster.address) == record.cluster
    ray_cluster.join_cluster(cluster.address)
    while ray_cluster.actor_names(namespace):  # noqa: ASYNC110 - Ray says no more than this.
        await asyncio.sleep(0.05)
    ray_cluster.leave_cluster()


async def test_a_service_over_three_nodes_goes_on_when_one_is_gone(
    cluster: Cluster, tmp_path: Path
) -> None:
    settings = replace(settings_for(tmp_path / "store.sqlite"), hosts=NODES)
    service = RayService(settings, address=cluster.address)
    record = await service.start()
    hosts: dict[str, str] = {}
    while len(hosts) < NODES:  # A busy machine takes longer than the service waits for all.
        hosts = (await coordinator_of(settings, ray_cluster.own_node()).ask(StatusCall()))[
            "hosts"
        ]
    assert len({node_of(process) for process in hosts.values()}) == NODES
    assert node_of(hosts["host-0"]) == record.node
    brokers = Brokers(settings)
    manager, reader = await brokers.manager(1), await brokers.manager(2)
    tips = [partition(number) for number in range(12)]
    await manager.on_partition_leadership_changes(tips, [])
    await reader.on_partition_leadership_changes([], tips)
    await manager.when_ready(tips)

    async def work(tip: TopicIdPartition) -> None:
        for number in range(30):
            await copy(manager, segment(number, tip))

    writes = asyncio.gather(*(work(tip) for tip in tips))
    while await manager.highest_offset_for_epoch(tips[0], 0) is None:
        pass  # Each look is a round trip, during which the writes go on.
    victim = next(one for one in cluster.worker_nodes if one.node_id != record.node)
    os.kill(victim.all_processes["raylet"][0].process.pid, signal.SIGKILL)
    await writes

    for tip in tips:
        assert await listed(manager, tip) == list(range(30))
        assert await listed(reader, tip) is not None
    for one in brokers.managers:
        await one.close()
    await service.close()
    assert await read_record(settings) is None
