"""The events of a partition's log.

An event is a fact without rules: whether it is allowed was decided before it was appended, so
every reader, however old, folds the same log to the same state. Fields are only ever added, at
the end and under a new version, with an upcaster in `event_codec`.

Encoding and decoding check the annotations; `evolve` can apply every value that they allow.
"""

from __future__ import annotations

from itertools import chain
from operator import lt
from typing import Annotated, Any, NamedTuple, TypeAlias

from msgspec import Meta

from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.typed_fields import (
    INT32_MAX,
    INT32_MIN,
    LEADER_EPOCHS_MAX,
    Count,
    Id,
    Int32,
    Int64,
    RequestId,
    Text,
    Topic,
)

_new = tuple.__new__

Source: TypeAlias = tuple[Int32, Count] | None
"""Place of an imported record: metadata partition and offset of `__remote_log_metadata`."""

Tags: TypeAlias = tuple[Any, ...] | None
"""Unknown tagged fields of an imported record, kept for an export to Kafka."""


class SessionOpened(NamedTuple):
    """From here on `broker_id` leads, under the lease (incarnation, announcement)."""

    number: Count
    broker_id: Int32
    incarnation: Int64
    announcement: Int64
    assignment: Int64
    leader_epoch: Int32 | None
    topic: Topic
    import_cluster: Text | None
    """The cluster whose history is being imported, whose events have their recorded times."""


class SessionClosed(NamedTuple):
    """Session `number` was closed; no broker leads until the next is opened."""

    number: Count
    reason: Text


class SessionDisputed(NamedTuple):
    """Two brokers claim to lead, and the oracle had no verdict; the later claim won."""

    broker_id: Int32
    leader_epoch: Int32 | None
    rival_broker_id: Int32
    rival_leader_epoch: Int32 | None
    in_a_row: Count = 0
    """Disputes in a row, including this one; 0 in events from before they were counted."""


class SegmentAdded(NamedTuple):
    """A segment's copy started, with the metadata from the leading broker."""

    segment_id: Id
    start_offset: Count
    end_offset: Count
    epochs: Annotated[tuple[Int64, ...], Meta(min_length=2, max_length=2 * LEADER_EPOCHS_MAX)]
    """Flat: epoch, offset, for each leader epoch, ascending."""
    size: Int32
    max_timestamp_ms: Int64
    broker_id: Int32
    event_timestamp_ms: Int64
    custom_metadata: bytes | None
    txn_index_empty: bool
    source: Source = None
    tags: Tags = None

    def is_orderly(self) -> bool:
        """Whether offsets and leader epochs ascend, as in valid metadata."""
        flat = self.epochs
        if self.start_offset > self.end_offset:
            return False
        if len(flat) % 2 or not (flat[0] >= INT32_MIN and flat[-2] <= INT32_MAX):
            return False
        return len(flat) == 2 or all(map(lt, flat[::2], flat[2::2]))


class SegmentUpdated(NamedTuple):
    """A segment's new state, which also replaces broker, time and custom metadata."""

    segment_id: Id
    state: Annotated[int, Meta(ge=1, le=3)]
    broker_id: Int32
    event_timestamp_ms: Int64
    custom_metadata: bytes | None
    dropped_bytes: Count = 0
    """Length of custom metadata that was too long to be stored."""
    source: Source = None
    tags: Tags = None


UNTIL_RELEASED_MS = 253_402_300_799_999
"""In place of an end: kept until somebody releases it. It is the last time that has a date."""


class SegmentKept(NamedTuple):
    """A finished segment whose deletion has just begun is in no answer from here on.

    Its data stays in the tier, and its row in the state's `kept`. For Kafka this is
    DELETE_SEGMENT_FINISHED.
    """

    segment_id: Id
    until_ms: Int64
    """Its data stays at least until then, and as long as a hold is about it."""
    cause: Annotated[int, Meta(ge=0, le=2)]
    """A `DeletionCause`."""
    broker_id: Int32
    event_timestamp_ms: Int64
    reason: Text


class SegmentPurgeStarted(NamedTuple):
    """The data of a kept segment is being deleted from here on, and no hold keeps it any more.

    The event's broker deletes it, or a command if that is -1. It may be started again.
    """

    segment_id: Id
    lease_until_ms: Int64
    """Until then nobody else is given it."""


class SegmentPurged(NamedTuple):
    """The data of a kept segment is deleted, and nothing is left of it."""

    segment_id: Id


class PartitionDeleteUpdated(NamedTuple):
    """A new state of the whole partition's deletion; FINISHED removes all its segments."""

    state: Annotated[int, Meta(ge=0, le=2)]
    broker_id: Int32
    event_timestamp_ms: Int64
    source: Source = None
    tags: Tags = None


class ImportRecordDropped(NamedTuple):
    """A record that Kafka's own manager dropped, too; it is only counted."""

    source: Source
    reason: Text
    segment_id: Id | None


class TombstonesDropped(NamedTuple):
    """Of the oldest `ids` tombstones, those before position `until` are dropped."""

    until: Count
    ids: Count


Body: TypeAlias = (
    SessionOpened
    | SessionClosed
    | SessionDisputed
    | SegmentAdded
    | SegmentUpdated
    | SegmentKept
    | SegmentPurgeStarted
    | SegmentPurged
    | PartitionDeleteUpdated
    | ImportRecordDropped
    | TombstonesDropped
)


class Event(NamedTuple):
    """One event, with its position, session, time and origin."""

    position: Count
    session: Count
    log_time_ms: Int64
    broker_id: Int32
    request_id: RequestId | None
    body: Body


class Origin(NamedTuple):
    """The requesting broker, and the request's id, by which a retry is recognised."""

    broker_id: Int32
    request_id: RequestId | None


def added_body(
    metadata: RemoteLogSegmentMetadata,
    source: Source = None,
    tags: tuple[object, ...] | None = None,
) -> SegmentAdded:
    """The event for a started copy."""
    custom, epochs = metadata.custom_metadata, metadata.segment_leader_epochs.items()
    # A named tuple's own constructor takes three times as long.
    return _new(
        SegmentAdded,
        (
            bytes(metadata.remote_log_segment_id.id),
            metadata.start_offset,
            metadata.end_offset,
            tuple(chain.from_iterable(epochs if len(epochs) == 1 else sorted(epochs))),
            metadata.segment_size_in_bytes,
            metadata.max_timestamp_ms,
            metadata.broker_id,
            metadata.event_timestamp_ms,
            None if custom is None else custom.value,
            metadata.txn_index_empty,
            source,
            tags,
        ),
    )
