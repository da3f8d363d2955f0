"""Kafka itself is asked which broker leads, and in which leader epoch."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.models.kafka.clients import WAIT_S, create_topic, delete_topic
from tierledger.actors.oracle.kafka import KafkaOracle
from tierledger.benchmarks.kafka_broker import SHORT_SESSION, KafkaBroker
from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.kafka_brokers import KafkaBrokers

UNKNOWN = TopicIdPartition(Uuid.parse("AAECAwQFBgcICQoLDA0ODw"), 0, "payments")


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(SHORT_SESSION) as broker:
        yield broker


@pytest.fixture
async def orders(broker: KafkaBroker) -> AsyncIterator[TopicIdPartition]:
    """The last of three partitions."""
    await create_topic(broker.address, "orders", 3)
    known = broker.logs / "orders-2" / "partition.metadata"
    async with asyncio.timeout(WAIT_S):
        while not known.exists():  # noqa: ASYNC110 - Another process makes it.
            await asyncio.sleep(0.05)
    topic_id = known.read_text().split()[-1]
    yield TopicIdPartition(Uuid.parse(topic_id), 2, "orders")
    await delete_topic(broker.address, "orders")


async def test_the_leader_and_its_epoch_are_known(
    broker: KafkaBroker, orders: TopicIdPartition
) -> None:
    oracle = KafkaOracle(KafkaBrokers(broker.address))

    assert await oracle.leaders_of([UNKNOWN, orders]) == [None, LeaderVerdict(1, 0)]

    broker.restart(signal.SIGKILL)
    (verdict,) = await oracle.leaders_of([orders])
    assert verdict is not None
    assert verdict.broker_id == 1
    assert verdict.leader_epoch is not None
    assert verdict.leader_epoch > 0


async def test_one_broker_that_answers_is_enough(
    broker: KafkaBroker, orders: TopicIdPartition
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        oracle = KafkaOracle(KafkaBrokers(f"{address_of(silent)},{broker.address}"))

        (verdict,) = await oracle.leaders_of([orders])

    assert verdict is not None
    assert verdict.broker_id == 1


async def test_without_a_broker_that_answers_nobody_knows() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        oracle = KafkaOracle(KafkaBrokers(address_of(closed)))

    with pytest.raises(ConnectionError, match="Connect call failed"):
        await oracle.leaders_of([UNKNOWN])


def address_of(server: socket.socket) -> str:
    host, port = server.getsockname()
    return f"{host}:{port}"
