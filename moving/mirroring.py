"""Mirrors tierledger's logs into Kafka's metadata topic, so that a cluster can move back.

Each effective event that was not imported becomes the record that Kafka's own manager would
have written, in order and once. The progress is read from the topic itself, so no second place
can contradict it.

A record that is written again after later ones ends the consumer of Kafka's own manager. So no
two mirrors may write. The start of a mirror's producer gets the newest producer epoch. Before
it first writes to a metadata partition, the mirror writes a fence record there: from then on
the broker of that partition refuses all earlier producers. Then the mirror reads what those had
written before the fence, and only then writes.

Records that neither a mirror wrote nor an import took over are reported (`foreign_records`);
the mirror leaves them as they are.

A log that was forgotten no longer has the events that would be mirrored. It held nothing then,
so the mirror removes from the topic what the topic still has of that partition.

What stands before a seal counts for nothing. Behind it the mirror writes all events, imported
ones, too. When the topic has everything, the mirror deletes the seals and what stands before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from hashlib import blake2b
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped] # It has no types.
from msgspec.structs import replace
from typing_extensions import override

from tierledger.conformance.loaded_trace import (
    RECORD_BYTES_MAX,
    RefusedRecord,
    imported_record,
    partition_of,
)
from tierledger.conformance.recorded_segments import RecordedSegment, RecordedTopic
from tierledger.conformance.trace import TraceRecord
from tierledger.events.errors import DataError, StorageUnavailable
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import encode
from tierledger.events.kafka.metadata_partition import metadata_partition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import SessionOpened
from tierledger.events.metadata import RemoteLogSegmentMetadataUpdate
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.moving.foreign_records import ForeignRecords
from tierledger.moving.topic import HEADER, NO_TOPIC, MirroredFrom, TopicReader
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import answering, client_of
from tierledger.storage.catalog import Catalog
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.storage.kafka_export import kafka_record
from tierledger.storage.partition.reader import LogEntry

Producer: TypeAlias = Any

Key: TypeAlias = tuple[bytes, int]


MIRROR = "tierledger-mirror"
"""The `transactional.id` of all mirrors into a cluster, by which brokers fence old ones."""

_BARRED = TopicIdPartition(NO_TOPIC, 0, MIRROR)
"""A partition that no broker hosts."""
FENCE = encode(
    RemoteLogSegmentMetadataUpdate(
        RemoteLogSegmentId(_BARRED, NO_TOPIC),
        0,
        RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
        broker_id=0,
    )
)
"""A record of `_BARRED`, which Kafka's own manager ignores."""


NO_TIME = -1
"""The time of a record that tells none."""


def sent_as(event: MirroredFrom, value: bytes, time_ms: int = NO_TIME) -> dict[str, Any]:
    """Key, header and time with which a record with `value` is sent.

    Brokers refuse a time that is more than an hour ahead of theirs, so a record has that of the
    broker whose event it is, or none: never one that only a clock of ours has shown.

    A compacted topic takes no record without a key. It keeps the last one of each key, so no
    two records that differ have the same one.
    """
    name = event.header()
    key = name + b":" + blake2b(value, digest_size=8).hexdigest().encode("ascii")
    return {"key": key, "headers": [(HEADER, name)], "timestamp_ms": time_ms}


NO_EVENT = MirroredFrom.of(_BARRED, 0)
"""What a fence or a seal mirrors."""


COORDINATOR_S = 20.0
NO_COORDINATOR = (
    f"no transaction coordinator answered {MIRROR} within {COORDINATOR_S:.0f} s. Are there as "
    "many brokers as transaction.state.log.replication.factor asks for, and as many in sync as "
    "transaction.state.log.min.isr?"
)


class _FencingProducer(AIOKafkaProducer):  # type: ignore[misc] # It has no types.
    """A producer that gets the newest epoch of `MIRROR`, and writes without transactions.

    Kafka's own manager waits until it has read the topic's last offset. A transaction's marker
    there is no record, and would make it wait in vain.
    """

    @override
    async def start(self) -> None:
        try:
            async with asyncio.timeout(COORDINATOR_S):
                await super().start()
        except TimeoutError as error:
            raise TimeoutError(NO_COORDINATOR) from error
        self._txn_manager.transactional_id = None

    @override
    async def stop(self) -> None:
        """Drop records that brokers have not acknowledged; the next mirror writes them."""
        if self._sender.sender_task is not None:
            self._sender.sender_task.cancel()
        await super().stop()


def producer_of(brokers: KafkaBrokers) -> AbstractAsyncContextManager[Producer]:
    """A producer that writes each record once, in order, and fences all earlier producers.

    Raises:
        StorageUnavailable: The brokers do not answer.
    """
    return client_of(
        brokers,
        _FencingProducer,
        transactional_id=MIRROR,
        acks="all",
        max_request_size=RECORD_BYTES_MAX,
    )


