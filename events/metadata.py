"""Metadata of segments and partitions: the objects of Kafka's metadata interface.

Rule: every object is well-formed. Its constructor makes Kafka's own checks, and checks that
each field is exactly of its type and fits into its field on Kafka's wire (`typed_fields`). So
no other code checks again.
Whether a change is *allowed* is decided elsewhere, by `lifecycle` and the rules that use it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import force_setattr, replace
from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.typed_fields import (
    INT32_MAX,
    Count,
    Int32,
    Int64,
    LeaderEpochs,
    as_dataclass,
    check_fields,
)


@as_dataclass
class CustomMetadata(Struct, frozen=True):
    """Opaque bytes that a storage manager attached to a segment; empty differs from absent.

    Any length that Kafka's field can have: only leaders limit it, and the deletion of a copy
    with too many bytes still has to carry them.
    """

    value: Annotated[bytes, Meta(max_length=INT32_MAX)]

    def __post_init__(self) -> None:
        check_fields(self)


def _check_segment(self: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot) -> None:
    """Check as Kafka does, then take a copy of the epochs."""
    check_fields(self)
    if self.end_offset < self.start_offset:
        raise InvalidArgument(
            f"expected an end_offset of {self.start_offset} or more, got {self.end_offset}"
        )
    epochs = self.segment_leader_epochs
    ascending = dict(epochs) if len(epochs) == 1 else dict(sorted(epochs.items()))
    force_setattr(self, "segment_leader_epochs", ascending)


@as_dataclass
class RemoteLogSegmentMetadata(Struct, frozen=True):
    """The metadata of one segment.

    `end_offset` is inclusive. `segment_size_in_bytes` counts the log file only, and Kafka lets
    it (and both times) be negative. `segment_leader_epochs` maps each leader epoch in the
    segment to the offset at which it starts there; it is kept as a copy, ascending.

    Raises:
        InvalidArgument: `end_offset` is before `start_offset`, there is no leader epoch, or a
            field does not fit its annotation; the message names it.
    """

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: Count
    end_offset: Count
    max_timestamp_ms: Int64
    broker_id: Int32
    event_timestamp_ms: Int64
    segment_size_in_bytes: Int32
    state: RemoteLogSegmentState
    segment_leader_epochs: LeaderEpochs
    custom_metadata: CustomMetadata | None = None
    txn_index_empty: bool = False

    def __post_init__(self) -> None:
        _check_segment(self)

    @override
    def __hash__(self) -> int:
        return hash(self.remote_log_segment_id)

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.remote_log_segment_id.topic_id_partition

    def create_with_updates(
        self, update: RemoteLogSegmentMetadataUpdate
    ) -> RemoteLogSegmentMetadata:
        """This segment after `update`; whether the transition is legal is not checked.

        Broker, event time, state and custom metadata are all replaced: an update without custom
        metadata removes the old, as in Kafka.

        Raises:
            InvalidArgument: `update` is of another segment.
        """
        if update.remote_log_segment_id != self.remote_log_segment_id:
            raise InvalidArgument(
                f"expected an update of {self.remote_log_segment_id}, "
                f"got one of {update.remote_log_segment_id}"
            )
        return replace(
            self,
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            state=update.state,
            custom_metadata=update.custom_metadata,
        )

    def create_with_custom_metadata(
        self, custom_metadata: CustomMetadata | None
    ) -> RemoteLogSegmentMetadata:
        """This segment with other custom metadata, or without."""
        return replace(self, custom_metadata=custom_metadata)


@as_dataclass
class RemoteLogSegmentMetadataUpdate(Struct, frozen=True):
    """A segment's next state, and the other fields that an update replaces.

    Raises:
        InvalidArgument: A field does not fit its annotation; the message names it.
    """

    remote_log_segment_id: RemoteLogSegmentId
    event_timestamp_ms: Int64
    state: RemoteLogSegmentState
    broker_id: Int32
    custom_metadata: CustomMetadata | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.remote_log_segment_id.topic_id_partition


@as_dataclass
class RemoteLogSegmentMetadataSnapshot(Struct, frozen=True):
    """One segment in a snapshot of a partition, without the partition's name.

    Fields and checks are those of `RemoteLogSegmentMetadata`.
    """

    segment_id: Uuid
    start_offset: Count
    end_offset: Count
    max_timestamp_ms: Int64
    broker_id: Int32
    event_timestamp_ms: Int64
    segment_size_in_bytes: Int32
    state: RemoteLogSegmentState
    segment_leader_epochs: LeaderEpochs
    custom_metadata: CustomMetadata | None = None
    txn_index_empty: bool = False

    def __post_init__(self) -> None:
        _check_segment(self)

    @override
    def __hash__(self) -> int:
        return hash(self.segment_id)


@as_dataclass
class RemotePartitionDeleteMetadata(Struct, frozen=True):
    """The next state of a partition's deletion.

    Raises:
        InvalidArgument: A field does not fit its annotation; the message names it.
    """

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: Int64
    broker_id: Int32

    def __post_init__(self) -> None:
        check_fields(self)
