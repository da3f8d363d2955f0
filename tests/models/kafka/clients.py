"""Clients of real brokers: they create topics, write, read and delete them.

`brokers` are addresses; `options` are options of aiokafka's clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped] # It has no types.

WAIT_S = 300.0
"""Time after which an action of a broker counts as hanging, even on a busy machine."""


@asynccontextmanager
async def administered(brokers: str | Sequence[str], **options: object) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(bootstrap_servers=brokers, **options)
    try:
        await client.start()
        yield client
    finally:
        await client.close()


async def create_topic(
    brokers: str | Sequence[str],
    topic: str,
    partitions: int = 1,
    *,
    replicas: Sequence[int] | None = None,
    settings: Mapping[str, str] | None = None,
    **options: object,
) -> None:
    """`replicas`: the brokers of the topic's only partition; the first one leads.

    Waits until these brokers take part: Kafka gives a topic that is created earlier another
    leader, or refuses it.
    """
    given = (-1, -1, {0: list(replicas)}) if replicas else (partitions, 1, None)
    async with administered(brokers, **options) as admin, asyncio.timeout(WAIT_S):
        while True:
            active = (await admin.describe_cluster())["brokers"]
            if {*(replicas or ())} <= {broker["node_id"] for broker in active}:
                break
            await asyncio.sleep(0.1)
        made = await admin.create_topics([NewTopic(topic, *given, settings)])
    assert [error for _, error, _ in made.topic_errors] == [0], made


async def delete_topic(brokers: str | Sequence[str], topic: str) -> None:
    async with administered(brokers) as admin:
        deleted = await admin.delete_topics([topic])
    assert [error for _, error in deleted.topic_error_codes] == [0], deleted


async def produced(
    brokers: str | Sequence[str], topic: str, first: int, end: int, **options: object
) -> list[bytes]:
    """Produce records to partition 0 in order, each acknowledged before the next."""
    values = [_value(number) for number in range(first, end)]
    async with AIOKafkaProducer(bootstrap_servers=brokers, **options) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)
    return values


@asynccontextmanager
async def producing(
    brokers: str | Sequence[str],
    topic: str,
    sent: list[bytes],
    *,
    pace_s: float = 0.03,
    **options: object,
) -> AsyncIterator[None]:
    """Produce records during the block, each once; after it `sent` holds all of them.

    `pace_s`: the pause after each record.
    """
    ends = asyncio.Event()

    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=brokers, **options) as producer:
            while not ends.is_set():
                value = _value(len(sent))
                await producer.send_and_wait(topic, value, partition=0)
                sent.append(value)
                await asyncio.sleep(pace_s)

    task = asyncio.create_task(produce())
    try:
        yield
    finally:
        ends.set()
        await task


async def consumed(brokers: str | Sequence[str], topic: str, **options: object) -> list[bytes]:
    """All values of partition 0, from the first offset there is to the end."""
    partition = TopicPartition(topic, 0)
    values: list[bytes] = []
    async with AIOKafkaConsumer(
        bootstrap_servers=brokers, auto_offset_reset="earliest", **options
    ) as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        async with asyncio.timeout(WAIT_S):
            while await consumer.position(partition) < end:
                found = await consumer.getmany(partition, timeout_ms=500)
                values += [one.value for batch in found.values() for one in batch]
    return values


def _value(number: int) -> bytes:
    return b"%06d" % number + bytes(200)
