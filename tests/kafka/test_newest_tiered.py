"""Empty followers begin at the newest tiered offset, which their replica may not know yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.models.cli.command_line import run
from tests.models.kafka.tiered_cluster import TieredCluster
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.simulation.live.server import free_ports

pytestmark = [pytest.mark.ray, pytest.mark.long]

NEWEST = {"follower.fetch.last.tiered.offset.enable": "true"}
TIMES = 100


async def test_a_follower_whose_log_is_removed_is_built_at_once_each_time(
    tmp_path: Path,
) -> None:
    ledger, door, sent = tmp_path / "ledger.sqlite", f"127.0.0.1:{free_ports(2)}", list[bytes]()
    cluster = TieredCluster(door, tmp_path / "tier", NEWEST)
    options = ["--cluster", CLUSTER_ID, "--hosts", 2, "--listen", door]
    options += ["--kafka", ",".join(cluster.bootstrap)]
    with served(f"sqlite:{ledger}", *options), cluster:
        fresh = ["handover", "--fresh", "--kafka", cluster.bootstrap[0]]
        assert (await asyncio.to_thread(run, ledger, *fresh)).exit_code == 0
        await cluster.create("orders", [1])
        async with cluster.producing("orders", sent, pace_s=0.01):
            await cluster.tiered("orders", 50)
            for _ in range(TIMES):
                await cluster.reassign("orders", [1, 2])
                await cluster.reassign("orders", [1])
        assert await cluster.consumed("orders") == sent
        log = cluster.brokers[2].log()
        assert log.count("Reloading from producer snapshot and rebuilding") >= TIMES
        assert "Error building remote log auxiliary state" not in log
