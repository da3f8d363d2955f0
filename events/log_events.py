"""What can happen to a partition: the events of its log.

An event is a fact. It never carries a rule: whether it was allowed was decided before it was
appended, so every reader, however old, folds the same log to the same state. Fields are only
ever added, at the end and under a new version, with an upcaster in `event_codec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from tierledger.events.metadata import RemoteLogSegmentMetadata

Source: TypeAlias = "tuple[int, int] | None"
"""Where an imported event stood: metadata partition and offset of `__remote_log_metadata`."""


class SessionOpened(NamedTuple):
    """From here on `broker_id` leads, under the pair (incarnation, announcement)."""

    number: int
    broker_id: int
    incarnation: int
    announcement: int
    assignment: int
    leader_epoch: int | None
    topic: str
    import_cluster: str | None
    """The cluster whose recorded history is being imported; its events keep recorded time."""


class SessionClosed(NamedTuple):
    """Session `number` ended in good order; nobody leads until the next is opened."""

    number: int
    reason: str


class SessionDisputed(NamedTuple):
    """Two brokers claim to lead and nobody could say which does; the later claim won."""

    broker_id: int
    leader_epoch: int | None
    rival_broker_id: int
    rival_leader_epoch: int | None
    in_a_row: int = 0
    """This one and those that opened the sessions right before it; 0 if nobody counted."""


class SegmentAdded(NamedTuple):
    """A copy started: a segment's metadata as the leader broker gave it."""

    segment_id: bytes
    start_offset: int
    end_offset: int
    epochs: tuple[int, ...]
    """Flat: epoch, offset, for each leader epoch, ascending."""
    size: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None
    txn_index_empty: bool
    source: Source = None
    tags: Any = None
    """Unknown tagged fields of an imported record, kept for the way back."""


class SegmentUpdated(NamedTuple):
    """A segment moved on in its life; replaces state, broker, time and custom metadata."""

    segment_id: bytes
    state: int
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None
    dropped_bytes: int = 0
    """Length of custom metadata above the ceiling, which was not stored."""
    source: Source = None
    tags: Any = None


class PartitionDeleteUpdated(NamedTuple):
    """The partition's own deletion moved on; FINISHED removes all that the state held."""

    state: int
    broker_id: int
    event_timestamp_ms: int
    source: Source = None
    tags: Any = None


class ImportRecordDropped(NamedTuple):
    """A recorded event that Kafka's own manager dropped, too; it has no effect but a count."""

    source: Source
    reason: str
    segment_id: bytes | None


class TombstonesDropped(NamedTuple):
    """Of the oldest `ids` remembered deletions, those before position `until` are forgotten."""

    until: int
    ids: int


Body: TypeAlias = (
    SessionOpened
    | SessionClosed
    | SessionDisputed
    | SegmentAdded
    | SegmentUpdated
    | PartitionDeleteUpdated
    | ImportRecordDropped
    | TombstonesDropped
)


class Event(NamedTuple):
    """One event in its place: `position` in the log, and who asked for it."""

    position: int
    session: int
    log_time_ms: int
    broker_id: int
    request_id: bytes | None
    body: Body


class Origin(NamedTuple):
    """Who asks: a broker, and an id of the request that makes a repeat recognisable."""

    broker_id: int
    request_id: bytes | None


def added_body(
    metadata: RemoteLogSegmentMetadata,
    source: Source = None,
    tags: tuple[object, ...] | None = None,
) -> SegmentAdded:
    """The event of a started copy."""
    epochs: list[int] = []
    for epoch, offset in sorted(metadata.segment_leader_epochs.items()):
        epochs += (epoch, offset)
    custom = metadata.custom_metadata
    return SegmentAdded(
        segment_id=bytes(metadata.remote_log_segment_id.id),
        start_offset=metadata.start_offset,
        end_offset=metadata.end_offset,
        epochs=tuple(epochs),
        size=metadata.segment_size_in_bytes,
        max_timestamp_ms=metadata.max_timestamp_ms,
        broker_id=metadata.broker_id,
        event_timestamp_ms=metadata.event_timestamp_ms,
        custom_metadata=None if custom is None else custom.value,
        txn_index_empty=metadata.txn_index_empty,
        source=source,
        tags=tags,
    )
