"""Kafka's metadata topic is followed on while `serve`, on a Ray cluster of others, is away."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped] # It has no types.
from ray.cluster_utils import Cluster

from tests.models.actors.local_world import partition, segment
from tests.models.cli.command_line import invoke
from tests.models.kafka.clients import create_topic
from tests.ray.test_serve import served
from tierledger.actors.ray import cluster as ray_cluster
from tierledger.benchmarks.kafka_broker import CLUSTER_ID, KafkaBroker
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.kafka.codec import encode
from tierledger.pipeline.imports.source import METADATA_TOPIC

WAIT_S = 120.0

pytestmark = pytest.mark.ray


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    memory = 100 * 1024 * 1024
    head = {"num_cpus": 1, "object_store_memory": memory, "include_dashboard": False}
    ray_cluster.ensure_token()
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()  # type: ignore[no-untyped-call]


async def test_what_comes_while_serve_is_frozen_and_when_it_has_died_is_imported(
    cluster: Cluster, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    with KafkaBroker() as broker:
        await create_topic(broker.address, METADATA_TOPIC)
        options = ["--address", cluster.address, "--cluster", CLUSTER_ID]
        with served(store, *options, "--kafka", broker.address) as serve:
            args = ("handover", "--to", "kafka", "--kafka", broker.address, "--store", store)
            done = await asyncio.to_thread(invoke, *args)
            assert done.exit_code == ExitStatus.WELL, done.stderr
            await eventually(lambda: following(store)["round"] > 0)
            first = (await asyncio.to_thread(following, store))["follower"]
            async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:

                async def imported(number: int) -> None:
                    """The next record, by the follower in whose place `serve` does nothing."""
                    record = encode(segment(number, partition(0)))
                    await producer.send_and_wait(METADATA_TOPIC, record)
                    await eventually(lambda: following(store)["records"] == number)
                    now = await asyncio.to_thread(following, store)
                    assert now["follower"] != first

                serve.send_signal(signal.SIGSTOP)
                await imported(1)
                serve.send_signal(signal.SIGCONT)
                await imported(2)
                serve.kill()
                serve.wait()
                await imported(3)

        # The next one takes over, and ends all of it.
        with served(store, *options, "--kafka", broker.address) as serve:
            serve.terminate()
            assert serve.wait(WAIT_S) == ExitStatus.WELL
    known = await asyncio.to_thread(invoke, "segments", "orders", 0, "--store", store)
    assert known.stdout


def following(store: str) -> dict[str, Any]:
    """The process that follows the topic, and its progress."""
    status = json.loads(invoke("status", "--store", store, "--json").stdout)
    follower = status["coordinator"] and status["coordinator"]["kafka"]
    return {"round": 0, "records": 0, "follower": None, **(follower or {})}


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 - Other processes do it.
            await asyncio.sleep(0.2)
