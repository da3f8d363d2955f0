"""Kafka's metadata topic in memory, as `moving` reads and writes it.

tests/moving/test_stock_cluster.py uses the real topic; this one may hold records that no broker
would write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from typing_extensions import override

from tierledger.conformance.trace import TraceRecord
from tierledger.events.kafka.seal import SEAL
from tierledger.moving.topic import NO_TOPIC, MirroredFrom, TopicReader, TopicRecord
from tierledger.storage.kafka_brokers import KafkaBrokers

PARTITIONS = 2


class FakeTopic:
    """All records of all partitions."""

    def __init__(self) -> None:
        self.records: dict[int, list[TopicRecord]] = {one: [] for one in range(PARTITIONS)}
        self.compacted: set[tuple[int, int]] = set()
        """Partition and offset of records that compaction has removed."""
        self.keys: list[tuple[int, bytes]] = []
        """Partition and key of the records that were sent, without fences."""
        self.starts = dict.fromkeys(range(PARTITIONS), 0)
        """The offset of each partition's first record that was not deleted."""

    def add(
        self, value: bytes | None, partition: int = 0, mirrored: MirroredFrom | None = None
    ) -> None:
        known = self.records[partition]
        record = TraceRecord(partition, len(known), 1_800_000_000_000 + len(known), value)
        known.append(TopicRecord(record, mirrored))

    async def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes,
        partition: int,
        timestamp_ms: int,
        headers: list[tuple[str, bytes]],
    ) -> asyncio.Future[None]:
        """Append a record, with a producer's interface."""
        mirrored = MirroredFrom.parse(headers[0][1])
        if not mirrored.is_fence:
            self.keys.append((partition, key))
        self.add(value, partition, mirrored)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def seal(self) -> None:
        """Seal each partition."""
        for partition in self.records:
            self.add(SEAL, partition, MirroredFrom(NO_TOPIC, 0, 0))

    def kept(self, partition: int) -> list[TopicRecord]:
        """The partition's records, without those that were deleted."""
        return self.records[partition][self.starts[partition] :]

    def values(self) -> list[bytes]:
        """All values in the topic, partition after partition; deletions are left out."""
        found = [one.record.value for number in self.records for one in self.kept(number)]
        return [one for one in found if one is not None]


class FakeReader(TopicReader):
    """A reader of a `FakeTopic`, which begins at the topic's start."""

    def __init__(self, topic: FakeTopic) -> None:
        none: Any = None
        super().__init__(KafkaBrokers("nobody:9092"), none, list(range(PARTITIONS)))
        self._topic = topic
        self._next = dict(topic.starts)

    @override
    async def ends(self) -> dict[int, int]:
        return {number: len(some) for number, some in self._topic.records.items()}

    @override
    async def read(self, ends: Mapping[int, int]) -> AsyncIterator[list[TopicRecord]]:
        for number, end in ends.items():
            first, self._next[number] = self._next[number], end
            if first < end:
                records = self._topic.records[number][first:end]
                gone = self._topic.compacted
                yield [
                    one
                    for one in records
                    if not one.is_fence and (number, one.record.offset) not in gone
                ]

    @override
    async def rewind(self) -> None:
        self._next = dict(self._topic.starts)

    @override
    def seek(self, partition: int, offset: int) -> None:
        self._next[partition] = offset

    @override
    async def unseal(self, seals: Mapping[int, int]) -> None:
        for partition, offset in seals.items():
            self._topic.starts[partition] = offset + 1
