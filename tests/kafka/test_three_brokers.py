"""Three stock brokers tier through the plugin while leaders change, and lose no record."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.models.cli.command_line import lines, run
from tests.models.kafka.tiered_cluster import TieredCluster
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.pipeline.imports.topic import cluster_id_of
from tierledger.simulation.live.server import free_ports
from tierledger.storage.kafka_brokers import KafkaBrokers

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


@pytest.mark.long
async def test_a_broker_that_has_just_died_hides_no_other(cluster: TieredCluster) -> None:
    """For some seconds Kafka names it among those that may be asked."""
    await asyncio.to_thread(cluster.kill, 1)
    for _ in range(10):
        assert await cluster_id_of(KafkaBrokers(",".join(cluster.bootstrap))) == CLUSTER_ID
    await cluster.revive(1)


@pytest.mark.long
async def test_a_leader_that_was_frozen_comes_back_too_late_to_lead(
    cluster: TieredCluster, ledger: Path
) -> None:
    await cluster.create("frozen", [2, 3, 1])
    assert await cluster.leader("frozen") == 2
    sent = await cluster.produced("frozen", 0, 60)
    cluster.brokers[2].send(signal.SIGSTOP)
    try:
        await cluster.led_by("frozen", 3)
        sent += await cluster.produced("frozen", 60, 120)
        await cluster.tiered("frozen", 100)
    finally:
        cluster.brokers[2].send(signal.SIGCONT)
    sent += await cluster.produced("frozen", 120, 180)
    await cluster.tiered("frozen", 160)

    assert await cluster.consumed("frozen") == sent
    epochs = await asyncio.to_thread(leader_epochs, ledger, "frozen")
    assert epochs == sorted(set(epochs)), "it opened none in the epoch that it remembers"


@pytest.mark.long
async def test_a_partition_that_moves_to_another_broker_is_tiered_on_from_there(
    cluster: TieredCluster,
) -> None:
    await cluster.create("moved", [1, 2])
    sent = await cluster.produced("moved", 0, 80)
    await cluster.tiered("moved", 60)

    await cluster.reassign("moved", [3])

    sent += await cluster.produced("moved", 80, 160)
    assert await cluster.leader("moved") == 3
    await cluster.tiered("moved", 140)
    assert await cluster.consumed("moved") == sent
    assert not list((cluster.brokers[1].logs).glob("moved-0"))


@pytest.mark.long
async def test_a_broker_that_lost_its_disk_comes_back_and_leads(cluster: TieredCluster) -> None:
    await cluster.create("lost", [3, 2])
    sent = await cluster.produced("lost", 0, 100)
    await cluster.tiered("lost", 80)
    await asyncio.to_thread(cluster.kill, 3)
    await cluster.led_by("lost", 2)
    sent += await cluster.produced("lost", 100, 160)
    await cluster.tiered("lost", 140)

    await cluster.replace(3)
    await cluster.in_sync("lost", [3, 2])
    await asyncio.to_thread(cluster.kill, 2, signal.SIGTERM)
    await cluster.led_by("lost", 3)
    sent += await cluster.produced("lost", 160, 220)

    await cluster.tiered("lost", 200)
    assert await cluster.consumed("lost") == sent
    await cluster.revive(2)


@pytest.mark.long
async def test_an_unclean_leader_serves_its_own_history_and_no_other(
    cluster: TieredCluster,
) -> None:
    await cluster.create("unclean", [1, 2], unclean_leader_election_enable="true")
    kept = await cluster.produced("unclean", 0, 80)
    await asyncio.to_thread(cluster.kill, 2)
    await cluster.produced("unclean", 80, 160)  # Which broker 2 never sees.
    await cluster.tiered("unclean", 140)
    await asyncio.to_thread(cluster.kill, 1)
    await cluster.revive(2)
    await cluster.led_by("unclean", 2)

    kept += await cluster.produced("unclean", 200, 300)

    await cluster.tiered("unclean", 160)
    assert await cluster.consumed("unclean") == kept
    await cluster.revive(1)
    assert await cluster.consumed("unclean") == kept


@pytest.mark.long
async def test_aborted_records_are_not_served_from_the_tier(cluster: TieredCluster) -> None:
    await cluster.create("payments", [1, 2, 3])
    committed: list[bytes] = []
    for turn in range(8):
        values = await cluster.transaction("payments", turn, commits=turn % 2 == 0)
        committed += values if turn % 2 == 0 else []
    await cluster.produced("payments", 0, 20)  # Rolls the last of them into the tier.
    await cluster.tiered("payments", 90)

    found = await cluster.consumed("payments", "read_committed")

    assert [one for one in found if one.startswith(b"in ")] == committed


async def test_deleted_records_and_those_past_retention_leave_the_tier(
    cluster: TieredCluster,
) -> None:
    await cluster.create("short", [2, 3])
    sent = await cluster.produced("short", 0, 120)
    await cluster.tiered("short", 100)
    before = cluster.tiered_logs("short")

    await cluster.delete_records("short", 60)

    assert await cluster.consumed("short") == sent[60:]
    await cluster.until(lambda: cluster.has_fewer_logs("short", before - 5))

    await cluster.configure("short", **{"retention.bytes": 4096})
    await cluster.until(lambda: cluster.has_fewer_logs("short", 5))
    found = await cluster.consumed("short")
    assert found
    assert found == sent[-len(found) :]


@pytest.mark.long
async def test_tiering_is_switched_off_and_on(cluster: TieredCluster) -> None:
    await cluster.create("switched", [1, 3])
    await cluster.produced("switched", 0, 80)
    # All segments but the active one. Kafka removes local ones that it has tiered before, even
    # if it deleted them from the tier: the log would start in a gap.
    await cluster.tiered("switched", 77)

    await cluster.configure(
        "switched",
        **{"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"},
        **{"local.retention.bytes": -2, "local.retention.ms": -2},
    )
    await cluster.until(lambda: cluster.has_fewer_logs("switched", 1))

    await cluster.configure("switched")
    sent = await cluster.produced("switched", 80, 200)
    await cluster.tiered("switched", 180)
    found = await cluster.consumed("switched")
    assert found[-len(sent) :] == sent


async def test_what_is_deleted_leaves_nothing_in_the_tier(cluster: TieredCluster) -> None:
    await cluster.create("gone", [3, 1, 2])
    await cluster.produced("gone", 0, 80)
    await cluster.tiered("gone", 60)

    async with cluster.admin() as admin:
        await admin.delete_topics(["gone"])

    await cluster.until(lambda: cluster.has_fewer_logs("gone", 1))
