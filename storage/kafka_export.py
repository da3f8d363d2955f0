"""Exports a cluster's logs as records of `__remote_log_metadata`, for Kafka's own manager.

Every effective event becomes the record that Kafka would have written. Sessions, and imported
records without effect, have no such record and are left out.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from tierledger.events import log_events as log
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaValue, encode
from tierledger.events.kafka.metadata_partition import METADATA_PARTITIONS, metadata_partition
from tierledger.events.kafka.tags import UnknownTags
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.storage.partition.reader import PartitionReader

BATCHES_AHEAD = 400
"""Batches of all logs in memory while they are merged: 26 MB if each has 64 KiB."""


class ExportedRecord(NamedTuple):
    """One record of the metadata topic."""

    partition: int
    offset: int
    timestamp_ms: int
    value: bytes

    def json_line(self) -> str:
        """The record as a line of a recorded trace."""
        return (
            f'{{"partition":{self.partition},"offset":{self.offset},'
            f'"timestamp_ms":{self.timestamp_ms},"key_hex":null,'
            f'"value_hex":"{self.value.hex()}"}}\n'
        )


async def exported_records(
    readers: Iterable[PartitionReader], partition_count: int = METADATA_PARTITIONS
) -> AsyncIterator[ExportedRecord]:
    """The records of all partitions, by metadata partition, then offset.

    Within a metadata partition imported records come first, in their recorded order; later
    events follow by log time. So an imported history is exported unchanged.

    Raises:
        InvalidArgument: `partition_count` is not positive.
        CorruptLog: A log does not verify; the records before the damage were yielded.
    """
    grouped: dict[int, list[PartitionReader]] = {}
    for reader in readers:
        tip = reader.topic_id_partition
        at = metadata_partition(tip.topic_id, tip.partition, partition_count=partition_count)
        grouped.setdefault(at, []).append(reader)
    for at, together in sorted(grouped.items()):
        offset = 0
        async for timestamp_ms, value in _merged(together):
            yield ExportedRecord(at, offset, timestamp_ms, value)
            offset += 1


def kafka_record(topic_id_partition: TopicIdPartition, body: log.Body) -> bytes | None:
    """The record of the metadata topic for `body`; None if Kafka has no such record."""
    value: KafkaValue
    match body:
        case log.SegmentAdded():
            value = _added(topic_id_partition, body)
        case log.SegmentUpdated():
            value = RemoteLogSegmentMetadataUpdate(
                RemoteLogSegmentId(topic_id_partition, Uuid(body.segment_id)),
                body.event_timestamp_ms,
                RemoteLogSegmentState(body.state),
                body.broker_id,
                _custom(body.custom_metadata),
            )
        case log.SegmentKept():
            value = RemoteLogSegmentMetadataUpdate(
                RemoteLogSegmentId(topic_id_partition, Uuid(body.segment_id)),
                body.event_timestamp_ms,
                RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
                body.broker_id,
            )
            return encode(value)
        case log.PartitionDeleteUpdated():
            state = RemotePartitionDeleteState(body.state)
            value = RemotePartitionDeleteMetadata(
                topic_id_partition, state, body.event_timestamp_ms, body.broker_id
            )
        case _:
            return None
    return encode(value, UnknownTags.from_plain(body.tags))


class _Head(NamedTuple):
    """The next record of one log; heads sort by `order`."""

    order: tuple[int, int]
    stream: int
    timestamp_ms: int
    value: bytes


async def _merged(readers: list[PartitionReader]) -> AsyncIterator[tuple[int, bytes]]:
    ahead = max(BATCHES_AHEAD // len(readers), 1)
    streams = [_heads(at, reader, ahead) for at, reader in enumerate(readers)]
    first = [await anext(stream, None) for stream in streams]
    heads = [head for head in first if head is not None]
    heapq.heapify(heads)
    while heads:
        yield heads[0].timestamp_ms, heads[0].value
        following = await anext(streams[heads[0].stream], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, following)


async def _heads(
    stream: int, reader: PartitionReader, batches_ahead: int
) -> AsyncIterator[_Head]:
    async for event in reader.events(batches_per_read=batches_ahead):
        value = kafka_record(reader.topic_id_partition, event.body)
        if value is not None:
            source = getattr(event.body, "source", None)
            order = (1, event.log_time_ms) if source is None else (0, source[1])
            yield _Head(order, stream, event.log_time_ms, value)


def _added(
    topic_id_partition: TopicIdPartition, body: log.SegmentAdded
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(topic_id_partition, Uuid(body.segment_id)),
        start_offset=body.start_offset,
        end_offset=body.end_offset,
        max_timestamp_ms=body.max_timestamp_ms,
        broker_id=body.broker_id,
        event_timestamp_ms=body.event_timestamp_ms,
        segment_size_in_bytes=body.size,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment_leader_epochs=dict(zip(body.epochs[::2], body.epochs[1::2], strict=True)),
        custom_metadata=_custom(body.custom_metadata),
        txn_index_empty=body.txn_index_empty,
    )


def _custom(data: bytes | None) -> CustomMetadata | None:
    return None if data is None else CustomMetadata(data)
