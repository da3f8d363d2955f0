"""A cluster that has tiered nothing yet is handed over to tierledger; another one is not."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped] # It has no types.

from tests.models.actors.local_world import CLUSTER, LocalWorld, eventually, sqlite_in
from tests.models.actors.published import published, settings_of
from tests.models.cli.command_line import invoke
from tests.models.kafka.clients import create_topic, delete_topic
from tests.ray.test_serve import run, served
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.benchmarks.kafka_broker import CLUSTER_ID, KafkaBroker
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.kafka.metadata_partition import METADATA_PARTITIONS
from tierledger.moving.following import Following, FollowOptions
from tierledger.moving.sealing import sealed_partitions
from tierledger.pipeline.imports.topic import REQUEST_MS, cluster_id_of
from tierledger.storage.kafka_brokers import KafkaBrokers

METADATA = "__remote_log_metadata"

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


async def test_a_fresh_cluster_is_handed_over_once_and_one_that_has_tiered_is_not(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    with served(store, "--cluster", CLUSTER_ID):
        given = ["--fresh", "--kafka", broker.address, "--store", store]
        unsaid = await asyncio.to_thread(invoke, "handover", *given[1:])
        assert unsaid.exit_code == ExitStatus.USAGE
        assert "expected --fresh" in unsaid.stderr
        assert await owner(store) == "nobody"

        async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:
            await create_topic(broker.address, METADATA, 2)
            await producer.send_and_wait(METADATA, b"a record", partition=1)
            refused = await asyncio.to_thread(invoke, "handover", *given)
            assert refused.exit_code == ExitStatus.USAGE
            assert f"{METADATA}-1 has had 1 records" in refused.stderr
            tried = await asyncio.to_thread(invoke, "handover", *given, "--dry-run", "--json")
            assert tried.exit_code == ExitStatus.USAGE
            assert f"{METADATA}-1 has had 1 records" in json.loads(tried.stdout)["refused"]
            assert await owner(store) == "nobody"
            await delete_topic(broker.address, METADATA)

        tried = await asyncio.to_thread(invoke, "handover", *given, "--dry-run")
        assert "\n1. Kafka's metadata topic is made, if there is none\n2. " in tried.stdout
        assert await owner(store) == "nobody"
        with pytest.raises(RemoteResourceNotFound):  # No topic was made.
            await sealed_partitions(KafkaBrokers(broker.address))

        for todo in ("next: install the plugin", ""):
            done = run("handover", *given)
            assert done.returncode == ExitStatus.WELL, done.stderr
            assert done.stdout == (
                f"tierledger owns the remote log metadata of the cluster {CLUSTER_ID}\n"
            )
            assert (done.stderr.count("next: ") > 0) == bool(todo)
            assert todo in done.stderr
            assert await owner(store) == "tierledger"
        assert len(await sealed_partitions(KafkaBrokers(broker.address))) == METADATA_PARTITIONS

    other = f"sqlite:{tmp_path / 'other.sqlite'}"
    given = ["--cluster", CLUSTER_ID, "--kafka", broker.address]
    unmeant = run("serve", "--store", other, *given)
    assert unmeant.returncode == ExitStatus.USAGE
    assert "has tierledger's seal, so another ledger owns the metadata" in unmeant.stderr
    assert "To start on this store all the same: --new" in unmeant.stderr
    assert not (tmp_path / "other.sqlite").exists()
    with served(other, *given, "--new"):
        to_kafka = ("handover", "--to", "kafka", "--kafka", broker.address, "--store", other)
        refused = await asyncio.to_thread(invoke, *to_kafka)
        assert refused.exit_code == ExitStatus.USAGE
        assert "nobody owns the metadata on this store, but" in refused.stderr
        assert await owner(other) == "nobody"


async def test_a_broker_that_is_frozen_hides_no_other(broker: KafkaBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        brokers = f"127.0.0.1:{frozen.getsockname()[1]},{broker.address}"
        async with asyncio.timeout(REQUEST_MS / 1000):
            assert await cluster_id_of(KafkaBrokers(brokers)) == CLUSTER_ID


async def test_a_service_of_another_cluster_is_not_handed_this_one(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    async with LocalWorld(sqlite_in(tmp_path), door=True) as world:
        arguments = ("handover", "--fresh", "--kafka", broker.address)
        url = await world.service.url()
        refused = await asyncio.to_thread(invoke, *arguments, "--store", url)

    assert refused.exit_code != ExitStatus.WELL
    assert CLUSTER in refused.stderr
    assert CLUSTER_ID in refused.stderr


def test_a_service_does_not_start_with_the_brokers_of_another_cluster(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    given = ("serve", "--store", store, "--cluster", CLUSTER, "--kafka", broker.address)

    refused = run(*given)

    assert refused.returncode == ExitStatus.USAGE
    assert f"of the cluster {CLUSTER_ID}, and this service is of {CLUSTER}" in refused.stderr
    assert list(tmp_path.iterdir()) == []


async def test_a_follower_of_another_clusters_brokers_imports_nothing_and_tells(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    async with published(tmp_path) as world:
        coordinator = world.service.coordinator
        await coordinator.ask(Handover(Owner.KAFKA, Owner.NOBODY))
        options = FollowOptions(KafkaBrokers(broker.address))
        following = Following(settings_of(world), coordinator, options)
        task = asyncio.create_task(following.run())

        async def is_told() -> bool:
            kafka = (await coordinator.ask(StatusCall()))["kafka"] or {}
            return bool(kafka.get("conditions") and kafka["trouble"])

        await eventually(is_told)
        url = await world.service.url()
        asked = ("status", "--json", "--store", url, "--cluster", CLUSTER)
        shown = await asyncio.to_thread(invoke, *asked)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    told = json.loads(shown.stdout)
    assert shown.exit_code == ExitStatus.FOUND
    codes = {one["code"]: one["text"] for one in told["troubles"]}
    assert list(codes) == ["other-cluster", "import-fails"]
    assert CLUSTER in codes["other-cluster"]
    assert CLUSTER_ID in codes["other-cluster"]
    assert told["coordinator"]["kafka"]["round"] == 0


async def owner(store: str) -> str:
    shown = await asyncio.to_thread(invoke, "status", "--store", store, "--json")
    return str(json.loads(shown.stdout)["coordinator"]["owner"])
