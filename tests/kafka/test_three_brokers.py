"""Three stock brokers tier through the plugin while leaders change, and lose no record."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.models.command_line import lines, run
from tests.models.kafka_broker import CLUSTER_ID
from tests.models.local_world import free_ports
from tests.models.tiered_cluster import TieredCluster
from tests.ray.test_serve import served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster") / "ledger.sqlite"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def cluster(ledger: Path) -> AsyncIterator[TieredCluster]:
    door = f"127.0.0.1:{free_ports(2)}"
    cluster = TieredCluster(door, ledger.parent / "tier")
    options = ["--cluster", CLUSTER_ID, "--hosts", 2, "--listen", door]
    options += ["--kafka", ",".join(cluster.bootstrap)]
    with served(f"sqlite:{ledger}", *options), cluster:
        done = await asyncio.to_thread(
            run, ledger, "handover", "--fresh", "--kafka", cluster.bootstrap[0]
        )
        assert done.exit_code == 0, done.output
        yield cluster
        assert cluster.errors() == []


def leader_epochs(ledger: Path, topic: str) -> list[int]:
    """Under which each session was opened."""
    known = lines(run(ledger, "log", topic, 0, "--json"))
    return [one["leader_epoch"] for one in known if one["type"] == "SessionOpened"]


async def test_a_leader_that_is_stopped_or_killed_while_it_tiers_loses_nothing(
    cluster: TieredCluster, ledger: Path
) -> None:
    await cluster.create("orders", [1, 2, 3])
    sent = await cluster.produced("orders", 0, 100)
    for how in (signal.SIGTERM, signal.SIGKILL):
        leader = await cluster.leader("orders")
        writing = asyncio.create_task(
            cluster.produced("orders", len(sent), len(sent) + 60, {"enable_idempotence": True})
        )
        await asyncio.to_thread(cluster.kill, leader, how)
        sent += await writing
        assert await cluster.leader("orders") != leader
        await cluster.tiered("orders", len(sent) - 30)
        assert await cluster.consumed("orders") == sent
        await cluster.revive(leader)
    epochs = await asyncio.to_thread(leader_epochs, ledger, "orders")
    assert epochs == sorted(epochs)
    assert len(set(epochs)) >= 3
