"""Seals Kafka's metadata topic while tierledger owns the metadata and nothing is mirrored.

Nothing can keep a broker without the plugin from starting. Its own manager would find no
segments in the topic, and the broker would delete the tier. A seal in each partition of the
topic ends that manager before it is ready. A mirror removes the seals once it has written
everything behind them.
"""

from __future__ import annotations

from aiokafka import TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import NewTopic  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # type: ignore[import-untyped] # It has no types.
from aiokafka.errors import TopicAlreadyExistsError, for_code  # type: ignore[import-untyped] # It has no types.

from tierledger.events.errors import InvalidArgument
from tierledger.events.kafka.metadata_partition import METADATA_PARTITIONS
from tierledger.events.kafka.seal import SEAL, is_seal
from tierledger.moving.mirroring import NO_EVENT, producer_of, sent_as
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import (
    Admin,
    admin_of,
    answering,
    consumer_of,
    partitions_of,
)
from tierledger.storage.kafka_brokers import KafkaBrokers

COUNT_SETTING = "remote.log.metadata.topic.num.partitions"
"""How a broker's setting of the topic's partitions ends, behind its prefix."""

REPLICAS = 3
"""Kafka's replication factor of the topic; with fewer brokers, their number."""

_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "remote.storage.enable": "false",
}
"""Kafka's own manager creates its topic with these."""

POLL_MS = 500


async def seal(brokers: KafkaBrokers) -> int:
    """Seal each partition of the metadata topic whose last record is no seal; how many.

    A seal also fences mirrors, so none of them writes behind it.

    Raises:
        RemoteResourceNotFound: The cluster has no such topic.
        StorageUnavailable: The brokers do not answer or refuse, or somebody else seals.
    """
    sealed = await sealed_partitions(brokers)
    async with answering(brokers):
        numbers = await partitions_of(brokers, METADATA_TOPIC)
    async with producer_of(brokers) as producer, answering(brokers):
        sent = [
            await producer.send(METADATA_TOPIC, SEAL, partition=one, **sent_as(NO_EVENT, SEAL))
            for one in numbers
            if one not in sealed
        ]
        for one in sent:
            await one
    return len(sent)


async def sealed_partitions(brokers: KafkaBrokers) -> set[int]:
    """The metadata partitions whose last record is a seal.

    Raises:
        RemoteResourceNotFound: The cluster has no such topic.
        StorageUnavailable: The brokers do not answer.
    """
    sealed: set[int] = set()
    async with consumer_of(brokers) as consumer, answering(brokers):
        numbers = await partitions_of(brokers, METADATA_TOPIC)
        tops = [TopicPartition(METADATA_TOPIC, one) for one in numbers]
        consumer.assign(tops)
        first = await consumer.beginning_offsets(tops)
        ends = await consumer.end_offsets(tops)
        behind = {one for one in tops if first[one] < ends[one]}
        for one in behind:
            consumer.seek(one, ends[one] - 1)
        while behind:
            for top, records in (await consumer.getmany(*behind, timeout_ms=POLL_MS)).items():
                if is_seal(records[-1].value):
                    sealed.add(top.partition)
            # Positions also pass transaction markers, which no poll returns.
            behind = {one for one in behind if await consumer.position(one) < ends[one]}
    return sealed


async def create(brokers: KafkaBrokers, partition_count: int | None = None) -> None:
    """Create the metadata topic as Kafka's own manager would, if there is none.

    `partition_count`: None: as many as Kafka's own manager has by default.

    Raises:
        InvalidArgument: The number is set at the brokers, and they do not tell it.
        StorageUnavailable: The brokers do not answer, or refuse.
    """
    async with answering(brokers), admin_of(brokers) as admin:
        if METADATA_TOPIC in await admin.list_topics():
            return
        alive = [one["node_id"] for one in (await admin.describe_cluster())["brokers"]]
        if partition_count is None:
            await _refuse_set_count(admin, alive)
            partition_count = METADATA_PARTITIONS
        replicas = min(REPLICAS, len(alive))
        topic = NewTopic(METADATA_TOPIC, partition_count, replicas, topic_configs=_SETTINGS)
        for _, code, *_ in (await admin.create_topics([topic])).topic_errors:
            if code not in {0, TopicAlreadyExistsError.errno}:
                raise for_code(code)(f"{METADATA_TOPIC} cannot be created")


async def _refuse_set_count(admin: Admin, alive: list[int]) -> None:
    """Kafka tells that a setting of its manager is set, but never the value."""
    asked = [ConfigResource(ConfigResourceType.BROKER, str(one)) for one in alive]
    for answer in await admin.describe_configs(asked):
        for code, _, _, broker, entries in answer.resources:
            if code:
                raise for_code(code)(f"the settings of broker {broker}")
            names = [entry[0] for entry in entries if entry[0].endswith(COUNT_SETTING)]
            if names:
                raise InvalidArgument(
                    f"broker {broker} has its own {names[0]}, and Kafka does not tell the "
                    f"value: {METADATA_TOPIC} has to be created with so many partitions, "
                    "handover --fresh --metadata-partitions N"
                )
