"""Writes objects as records of `__remote_log_metadata`, with the same bytes as Kafka."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeAlias

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition
from tierledger.events.kafka.layout import (
    EPOCH,
    FRAMES,
    PARTITION,
    PARTITION_DELETE,
    SEGMENT,
    SEGMENT_HEAD,
    SEGMENT_SNAPSHOT,
    SEGMENT_UPDATE,
    SIZE,
    STATE,
    TXN_INDEX_EMPTY,
    UPDATE_HEAD,
)
from tierledger.events.kafka.primitives import (
    compact_nullable_bytes,
    compact_string,
    tag_section,
    uvarint,
)
from tierledger.events.kafka.tags import Tags, UnknownTags
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)

KafkaValue: TypeAlias = (
    RemoteLogSegmentMetadata
    | RemoteLogSegmentMetadataUpdate
    | RemotePartitionDeleteMetadata
    | RemoteLogSegmentMetadataSnapshot
)
"""The object in a record."""


def write_record(value: KafkaValue, tags: UnknownTags) -> bytes:
    """The record of `value`, with `tags` in their places.

    Raises:
        InvalidArgument: The topic's name or the partition does not fit Kafka's field.
    """
    try:
        return b"".join(_parts(value, tags))
    except struct.error as error:
        raise InvalidArgument(f"{error} in {value}") from error


def _parts(value: KafkaValue, tags: UnknownTags) -> list[bytes]:
    match value:
        case RemoteLogSegmentMetadata():
            segment_id = _segment_id(value.remote_log_segment_id, tags)
            return [FRAMES[SEGMENT], segment_id, *_segment_body(value, tags)]
        case RemoteLogSegmentMetadataUpdate():
            return _update(value, tags)
        case RemotePartitionDeleteMetadata():
            return _partition_delete(value, tags)
        case RemoteLogSegmentMetadataSnapshot():
            return [FRAMES[SEGMENT_SNAPSHOT], value.segment_id, *_segment_body(value, tags)]


def _partition(topic_id_partition: TopicIdPartition, tags: UnknownTags) -> bytes:
    return (
        compact_string(topic_id_partition.topic, "the topic's name")
        + PARTITION.pack(topic_id_partition.topic_id, topic_id_partition.partition)
        + tag_section(tags.partition)
    )


def _segment_id(segment_id: RemoteLogSegmentId, tags: UnknownTags) -> bytes:
    partition = _partition(segment_id.topic_id_partition, tags)
    return partition + segment_id.id + tag_section(tags.segment)


def _segment_body(
    value: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot, tags: UnknownTags
) -> list[bytes]:
    flag = ((TXN_INDEX_EMPTY, b"\x01"),) if value.txn_index_empty else ()
    return [
        SEGMENT_HEAD.pack(
            value.start_offset,
            value.end_offset,
            value.broker_id,
            value.max_timestamp_ms,
            value.event_timestamp_ms,
        ),
        _epochs(value.segment_leader_epochs, dict(tags.epochs)),
        SIZE.pack(value.segment_size_in_bytes),
        _custom(value.custom_metadata),
        STATE.pack(value.state),
        tag_section(flag + tags.record),
    ]


def _update(value: RemoteLogSegmentMetadataUpdate, tags: UnknownTags) -> list[bytes]:
    return [
        FRAMES[SEGMENT_UPDATE],
        _segment_id(value.remote_log_segment_id, tags),
        UPDATE_HEAD.pack(value.broker_id, value.event_timestamp_ms),
        _custom(value.custom_metadata),
        STATE.pack(value.state),
        tag_section(tags.record),
    ]


def _partition_delete(value: RemotePartitionDeleteMetadata, tags: UnknownTags) -> list[bytes]:
    return [
        FRAMES[PARTITION_DELETE],
        _partition(value.topic_id_partition, tags),
        UPDATE_HEAD.pack(value.broker_id, value.event_timestamp_ms),
        STATE.pack(value.state),
        tag_section(tags.record),
    ]


def _epochs(epochs: Mapping[int, int], tagged: dict[int, Tags]) -> bytes:
    parts = [uvarint(len(epochs) + 1)]
    for epoch, offset in epochs.items():
        parts += (EPOCH.pack(epoch, offset), tag_section(tagged.get(epoch, ())))
    return b"".join(parts)


def _custom(custom: CustomMetadata | None) -> bytes:
    return compact_nullable_bytes(None if custom is None else custom.value)
