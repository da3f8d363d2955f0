"""Partitions, claims and Kafka's segment metadata, as messages, and back."""

from __future__ import annotations

from functools import lru_cache

from tierledger.actors.calls import PartitionKey
from tierledger.actors.door import door_pb2 as pb
from tierledger.events.commands import Claim
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import UUID_BYTES, RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import (
    DeletionCause,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.answers import metadata_of
from tierledger.events.tables.segment_rows import pack_row, unpack_row
from tierledger.events.typed_fields import shown

PARTITIONS_KEPT = 10_000
"""Partitions whose checked objects are cached: writes come to the same ones again."""

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED

_SEGMENT_STATES = {int(one) + 1: one for one in RemoteLogSegmentState}
_DELETION_STATES = {int(one) + 1: one for one in RemotePartitionDeleteState}


def id_of(value: bytes, name: str) -> Uuid:
    """The id in a field called `name`.

    Raises:
        InvalidArgument: It is not 16 bytes.
    """
    if len(value) != UUID_BYTES:
        raise InvalidArgument(
            f"expected {UUID_BYTES} bytes for {name}, got {len(value)}: {shown(value)}"
        )
    return Uuid(value)


# Partitions and claims.


def partition_message(tip: TopicIdPartition) -> pb.Partition:
    return pb.Partition(topic_id=tip.topic_id, partition=tip.partition, topic=tip.topic)


def partition_of(message: pb.Partition) -> tuple[TopicIdPartition, PartitionKey]:
    """The partition that a message names, and its identity.

    Raises:
        InvalidArgument: The message names no partition.
    """
    return _partition(message.topic_id, message.partition, message.topic)


@lru_cache(maxsize=PARTITIONS_KEPT)
def _partition(
    topic_id: bytes, partition: int, topic: str
) -> tuple[TopicIdPartition, PartitionKey]:
    tip = TopicIdPartition(id_of(topic_id, "partition.topic_id"), partition, topic)
    return tip, PartitionKey.of(tip)


def key_message(key: PartitionKey, topic: str = "") -> pb.Partition:
    return pb.Partition(topic_id=key.topic_id, partition=key.partition, topic=topic)


def key_of(message: pb.Partition) -> PartitionKey:
    """The partition's identity; see `partition_of`."""
    if len(message.topic_id) != UUID_BYTES:
        id_of(message.topic_id, "partition.topic_id")
    if message.partition < 0:
        raise InvalidArgument(
            f"expected 0 or more for partition.partition, got {message.partition}"
        )
    return PartitionKey(message.topic_id, message.partition)


def claim_message(claim: Claim) -> pb.Claim:
    return pb.Claim(
        broker_id=claim.broker_id,
        incarnation=claim.incarnation,
        announcement=claim.announcement,
    )


def claim_of(message: pb.Claim) -> Claim:
    return Claim(message.broker_id, message.incarnation, message.announcement)


# Segments.


def put_added(metadata: RemoteLogSegmentMetadata, into: pb.AddSegment) -> None:
    """Write the segment to add into the message `into`.

    Raises:
        InvalidArgument: The segment's state is not COPY_SEGMENT_STARTED.
    """
    if metadata.state != STARTED:
        raise InvalidArgument(
            f"expected COPY_SEGMENT_STARTED to be added, got {metadata.state.name}"
        )
    into.segment_id = metadata.remote_log_segment_id.id
    into.start_offset = metadata.start_offset
    into.end_offset = metadata.end_offset
    into.max_timestamp_ms = metadata.max_timestamp_ms
    into.broker_id = metadata.broker_id
    into.event_timestamp_ms = metadata.event_timestamp_ms
    into.segment_size_in_bytes = metadata.segment_size_in_bytes
    for epoch, offset in metadata.segment_leader_epochs.items():
        into.segment_leader_epochs.add(epoch=epoch, offset=offset)
    if metadata.custom_metadata is not None:
        into.custom_metadata = metadata.custom_metadata.value
    into.txn_index_empty = metadata.txn_index_empty


def added_metadata(tip: TopicIdPartition, message: pb.AddSegment) -> RemoteLogSegmentMetadata:
    """The segment that a message adds to a partition.

    Raises:
        InvalidArgument: A field is wrong.
    """
    starts = message.segment_leader_epochs
    epochs = {one.epoch: one.offset for one in starts}
    if len(epochs) != len(starts):
        raise InvalidArgument("expected each epoch once in segment_leader_epochs")
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, id_of(message.segment_id, "segment_id")),
        message.start_offset,
        message.end_offset,
        message.max_timestamp_ms,
        message.broker_id,
        message.event_timestamp_ms,
        message.segment_size_in_bytes,
        STARTED,
        epochs,
        _custom(message),
        message.txn_index_empty,
    )