class Mirror:
    """Writes the new events of all logs to the topic."""

    def __init__(
        self,
        catalog: Catalog,
        reader: TopicReader,
        producer: Producer,
        brokers: KafkaBrokers,
    ) -> None:
        """`reader`: at the topic's start; `producer`: from `producer_of`, started."""
        self.mirrored = 0
        """Records that this mirror wrote."""
        self.foreign = ForeignRecords(catalog)
        """Records of others that were not imported."""
        self._catalog = catalog
        self._reader = reader
        self._producer = producer
        self._brokers = brokers
        self._entries: dict[Key, LogEntry] = {}
        self._positions: dict[Key, int] = {}
        """The position of each log's last mirrored event."""
        self._written: set[int] = set()
        """Metadata partitions with records of mirrors."""
        self._topics: dict[Key, str] = {}
        self._damaged: list[str] = []
        self._fenced: set[int] = set()
        """Metadata partitions from which earlier mirrors are fenced."""
        self._ends: Mapping[int, int] = {}
        """How far the topic was read."""
        self._forgotten: list[TopicIdPartition] = []
        """Logs that began with a boundary after which nothing was mirrored yet."""
        self._seals: dict[int, int] = {}
        """By metadata partition the offset of the last seal."""
        self._is_begun = False
        self._is_open = False
        """Whether the topic has everything, and its seals were deleted."""

    @property
    def trouble(self) -> str | None:
        """Logs that are damaged; None if all is well."""
        if self._damaged:
            return f"{len(self._damaged)} logs are not mirrored: {self._damaged[0]}"
        return None

    async def round(self) -> None:
        """Write the events that were in the logs when the round began.

        Raises:
            RemoteStorageError: The brokers or the store do not answer, a log is damaged, or
                the topic was sealed meanwhile.
        """
        await self._read()
        self._is_begun = True
        damaged: list[str] = []
        async for tip, _ in self._catalog.first_batches():
            await self._mirror_or_note(tip, damaged)
        forgotten, self._forgotten = self._forgotten, []
        if forgotten:
            await self._empty(forgotten)
        for tip in forgotten:
            await self._mirror_or_note(tip, damaged)
        self._damaged = damaged
        if self._seals and not self._is_open and not damaged:
            await self._reader.unseal(self._seals)
            self._is_open = True

    async def _mirror_or_note(self, tip: TopicIdPartition, damaged: list[str]) -> None:
        key = _key(tip)
        try:
            await self._mirror(tip, key)
        except DataError as error:
            if not await self._was_forgotten(tip, key):
                damaged.append(f"{tip}: {error}")

    async def _was_forgotten(self, tip: TopicIdPartition, key: Key) -> bool:
        """Whether a log begins after the place up to which it was read; go on at its start."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        with contextlib.suppress(DataError):
            if (await self._catalog.reader(tip).start()).next_batch > entry.next_batch:
                return True
        self._entries[key] = entry
        return False

    async def _read(self) -> None:
        """Read the topic to its end: mirrored positions, and records of other writers."""
        ends = self._ends = await self._reader.ends()
        async for records in self._reader.read(ends):
            for one in records:
                record, mirrored = one
                if one.is_seal:
                    self._meet_seal(record)
                elif mirrored is not None:
                    key = (bytes(mirrored.topic_id), mirrored.partition)
                    last = self._positions.get(key, -1)
                    self._positions[key] = max(last, mirrored.position)
                    self._written.add(record.partition)
                else:
                    is_behind = record.partition in self._written
                    await self.foreign.meet(record, is_mirrored_before=is_behind)

    def _meet_seal(self, record: TraceRecord) -> None:
        """Forget what stands before a seal: it will be deleted."""
        if self._is_begun:
            raise StorageUnavailable(
                f"{METADATA_TOPIC}-{record.partition} was sealed while it was mirrored"
            )
        self._seals[record.partition] = record.offset
        self.foreign.drop(record.partition)
        self._positions = {
            key: position
            for key, position in self._positions.items()
            if self._place(*key) != record.partition
        }

    async def _mirror(self, tip: TopicIdPartition, key: Key) -> None:
        log = self._catalog.reader(tip)
        entry = self._entries.get(key)
        if entry is None:
            state, next_batch = await log.start()
            entry = LogEntry(state.next_position, next_batch, state.chain_hash)
            if state.next_position > max(0, self._positions.get(key, -1)):
                self._entries[key] = entry
                self._forgotten.append(tip)
                return
        async for batch in log.decoded_batches(entry):
            sent: list[tuple[int, int, bytes]] = []
            for event in batch.events:
                if isinstance(event.body, SessionOpened):
                    self._topics[key] = event.body.topic
                if event.position <= self._positions.get(key, -1):
                    continue
                source = getattr(event.body, "source", None)
                if source is not None and source[1] > self._seals.get(source[0], -1):
                    continue  # Imported from the topic, so it is there already.
                named = replace(tip, topic=self._topics.get(key, ""))
                value = kafka_record(named, event.body)
                if value is not None:
                    said_ms = getattr(event.body, "event_timestamp_ms", NO_TIME)
                    time_ms = max(NO_TIME, min(said_ms, event.log_time_ms))
                    sent.append((event.position, time_ms, value))
            await self._send(tip, sent)
            entry = LogEntry(
                entry.next_position + len(batch.events), batch.number + 1, batch.chain_hash
            )
            self._entries[key] = entry

    async def _empty(self, forgotten: list[TopicIdPartition]) -> None:
        """Remove from the topic the segments that these logs do not hold any more.

        Their events are gone, and with them perhaps some that were not mirrored yet.
        """
        left = await self._left(forgotten)
        for tip in left:
            await self._fence_once(self._place(*_key(tip)))
        if left:
            left = await self._left([*left])  # An earlier mirror may have written meanwhile.
        for tip, segments in left.items():
            position = self._entries[_key(tip)].next_position - 1
            await self._produce(
                tip,
                [
                    (position, NO_TIME, encode(step))
                    for one in segments
                    for step in _removal(one)
                ],
            )

    async def _left(
        self, forgotten: list[TopicIdPartition]
    ) -> dict[TopicIdPartition, list[RecordedSegment]]:
        """Segments of these partitions that the topic has and the logs do not any more.

        Foreign ones are none of them: no log has had them.
        """
        asked = set(map(_key, forgotten))
        topic = RecordedTopic(())
        await self._reader.rewind()
        async for records in self._reader.read(self._ends):
            for record, mirrored in records:
                imported = imported_record(record)
                is_gone = record.offset <= self._seals.get(record.partition, -1)
                if is_gone or isinstance(imported, RefusedRecord):
                    continue
                tip = partition_of(imported)
                if _key(tip) not in asked:
                    continue
                if mirrored is not None or not await self.foreign.has(imported):
                    assert record.value is not None, "it was decoded"
                    topic.apply(record.value)
        left: dict[TopicIdPartition, list[RecordedSegment]] = {}
        for tip in forgotten:
            known = topic.partition(tip.topic_id, tip.partition).segments
            if known:
                state, _ = await self._catalog.reader(tip).state()
                held = {str(Uuid(id_of_row(row))) for row in state.rows}
                left[tip] = [segment for one, segment in known.items() if one not in held]
        return {tip: segments for tip, segments in left.items() if segments}

    async def _send(self, tip: TopicIdPartition, records: list[tuple[int, int, bytes]]) -> None:
        if records and await self._fence_once(self._place(*_key(tip))):
            # An earlier mirror may have written some of them before the fence.
            known = self._positions.get(_key(tip), -1)
            records = [one for one in records if one[0] > known]
        await self._produce(tip, records)

    def _place(self, topic_id: bytes, partition: int) -> int:
        """The metadata partition of a partition's records."""
        count = self._reader.partition_count
        return metadata_partition(Uuid(topic_id), partition, partition_count=count)

    async def _produce(
        self, tip: TopicIdPartition, records: list[tuple[int, int, bytes]]
    ) -> None:
        async with answering(self._brokers):
            written = [
                await self._producer.send(
                    METADATA_TOPIC,
                    value,
                    partition=self._place(*_key(tip)),
                    **sent_as(MirroredFrom.of(tip, position), value, time_ms),
                )
                for position, time_ms, value in records
            ]
            for one in written:
                await one
        if records:
            self._positions[_key(tip)] = records[-1][0]
            self.mirrored += len(records)

    async def _fence_once(self, where: int) -> bool:
        """Fence earlier mirrors from a metadata partition, then read what they had written.

        False if that was done before.
        """
        if where in self._fenced:
            return False
        async with answering(self._brokers):
            written = await self._producer.send(
                METADATA_TOPIC, FENCE, partition=where, **sent_as(NO_EVENT, FENCE)
            )
            await written
        self._fenced.add(where)
        await self._read()
        return True


def _key(tip: TopicIdPartition) -> Key:
    return bytes(tip.topic_id), tip.partition


def _removal(segment: RecordedSegment) -> list[RemoteLogSegmentMetadataUpdate]:
    """The updates that remove a segment, from its present state on."""
    steps = [
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
        RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
    ]
    return [
        RemoteLogSegmentMetadataUpdate(
            segment.added.remote_log_segment_id,
            segment.last.event_timestamp_ms,
            state,
            segment.last.broker_id,
        )
        for state in steps[steps[0] is segment.state :]
    ]
