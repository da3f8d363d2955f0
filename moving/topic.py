"""Reads Kafka's metadata topic as it grows: all its partitions, each record once.

A record that tierledger mirrored into it has a header with its event's log and position.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import NamedTuple

from aiokafka import TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import RecordsToDelete  # type: ignore[import-untyped] # It has no types.

from tierledger.conformance.trace import TraceRecord
from tierledger.events.errors import InvalidArgument, RejectedError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.seal import is_seal
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import (
    Consumer,
    admin_of,
    answering,
    consumer_of,
    partitions_of,
    refuse_shrunk,
)
from tierledger.storage.kafka_brokers import KafkaBrokers

HEADER = "tierledger"
"""Header of a mirrored record; its value is `TOPIC_ID:PARTITION:POSITION`, in ASCII."""

NO_TOPIC = Uuid(bytes(16))
"""The topic id in a mirror's fence records and in seals; Kafka gives it to no topic."""

POLL_MS = 500


class MirroredFrom(NamedTuple):
    """The event that a record mirrors."""

    topic_id: Uuid
    partition: int
    position: int

    @classmethod
    def parse(cls, header: bytes) -> MirroredFrom:
        """The event in a header's value.

        Raises:
            InvalidArgument: The header is not one of a mirror's.
        """
        try:
            topic_id, partition, position = header.decode("ascii").split(":")
            return cls(Uuid.parse(topic_id), int(partition), int(position))
        except ValueError as error:
            raise InvalidArgument(
                f"expected TOPIC_ID:PARTITION:POSITION for {HEADER}, got {header!r:.80}"
            ) from error

    def header(self) -> bytes:
        return f"{self.topic_id}:{self.partition}:{self.position}".encode("ascii")

    @classmethod
    def of(cls, tip: TopicIdPartition, position: int) -> MirroredFrom:
        return cls(tip.topic_id, tip.partition, position)

    @property
    def is_fence(self) -> bool:
        return self.topic_id == NO_TOPIC


class TopicRecord(NamedTuple):
    """A record of the metadata topic."""

    record: TraceRecord
    mirrored: MirroredFrom | None
    """The mirrored event; None if Kafka's own manager or anybody else wrote the record."""

    @property
    def is_seal(self) -> bool:
        return is_seal(self.record.value)

    @property
    def is_fence(self) -> bool:
        """Whether it only fences earlier mirrors; a seal does that, too."""
        return self.mirrored is not None and self.mirrored.is_fence and not self.is_seal


class TopicReader:
    """Reads the metadata topic from its start; see `reading`."""

    def __init__(
        self, brokers: KafkaBrokers, consumer: Consumer, partitions: list[int]
    ) -> None:
        self._brokers = brokers
        self._consumer = consumer
        self._tops = [TopicPartition(METADATA_TOPIC, one) for one in partitions]

    @property
    def partition_count(self) -> int:
        return len(self._tops)

    async def ends(self) -> dict[int, int]:
        """The offset of the next record to come, by metadata partition.

        Raises:
            StorageUnavailable: The brokers do not answer.
        """
        async with answering(self._brokers):
            found = await self._consumer.end_offsets(self._tops)
        return {one.partition: end for one, end in found.items()}

    async def read(self, ends: Mapping[int, int]) -> AsyncIterator[list[TopicRecord]]:
        """The records before `ends` that were not read yet, as they come, without fences.

        Raises:
            InvalidArgument: The brokers have deleted or lost some of them.
            StorageUnavailable: The brokers do not answer.
        """
        while True:
            async with answering(self._brokers):
                # Positions also pass transaction markers, which no poll returns.
                behind = [
                    one
                    for one in self._tops
                    if await self._consumer.position(one) < ends.get(one.partition, 0)
                ]
                if not behind:
                    return
                found = await self._consumer.getmany(*behind, timeout_ms=POLL_MS)
                if not found:
                    await refuse_shrunk(
                        self._consumer, {one: ends[one.partition] for one in behind}
                    )
            records = []
            for top, some in found.items():
                within = [one for one in some if one.offset < ends[top.partition]]
                if len(within) < len(some):
                    self.seek(top.partition, ends[top.partition])
                for one in within:
                    record = TraceRecord(one.partition, one.offset, one.timestamp, one.value)
                    records.append(TopicRecord(record, _mirrored(one.headers)))
            yield [one for one in records if not one.is_fence]

    async def rewind(self) -> None:
        """Continue at the topic's start.

        Raises:
            StorageUnavailable: The brokers do not answer.
        """
        async with answering(self._brokers):
            first = await self._consumer.beginning_offsets(self._tops)
        for top, offset in first.items():
            self._consumer.seek(top, offset)

    def seek(self, partition: int, offset: int) -> None:
        """Continue that metadata partition at `offset`."""
        self._consumer.seek(TopicPartition(METADATA_TOPIC, partition), offset)

    async def unseal(self, seals: Mapping[int, int]) -> None:
        """Delete all records up to the seal at that offset, by metadata partition.

        Kafka's own manager then reads from the first record that is left.

        Raises:
            StorageUnavailable: The brokers do not answer, or refuse.
        """
        before = {
            TopicPartition(METADATA_TOPIC, number): RecordsToDelete(before_offset=offset + 1)
            for number, offset in seals.items()
        }
        async with answering(self._brokers), admin_of(self._brokers) as admin:
            await admin.delete_records(before)


def _mirrored(headers: tuple[tuple[str, bytes], ...]) -> MirroredFrom | None:
    found = next((value for name, value in headers if name == HEADER), None)
    if found is None:
        return None
    try:
        return MirroredFrom.parse(found)
    except InvalidArgument:
        return None  # Another program's header of the same name.


@asynccontextmanager
async def reading(brokers: KafkaBrokers) -> AsyncIterator[TopicReader]:
    """A reader of the metadata topic, at its start.

    Raises:
        RemoteResourceNotFound: The cluster has no such topic.
        StorageUnavailable: The brokers do not answer.
    """
    async with consumer_of(brokers) as consumer:
        async with answering(brokers):
            numbers = await partitions_of(brokers, METADATA_TOPIC)
            consumer.assign([TopicPartition(METADATA_TOPIC, one) for one in numbers])
        reader = TopicReader(brokers, consumer, numbers)
        await reader.rewind()
        yield reader


class KafkaCluster(NamedTuple):
    """A Kafka cluster, by its own account."""

    cluster_id: str
    alive: frozenset[int]
    """The ids of the brokers that it regards as alive."""
    addresses: Mapping[int, str] = MappingProxyType({})
    """Where each of them listens for clients, by its id."""


async def kafka_cluster(brokers: KafkaBrokers) -> KafkaCluster:
    """The cluster that these brokers belong to.

    Raises:
        StorageUnavailable: No broker answers.
    """
    async with answering(brokers), admin_of(brokers) as admin:
        found = await admin.describe_cluster()
    addresses = {one["node_id"]: f"{one['host']}:{one['port']}" for one in found["brokers"]}
    return KafkaCluster(str(found["cluster_id"]), frozenset(addresses), addresses)


def check_cluster(brokers: KafkaBrokers, found: str, expected: str) -> None:
    """Refuse brokers of another cluster than the service's.

    Raises:
        RejectedError: They are; it names both.
    """
    if found != expected:
        raise RejectedError(
            f"the brokers at {brokers} are of the cluster {found}, and this service is of "
            f"{expected}"
        )
