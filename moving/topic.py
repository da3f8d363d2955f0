"""Kafka's metadata topic, read on and on: all partitions of it, each record once.

What tierledger mirrored into it carries a header that says where it stands in which log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiokafka import TopicPartition  # type: ignore[import-untyped] # It has no types.

from tierledger.conformance.trace import TraceRecord
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import (
    Consumer,
    admin_of,
    answering,
    consumer_of,
    partitions_of,
)
from tierledger.storage.kafka_brokers import KafkaBrokers

HEADER = "tierledger"
"""Of a mirrored record: `TOPIC_ID:PARTITION:POSITION`, in ASCII."""

NO_TOPIC = Uuid(bytes(16))
"""Whose partition a mirror's fences are about: Kafka gives no topic this id."""

POLL_MS = 500


class MirroredFrom(NamedTuple):
    """The event that a mirrored record says again."""

    topic_id: Uuid
    partition: int
    position: int

    @classmethod
    def parse(cls, header: bytes) -> MirroredFrom:
        """What a header says.

        Raises:
            InvalidArgument: It is none of ours.
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
    """None of what Kafka's own manager wrote, or somebody else."""


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
        """The offset that comes next, by metadata partition.

        Raises:
            StorageUnavailable: The brokers do not answer.
        """
        async with answering(self._brokers):
            found = await self._consumer.end_offsets(self._tops)
        return {one.partition: end for one, end in found.items()}

    async def read(self, ends: Mapping[int, int]) -> AsyncIterator[list[TopicRecord]]:
        """What was not read yet, and stands before `ends`, as it comes; no fences.

        Raises:
            InvalidArgument: The brokers have deleted some of it.
            StorageUnavailable: They do not answer.
        """
        while True:
            async with answering(self._brokers):
                # Counts markers, too, which are not given to us.
                behind = [
                    one
                    for one in self._tops
                    if await self._consumer.position(one) < ends.get(one.partition, 0)
                ]
                if not behind:
                    return
                found = await self._consumer.getmany(*behind, timeout_ms=POLL_MS)
            records = []
            for top, some in found.items():
                within = [one for one in some if one.offset < ends[top.partition]]
                if len(within) < len(some):
                    self.seek(top.partition, ends[top.partition])
                for one in within:
                    mirrored = _mirrored(one.headers)
                    if mirrored is None or not mirrored.is_fence:
                        record = TraceRecord(
                            one.partition, one.offset, one.timestamp, one.value
                        )
                        records.append(TopicRecord(record, mirrored))
            yield records

    def seek(self, partition: int, offset: int) -> None:
        """Read that metadata partition from `offset` on."""
        self._consumer.seek(TopicPartition(METADATA_TOPIC, partition), offset)


def _mirrored(headers: tuple[tuple[str, bytes], ...]) -> MirroredFrom | None:
    found = next((value for name, value in headers if name == HEADER), None)
    if found is None:
        return None
    try:
        return MirroredFrom.parse(found)
    except InvalidArgument:
        return None  # Another's, whatever it is called.


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
            tops = [TopicPartition(METADATA_TOPIC, one) for one in numbers]
            consumer.assign(tops)
            first = await consumer.beginning_offsets(tops)
            for top, offset in first.items():
                consumer.seek(top, offset)
        yield TopicReader(brokers, consumer, numbers)


async def live_brokers(brokers: KafkaBrokers) -> set[int]:
    """The ids of the brokers that Kafka knows as alive.

    Raises:
        StorageUnavailable: None answers.
    """
    async with answering(brokers), admin_of(brokers) as admin:
        found = await admin.describe_cluster()
    return {one["node_id"] for one in found["brokers"]}
