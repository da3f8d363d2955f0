"""A stock broker tiers through the plugin, drops its own copies, and gives everything back."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]

from tests.models.command_line import lines, run
from tests.models.tiered_broker import TIERED, TieredBroker

TOPIC = "orders"
PARTITION = TopicPartition(TOPIC, 0)
WAIT_S = 120.0


@pytest.fixture
def running(tmp_path: Path) -> Iterator[TieredBroker]:
    with TieredBroker(tmp_path) as tiered:
        tiered.start()
        yield tiered


async def test_what_was_produced_is_read_from_the_tier_through_restarts_until_it_is_deleted(
    running: TieredBroker,
) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=running.broker.address)
    await admin.start()
    await admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=TIERED)])
    sent = await produced(running, 0, 120)
    await until(lambda: local_start(running) >= 100)
    assert await consumed(running) == sent
    known = await asyncio.to_thread(segments, running)
    finished = [one for one in known if one["state"] == "COPY_SEGMENT_FINISHED"]
    assert len(finished) >= 10
    assert len(list(running.tiered_logs())) == len(finished)

    running.broker.restart(signal.SIGKILL)

    sent += await produced(running, 120, 200)
    await until(lambda: local_start(running) >= 180)
    assert await consumed(running) == sent

    await admin.delete_topics([TOPIC])
    await until(lambda: not list(running.tiered_logs()))
    await admin.close()


async def produced(running: TieredBroker, first: int, end: int) -> list[bytes]:
    producer = AIOKafkaProducer(bootstrap_servers=running.broker.address, linger_ms=0)
    values = [b"%06d" % number + bytes(200) for number in range(first, end)]
    async with producer:
        for value in values:
            await producer.send_and_wait(TOPIC, value, partition=0)
    return values


async def consumed(running: TieredBroker) -> list[bytes]:
    """All values from offset 0 to the end."""
    values: list[bytes] = []
    async with AIOKafkaConsumer(
        bootstrap_servers=running.broker.address, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([PARTITION])
        end = (await consumer.end_offsets([PARTITION]))[PARTITION]
        async with asyncio.timeout(WAIT_S):
            while len(values) < end:
                found = await consumer.getmany(timeout_ms=1000)
                values += [record.value for record in found.get(PARTITION, ())]
    return values


def local_start(running: TieredBroker) -> int:
    """The first offset of which the broker has its own copy."""
    logs = (running.broker.logs / f"{TOPIC}-0").glob("*.log")
    return min((int(log.stem) for log in logs), default=-1)


def segments(running: TieredBroker) -> list[Any]:
    """What the ledger knows, as `tierledger segments` reads it."""
    return lines(run(running.ledger, "segments", TOPIC, 0, "--json"))


async def until(is_so: Callable[[], bool]) -> None:
    """Return once that is so; the broker does it at intervals of its own."""
    async with asyncio.timeout(WAIT_S):
        while not is_so():  # noqa: ASYNC110 - Another process does it.
            await asyncio.sleep(0.1)
