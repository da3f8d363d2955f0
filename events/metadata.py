"""What Kafka says about segments and partitions: the objects of its metadata interface.

Rule: an object that exists is well-formed. The constructors make Kafka's own checks, and that
every number fits the field it has on Kafka's wire, so nothing behind them checks again.
Whether a change is *allowed* is not asked here; that is `lifecycle` and the rules above it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tierledger.events.errors import InvalidArgument
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.quick_pickle import QuickPickle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid

INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CustomMetadata:
    """Bytes a storage manager attached to a segment; opaque, and empty is not absent."""

    value: bytes


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata(QuickPickle):
    """All that is known about one segment.

    `end_offset` is inclusive. `segment_size_in_bytes` counts the log file only, and Kafka lets
    it (and both times) be negative. `segment_leader_epochs` maps each leader epoch in the
    segment to the offset at which it starts there; it is kept as a copy, ascending.

    Raises:
        InvalidArgument: `start_offset` is negative, `end_offset` is before it, there is no
            leader epoch, `state` is no state, or a number does not fit Kafka's field.
    """

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_in_bytes: int
    state: RemoteLogSegmentState
    segment_leader_epochs: Mapping[int, int] = field(hash=False)
    custom_metadata: CustomMetadata | None = None
    txn_index_empty: bool = False

    def __post_init__(self) -> None:
        """Check as Kafka does, then take a copy of the epochs."""
        epochs = _checked_epochs(self)
        object.__setattr__(self, "segment_leader_epochs", epochs)

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The partition this segment belongs to."""
        return self.remote_log_segment_id.topic_id_partition

    def create_with_updates(
        self, update: RemoteLogSegmentMetadataUpdate
    ) -> RemoteLogSegmentMetadata:
        """This segment after `update`; whether the transition is legal is not asked.

        Broker, event time, state and custom metadata are replaced. All of them: an update
        without custom metadata erases what was there, as it does in Kafka.

        Raises:
            InvalidArgument: `update` is about another segment.
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
        """This segment with other custom metadata, or with none."""
        return replace(self, custom_metadata=custom_metadata)


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataUpdate(QuickPickle):
    """A segment's next state, with everything that it replaces.

    Raises:
        InvalidArgument: `state` is no state, or a number does not fit Kafka's field.
    """

    remote_log_segment_id: RemoteLogSegmentId
    event_timestamp_ms: int
    state: RemoteLogSegmentState
    broker_id: int
    custom_metadata: CustomMetadata | None = None

    def __post_init__(self) -> None:
        """Check the state and the numbers."""
        _check_state(self.state, RemoteLogSegmentState)
        _check_event(self.broker_id, self.event_timestamp_ms)

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The partition the segment belongs to."""
        return self.remote_log_segment_id.topic_id_partition


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataSnapshot:
    """One segment in a snapshot of a partition, which does not repeat the partition's name.

    Fields and checks are those of `RemoteLogSegmentMetadata`.
    """

    segment_id: Uuid
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_in_bytes: int
    state: RemoteLogSegmentState
    segment_leader_epochs: Mapping[int, int] = field(hash=False)
    custom_metadata: CustomMetadata | None = None
    txn_index_empty: bool = False

    def __post_init__(self) -> None:
        """Check as Kafka does, then take a copy of the epochs."""
        epochs = _checked_epochs(self)
        object.__setattr__(self, "segment_leader_epochs", epochs)


@dataclass(frozen=True, slots=True)
class RemotePartitionDeleteMetadata(QuickPickle):
    """The next step of a partition's deletion.

    Raises:
        InvalidArgument: `state` is no state, or a number does not fit Kafka's field.
    """

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int

    def __post_init__(self) -> None:
        """Check the state and the numbers."""
        _check_state(self.state, RemotePartitionDeleteState)
        _check_event(self.broker_id, self.event_timestamp_ms)


def _checked_epochs(
    segment: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot,
) -> dict[int, int]:
    """The segment's epochs as a dictionary of its own, ascending, when all of it is right."""
    _check_state(segment.state, RemoteLogSegmentState)
    start, end = segment.start_offset, segment.end_offset
    if not 0 <= start <= INT64_MAX:
        raise InvalidArgument(f"expected a start offset of 0 or more, got {start}")
    if not start <= end <= INT64_MAX:
        raise InvalidArgument(f"expected an end offset of {start} or more, got {end}")
    epochs = segment.segment_leader_epochs
    if not epochs:
        raise InvalidArgument("expected at least one leader epoch, got none")
    _check_event(segment.broker_id, segment.event_timestamp_ms)
    if not INT64_MIN <= segment.max_timestamp_ms <= INT64_MAX:
        raise _misfit("max_timestamp_ms", 64, segment.max_timestamp_ms)
    if not INT32_MIN <= segment.segment_size_in_bytes <= INT32_MAX:
        raise _misfit("segment_size_in_bytes", 32, segment.segment_size_in_bytes)
    for epoch, offset in epochs.items():
        if not INT32_MIN <= epoch <= INT32_MAX:
            raise _misfit("a leader epoch", 32, epoch)
        if not INT64_MIN <= offset <= INT64_MAX:
            raise _misfit(f"the offset of leader epoch {epoch}", 64, offset)
    return dict(epochs) if len(epochs) == 1 else dict(sorted(epochs.items()))


def _check_event(broker_id: int, event_timestamp_ms: int) -> None:
    if not INT32_MIN <= broker_id <= INT32_MAX:
        raise _misfit("broker_id", 32, broker_id)
    if not INT64_MIN <= event_timestamp_ms <= INT64_MAX:
        raise _misfit("event_timestamp_ms", 64, event_timestamp_ms)


def _check_state(state: object, kind: type[object]) -> None:
    if not isinstance(state, kind):
        raise InvalidArgument(f"expected a {kind.__name__}, got {state!r}")


def _misfit(name: str, bits: int, value: int) -> InvalidArgument:
    return InvalidArgument(f"expected {bits} bits for {name}, got {value}")
