"""A stock broker that starts while tierledger owns the metadata meets a seal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.test_moving import Cluster
from tests.kafka.test_one_broker import TOPIC, settings_of, until
from tests.models.kafka.clients import create_topic, delete_topic
from tests.models.kafka.tiered_broker import STOCK, TieredBroker
from tests.moving.test_stock_cluster import Ledger, eventually
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import CLUSTER_ID, JARS, OLDEST, SUITE
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.errors import StorageUnavailable
from tierledger.moving.freshness import starts_of
from tierledger.moving.mirroring import producer_of
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.simulation.live.server import free_ports
from tierledger.storage.kafka_brokers import KafkaBrokers

DOOR = f"127.0.0.1:{free_ports()}"
PARTITIONS = {key: STOCK[key] for key in STOCK if "metadata.topic" in key}

LOOKS = 10
"""Each takes longer than a round of the broker's manager."""

pytestmark = pytest.mark.ray


@pytest.fixture(
    params=[
        pytest.param(OLDEST, marks=pytest.mark.long, id="3.9"),
        pytest.param(SUITE, marks=pytest.mark.long, id="4.3"),
        pytest.param(JARS, id="newest"),
    ]
)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TieredBroker]:
    with TieredBroker(DOOR, tmp_path / "tier", PARTITIONS, request.param) as broker:
        yield broker


def ledger_of(broker: TieredBroker, tmp_path: Path, name: str) -> Ledger:
    return Ledger(f"sqlite:{tmp_path / name}", DOOR, broker.address)


async def test_a_stock_broker_that_meets_a_seal_deletes_nothing(
    broker: TieredBroker, tmp_path: Path
) -> None:
    one = Cluster(broker, ledger_of(broker, tmp_path, "ledger"))
    with served(one.ledger.store, *options(broker)):
        await own(one)
        await one.grow(40)

    await meets_the_seal(one)


@pytest.mark.long
async def test_behind_a_seal_no_other_store_owns_the_cluster_and_the_way_back_is_open(
    broker: TieredBroker, tmp_path: Path
) -> None:
    ledger, lost = (ledger_of(broker, tmp_path, name) for name in ("ledger", "another"))
    one, given = Cluster(broker, ledger), options(broker)
    with served(ledger.store, *given):
        refused = await ledger.hand_over("--fresh")
        assert refused.exit_code == ExitStatus.USAGE
        assert "num.partitions, and Kafka does not tell the value" in refused.stderr
        await own(one)
        await one.grow(80)

    with served(lost.store, *given, "--new"):
        await eventually(lambda: remembers(lost))
        assert "other-ledger" in [one["code"] for one in (await lost.status())["troubles"]]
        for way in (["--to", "kafka"], ["--fresh"]):
            refused = await lost.hand_over(*way)
            assert refused.exit_code == ExitStatus.USAGE
            assert "has tierledger's seal" in refused.stderr
            assert "has fed the plugins of brokers 1 (1 partitions)" in refused.stderr
            assert (await lost.status())["coordinator"]["owner"] == "nobody"
        refused = await lost.hand_over("--fresh")
        assert f"{TOPIC}-0 starts at 0, in its leader's folder at" in refused.stderr

    await meets_the_seal(one)

    await one.become("handover")  # Kafka's own manager in it meets the seal, and ends.
    with served(ledger.store, *given, "--mirror"):
        await eventually(lambda: has_gone_round(ledger, "mirror"))
        await one.is_whole()
        await eventually(lambda: is_registered(ledger))
        refused = await ledger.hand_over("--to", "kafka")
        assert refused.exit_code == ExitStatus.USAGE
        assert "brokers 1 are not idle; the owner is as before" in refused.stderr
        assert f"{TOPIC}-0: " in broker.log().partition("may not take over yet: ")[2]
        await one.become("handover")
        await one.is_whole()
        await one.grow(40)
        await one.ledger.moved("kafka")
        await one.grow(40)
        await one.is_whole()
        await one.become(None)
        await one.is_whole()


@pytest.mark.long
async def test_a_cluster_whose_store_is_lost_begins_anew_as_the_refusal_says(
    broker: TieredBroker, tmp_path: Path
) -> None:
    lost, anew = (ledger_of(broker, tmp_path, name) for name in ("lost", "anew"))
    given = options(broker)
    with served(lost.store, *given):
        one = Cluster(broker, lost)
        await own(one)
        await one.grow(80)
    with served(anew.store, *given, "--new"):
        refused = await anew.hand_over("--fresh")
        assert "remove tierledger.positions from the log folder" in refused.stderr
        for topic in (TOPIC, METADATA_TOPIC):
            await delete_topic(broker.address, topic)
        await asyncio.to_thread(broker.kill)
        (broker.logs / "tierledger.positions").unlink()
        await asyncio.to_thread(broker.restart, signal.SIGTERM)
        one = Cluster(broker, anew)
        await own(one)
        await one.grow(80)
        await one.is_whole()


@pytest.mark.long
async def test_brokers_that_cannot_keep_transactions_are_told_so(tmp_path: Path) -> None:
    needed = "transaction.state.log.replication.factor"
    with (
        TieredBroker(DOOR, tmp_path / "tier", {**PARTITIONS, needed: 3}) as broker,
        pytest.raises(StorageUnavailable, match=f"as many brokers as {needed}"),
    ):
        async with producer_of(KafkaBrokers(broker.address)):
            raise AssertionError("one broker has no three replicas")


def options(broker: TieredBroker) -> list[str]:
    """Those of `serve`."""
    return ["--cluster", CLUSTER_ID, "--listen", DOOR, "--kafka", broker.address]


async def own(one: Cluster) -> None:
    """Let tierledger own the fresh cluster, whose topic is sealed then, and make a topic."""
    done = await one.ledger.hand_over("--fresh", "--metadata-partitions", "3")
    assert done.exit_code == ExitStatus.WELL, done.stderr
    assert await has_gone_round(one.ledger, "seal")
    await create_topic(one.broker.address, TOPIC, settings=settings_of(one.broker))


async def meets_the_seal(one: Cluster) -> None:
    """The broker restarts without the plugin, and neither deletes nor raises a log start."""
    tiered = one.broker.tiered_logs()
    await one.become(None)
    await until(lambda: "Error occurred while processing the records" in one.broker.log())
    for _ in range(LOOKS):
        assert await earliest(one.broker) == 0
    assert one.broker.tiered_logs() == tiered


async def has_gone_round(ledger: Ledger, task: str) -> bool:
    """Whether `serve --kafka` has done that with Kafka's topic once."""
    report = (await ledger.status())["coordinator"]["kafka"] or {}
    return bool(report.get("task") == task and report["round"])


async def remembers(ledger: Ledger) -> bool:
    return any(one["positions"] for one in (await ledger.status())["coordinator"]["attending"])


async def is_registered(ledger: Ledger) -> bool:
    attending = (await ledger.status())["coordinator"]["attending"]
    return [one["mode"] for one in attending if one["incarnation"]] == ["handover"]


async def earliest(broker: TieredBroker) -> int:
    starts = await starts_of(KafkaBrokers(broker.address))
    return next(one.earliest for one in starts if one.partition == f"{TOPIC}-0")
