"""Commands to a partition's leader."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.events.log_events import Origin
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.typed_fields import Count, Id, Int32, Int64, RequestId, Text, Topic


class Claim(NamedTuple):
    """The announcement under which a broker claims to lead or to follow."""

    broker_id: Int32
    incarnation: Int64
    announcement: Int64


NO_CLAIM = Claim(-1, 0, 0)
"""The answer to a broker whose announcement was refused; no broker leads under it."""


class LeaderVerdict(NamedTuple):
    """A partition's leader according to Kafka, and its leader epoch if Kafka reported it."""

    broker_id: Int32
    leader_epoch: Int32 | None = None


NOBODY_KNOWS = LeaderVerdict(-1)
"""The leader oracle knows no leader; Kafka answers -1, too, for a partition without one."""


class OpenSession(NamedTuple):
    """Open a session that leads on behalf of `claim`'s broker."""

    claim: Claim
    assignment: Int64
    leader_epoch: Int32 | None
    topic: Topic
    import_cluster: Text | None = None
    verdict: LeaderVerdict | None = None
    """The leader oracle's verdict; None if it was not asked."""
    asked_of: Count | None = None
    """Number of the session against which the oracle was asked; not valid against others."""
    waited_ms: Count = 0
    """How long this claim has waited; log time may come from another host's clock."""
    opener: RequestId | None = None
    """The opening process. Two processes with the same assignment write different events, so
    after a lost answer each can tell whether its own is in the log."""
    resigned: tuple[Claim, ...] = ()
    """Claims of brokers that only follow now; an earlier session of theirs counts as closed."""


class CloseSession(NamedTuple):
    """Close the session of `claim`, and no other."""

    claim: Claim
    reason: Text


class AddSegment(NamedTuple):
    """Record that the copy of a segment starts."""

    claim: Claim
    origin: Origin
    metadata: RemoteLogSegmentMetadata


class Keep(NamedTuple):
    """A segment's data stays in the tier although a broker deletes the segment."""

    until_ms: Int64
    reason: Text


class UpdateSegment(NamedTuple):
    """Move a segment to its next state."""

    claim: Claim
    origin: Origin
    update: RemoteLogSegmentMetadataUpdate
    guarded_for: DeletionCause | None = None
    """Why the broker deletes, if its storage manager is guarded: then it deletes only data of
    segments that are in DELETE_SEGMENT_STARTED. None: there is no guard."""
    keep: Keep | None = None
    """The leader's own: with a guard, what to do instead of a deletion that begins."""


class PutPartitionDelete(NamedTuple):
    """Move the whole partition's deletion to its next state."""

    claim: Claim
    origin: Origin
    metadata: RemotePartitionDeleteMetadata


class StartPurges(NamedTuple):
    """Begin to delete the data of kept segments; the writer of the log knows which are due."""

    origin: Origin
    segment_ids: tuple[Id, ...]
    """The log's writer leaves out those that are not due."""
    lease_ms: Count
    """How long nobody else is given them."""
    choose: Count = 0
    """Without ids: the log's writer takes the first that are due, at most so many."""
    after: Int64 = -1
    """Of these, those that were kept behind that position."""
    released: bool = False
    """Somebody releases them: they are due, though they are kept until then."""


class EndPurges(NamedTuple):
    """Record that the data of kept segments is deleted."""

    origin: Origin
    segment_ids: tuple[Id, ...]


class EndSegments(NamedTuple):
    """Move segments on that no broker moves on: one step towards their end.

    No session is needed. A finished segment is never deleted by that: it is kept.
    """

    origin: Origin
    target: RemoteLogSegmentState
    """DELETE_SEGMENT_STARTED; or DELETE_SEGMENT_FINISHED, once their data is deleted."""
    rows: tuple[bytes, ...]
    """Each as it was seen: a segment that has changed since is not moved on."""
    event_timestamp_ms: Int64
    keep: Keep | None = None
    """For finished segments: until when their data stays at least, and why they go."""
    cause: DeletionCause = DeletionCause.UNKNOWN
    """Why they are deleted."""


class ImportedRecord(NamedTuple):
    """One record of a `__remote_log_metadata` topic, with its place and time."""

    metadata_partition: Int32
    offset: Count
    timestamp_ms: Int64
    record: KafkaRecord


class ImportRecords(NamedTuple):
    """Import recorded history, by the rules of Kafka's own consumer."""

    claim: Claim
    records: tuple[ImportedRecord, ...]


class DropTombstones(NamedTuple):
    """Forget ids of segments that were deleted longer ago than the retention."""


Command: TypeAlias = (
    OpenSession
    | CloseSession
    | AddSegment
    | UpdateSegment
    | PutPartitionDelete
    | ImportRecords
    | DropTombstones
    | StartPurges
    | EndPurges
    | EndSegments
)
