"""A stock broker beside a mirror: what it did is told, accepted, and taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from aiokafka.admin import (  # type: ignore[import-untyped] # It has no types.
    RecordsToDelete,
)

from tests.kafka.test_moving import Cluster
from tests.kafka.test_one_broker import TOPIC
from tests.models.kafka.clients import WAIT_S, administered, consumed, create_topic
from tests.models.kafka.tiered_broker import STOCK, TIERED, TieredBroker
from tests.moving.test_stock_cluster import PARTITION, Ledger, eventually
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.cli.exit_status import ExitStatus
from tierledger.simulation.live.server import free_ports

pytestmark = [pytest.mark.ray, pytest.mark.long]

FIRST = 35
"""The first record that is left when the stock broker has deleted those before it."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    door = f"127.0.0.1:{free_ports()}"
    store = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    with TieredBroker(door, tmp_path / "tier", STOCK) as broker, ExitStack() as services:
        given = ["--cluster", CLUSTER_ID, "--listen", door, "--kafka", broker.address]
        running: list[Popen[str]] = []

        def restart() -> None:
            for process in running:
                process.terminate()
                assert process.wait(WAIT_S) == ExitStatus.WELL
            running[:] = [services.enter_context(served(store, *given))]

        restart()
        yield Cluster(broker, Ledger(store, door, broker.address, restart))


async def test_what_a_stock_broker_did_beside_a_mirror_is_told_accepted_and_taken_over(
    cluster: Cluster,
) -> None:
    broker, ledger = cluster.broker, cluster.ledger
    await create_topic(broker.address, TOPIC, settings=TIERED)
    await cluster.grow(80)
    await ledger.moved("kafka")
    await cluster.become("handover")
    await cluster.attends("handover", 1)
    await ledger.moved("tierledger")
    await cluster.grow(40)
    assert await foreign(ledger) is None

    await cluster.become(None)
    await cluster.grow(40)
    async with administered(broker.address) as admin:
        await admin.delete_records({PARTITION: RecordsToDelete(FIRST)})
    await eventually(lambda: has_changed(ledger))
    told = await foreign(ledger)
    await asyncio.to_thread(ledger.restart)
    await eventually(lambda: foreign(ledger))
    again = await foreign(ledger)
    assert told is not None
    assert again is not None
    assert (again["code"], again["since_ms"]) == ("foreign-records", told["since_ms"])

    await cluster.become("handover")
    await cluster.attends("handover", 4)
    status = (await ledger.status())["coordinator"]["kafka"]
    tiered = {one["id"] for one in status["foreign_segments"]}
    assert len(tiered) == status["foreign_tiered"] > 0
    refused = await ledger.hand_over("--to", "kafka")
    assert refused.exit_code == ExitStatus.USAGE
    for one in tiered:
        assert (
            f"segment {one}: by Kafka's metadata topic COPY_SEGMENT_FINISHED" in refused.stderr
        )
    assert "--accept-losses" in refused.stderr

    done = await ledger.hand_over("--to", "kafka", "--accept-losses")
    assert done.exit_code == ExitStatus.WELL, done.stderr
    assert "what Kafka's metadata topic says counts from now on" in done.stderr
    await cluster.attends("handover", 7)
    await is_whole(cluster)
    await cluster.grow(40)
    await is_whole(cluster)

    await ledger.moved("tierledger")
    await cluster.attends("handover", 10)
    await is_whole(cluster)
    await cluster.grow(40)
    await is_whole(cluster)
    assert tiered <= {one["id"] for one in await ledger.segments()}
    assert await foreign(ledger) is None
    await ledger.moved("kafka")


async def has_changed(ledger: Ledger) -> bool:
    """Whether foreign records are about segments that tierledger knows."""
    return bool((await ledger.status())["coordinator"]["kafka"].get("foreign_changed"))


async def is_whole(cluster: Cluster) -> None:
    """A consumer gets every record that was not deleted."""
    assert await consumed(cluster.broker.address, TOPIC) == cluster.sent[FIRST:]


async def foreign(ledger: Ledger) -> dict[str, Any] | None:
    """The trouble that there are records of others; None without."""
    troubles: list[dict[str, Any]] = (await ledger.status())["troubles"]
    return next((one for one in troubles if one["code"] == "foreign-records"), None)
