"""What tierledger's own logs say, written into Kafka's metadata topic: the way back.

Each event of a log in effect that was not imported becomes the record that Kafka's own manager
would have written, in order, once. How far that has come is read from the topic itself: no
second place could be wrong about it.

A record that comes a second time, behind later ones, ends the consumer of Kafka's own manager.
So a mirror has a producer whose start takes the place of all earlier ones, and before it first
writes to a metadata partition it puts a record there, a fence, by which the broker refuses
those from then on; what they had written until then it reads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped] # It has no types.
from typing_extensions import override

from tierledger.conformance.loaded_trace import RECORD_BYTES_MAX
from tierledger.events.errors import DataError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition
from tierledger.events.kafka.codec import encode
from tierledger.events.kafka.metadata_partition import metadata_partition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import SessionOpened
from tierledger.events.metadata import RemoteLogSegmentMetadataUpdate
from tierledger.moving.topic import HEADER, NO_TOPIC, MirroredFrom, TopicReader
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import REQUEST_MS, answering, reached
from tierledger.storage.catalog import Catalog
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.storage.kafka_export import kafka_record
from tierledger.storage.partition.reader import LogEntry

Producer: TypeAlias = Any

Key: TypeAlias = tuple[bytes, int]


MIRROR = "tierledger-mirror"
"""The `transactional.id` of all mirrors into a cluster."""

_BARRED = TopicIdPartition(NO_TOPIC, 0, MIRROR)
FENCE = encode(
    RemoteLogSegmentMetadataUpdate(
        RemoteLogSegmentId(_BARRED, NO_TOPIC),
        0,
        RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
        broker_id=0,
    )
)
"""About a partition that no broker hosts, so Kafka's own manager passes it over."""


class _FencingProducer(AIOKafkaProducer):  # type: ignore[misc] # It has no types.
    """Its start gets it the newest epoch of `MIRROR`; then it writes without transactions.

    Their markers would hold up Kafka's own manager, which waits for the topic's last record.
    """

    @override
    async def start(self) -> None:
        await super().start()
        self._txn_manager.transactional_id = None

    @override
    async def stop(self) -> None:
        """Without what brokers that are away have not taken: the next mirror begins with it."""
        if self._sender.sender_task is not None:
            self._sender.sender_task.cancel()
        await super().stop()


@asynccontextmanager
async def producer_of(brokers: KafkaBrokers) -> AsyncIterator[Producer]:
    """A producer that writes each record once, in order, and instead of all before it.

    Raises:
        StorageUnavailable: The brokers do not answer.
    """
    async with answering(brokers):
        options = await reached(brokers)
    producer = _FencingProducer(
        transactional_id=MIRROR,
        acks="all",
        max_request_size=RECORD_BYTES_MAX,
        request_timeout_ms=REQUEST_MS,
        **options,
    )
    try:
        async with answering(brokers):
            await producer.start()
        yield producer
    finally:
        await producer.stop()


class Mirror:
    """Writes what is new in all logs."""

    def __init__(
        self,
        catalog: Catalog,
        reader: TopicReader,
        producer: Producer,
        brokers: KafkaBrokers,
        imported: Mapping[int, int] | None = None,
    ) -> None:
        """`reader`: at the topic's start; `producer`: of `producer_of`, started.

        `imported`: the ends up to which others might write; none: its end as it is found.
        """
        self.mirrored = 0
        """Records that were written."""
        self.foreign = 0
        """Records of somebody else that came since."""
        self._catalog = catalog
        self._reader = reader
        self._producer = producer
        self._brokers = brokers
        self._entries: dict[Key, LogEntry] = {}
        self._positions: dict[Key, int] = {}
        """The last event of each log that stands in the topic."""
        self._topics: dict[Key, str] = {}
        self._damaged: dict[Key, str] = {}
        self._fenced: set[int] = set()
        """Metadata partitions that no earlier mirror writes any more."""
        self._imported = imported

    @property
    def trouble(self) -> str | None:
        """Whether somebody else writes the topic, too."""
        if self._damaged:
            first = next(iter(self._damaged.values()))
            return f"{len(self._damaged)} logs are not mirrored: {first}"
        if self.foreign:
            return f"somebody else writes {METADATA_TOPIC}: {self.foreign} records"
        return None

    async def round(self) -> None:
        """Write what has come into the logs before this began.

        Raises:
            RemoteStorageError: The brokers or the store do not answer, or a log is damaged.
        """
        await self._read()
        async for tip, _ in self._catalog.first_batches():
            key = (bytes(tip.topic_id), tip.partition)
            try:
                await self._mirror(tip, key)
                self._damaged.pop(key, None)
            except DataError as error:
                self._damaged[key] = f"{tip}: {error}"

    async def _read(self) -> None:
        """Read the topic to its end: what was mirrored, and whether others write it."""
        ends = await self._reader.ends()
        imported = self._imported = ends if self._imported is None else self._imported
        async for records in self._reader.read(ends):
            for record, mirrored in records:
                if mirrored is not None:
                    key = (bytes(mirrored.topic_id), mirrored.partition)
                    last = self._positions.get(key, -1)
                    self._positions[key] = max(last, mirrored.position)
                elif record.offset >= imported.get(record.partition, 0):
                    self.foreign += 1

    async def _mirror(self, tip: TopicIdPartition, key: Key) -> None:
        log = self._catalog.reader(tip)
        entry = self._entries.get(key)
        if entry is None:
            state, next_batch = await log.start()
            entry = LogEntry(state.next_position, next_batch, state.chain_hash)
        async for batch in log.decoded_batches(entry):
            sent: list[tuple[int, int, bytes]] = []
            for event in batch.events:
                if isinstance(event.body, SessionOpened):
                    self._topics[key] = event.body.topic
                if event.position <= self._positions.get(key, -1):
                    continue
                if getattr(event.body, "source", None) is not None:
                    continue  # Kafka's own.
                named = replace(tip, topic=self._topics.get(key, ""))
                value = kafka_record(named, event.body)
                if value is not None:
                    sent.append((event.position, event.log_time_ms, value))
            await self._send(tip, sent)
            entry = LogEntry(
                entry.next_position + len(batch.events), batch.number + 1, batch.chain_hash
            )
            self._entries[key] = entry

    async def _send(self, tip: TopicIdPartition, records: list[tuple[int, int, bytes]]) -> None:
        where = metadata_partition(
            tip.topic_id, tip.partition, partition_count=self._reader.partition_count
        )
        if records and where not in self._fenced:
            await self._fence(where)
            known = self._positions.get((bytes(tip.topic_id), tip.partition), -1)
            records = [one for one in records if one[0] > known]
        async with answering(self._brokers):
            written = [
                await self._producer.send(
                    METADATA_TOPIC,
                    value,
                    partition=where,
                    timestamp_ms=time_ms,
                    headers=[(HEADER, MirroredFrom.of(tip, position).header())],
                )
                for position, time_ms, value in records
            ]
            for one in written:
                await one
        if records:
            self._positions[bytes(tip.topic_id), tip.partition] = records[-1][0]
            self.mirrored += len(records)

    async def _fence(self, where: int) -> None:
        """Bar earlier mirrors from a metadata partition, and read what they had written."""
        async with answering(self._brokers):
            written = await self._producer.send(
                METADATA_TOPIC,
                FENCE,
                partition=where,
                timestamp_ms=None,
                headers=[(HEADER, MirroredFrom.of(_BARRED, 0).header())],
            )
            await written
        self._fenced.add(where)
        await self._read()