def put_update(
    update: RemoteLogSegmentMetadataUpdate,
    guarded_for: DeletionCause | None,
    into: pb.UpdateSegment,
) -> None:
    """Write the update of a segment into the message `into`."""
    into.segment_id = update.remote_log_segment_id.id
    into.event_timestamp_ms = update.event_timestamp_ms
    into.state = update.state + 1  # type: ignore[assignment] # Enums travel as numbers.
    into.broker_id = update.broker_id
    if guarded_for is not None:
        into.guarded_for = int(guarded_for)  # type: ignore[assignment] # Enums travel as numbers.
    if update.custom_metadata is not None:
        into.custom_metadata = update.custom_metadata.value


def update_of(
    tip: TopicIdPartition, message: pb.UpdateSegment
) -> RemoteLogSegmentMetadataUpdate:
    """The update of a partition's segment in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    return RemoteLogSegmentMetadataUpdate(
        RemoteLogSegmentId(tip, id_of(message.segment_id, "segment_id")),
        message.event_timestamp_ms,
        segment_state_of(message.state),
        message.broker_id,
        _custom(message),
    )


def segment_state_of(number: int) -> RemoteLogSegmentState:
    """The state with the number that it travels as.

    Raises:
        InvalidArgument: There is none.
    """
    state = _SEGMENT_STATES.get(number)
    if state is None:
        raise InvalidArgument(f"expected a segment's state for state, got {number}")
    return state


def row_of(tip: TopicIdPartition, row: bytes) -> bytes:
    """The row of a partition's segment, from a client.

    Raises:
        InvalidArgument: It is none.
    """
    try:
        metadata_of(tip, row)
        is_row = pack_row(unpack_row(row)) == row
    except Exception:  # noqa: BLE001 - Whatever bytes can do.
        is_row = False
    if not is_row:
        raise InvalidArgument(f"expected a segment's row, got {shown(row)}")
    return row


def cause_of(message: pb.UpdateSegment) -> DeletionCause | None:
    """Why a guarded broker deletes; None: it is not guarded.

    Raises:
        InvalidArgument: It is no cause.
    """
    if not message.HasField("guarded_for"):
        return None
    number = int(message.guarded_for)
    if number > max(DeletionCause):
        raise InvalidArgument(
            f"expected 0 to {max(DeletionCause)} for guarded_for, got {number}"
        )
    return DeletionCause(number)


def _custom(message: pb.AddSegment | pb.UpdateSegment) -> CustomMetadata | None:
    if not message.HasField("custom_metadata"):
        return None
    return CustomMetadata(message.custom_metadata)


def deletion_message(metadata: RemotePartitionDeleteMetadata) -> pb.DeletePartition:
    return pb.DeletePartition(
        state=metadata.state + 1,  # type: ignore[arg-type] # Enums travel as numbers.
        event_timestamp_ms=metadata.event_timestamp_ms,
        broker_id=metadata.broker_id,
    )


def deletion_of(
    tip: TopicIdPartition, message: pb.DeletePartition
) -> RemotePartitionDeleteMetadata:
    """The step of a partition's deletion in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    state = _DELETION_STATES.get(message.state)
    if state is None:
        raise InvalidArgument(f"expected a deletion's state for state, got {message.state}")
    return RemotePartitionDeleteMetadata(
        tip, state, message.event_timestamp_ms, message.broker_id
    )
