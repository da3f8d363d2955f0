"""What callers ask of a partition's leader."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.log_events import Origin
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.typed_fields import Count, Int32, Int64, RequestId, Text, Topic


class Claim(NamedTuple):
    """Under which announcement a writer believes that it leads."""

    broker_id: Int32
    incarnation: Int64
    announcement: Int64


NO_CLAIM = Claim(-1, 0, 0)
"""What a broker is told whose claim was not taken; nobody leads under it."""


class LeaderVerdict(NamedTuple):
    """Who leads a partition as the brokers know it, and in which leader epoch if they said."""

    broker_id: Int32
    leader_epoch: Int32 | None = None


NOBODY_KNOWS = LeaderVerdict(-1)
"""The leader oracle had no answer; Kafka says -1, too, where it has no leader to name."""


class OpenSession(NamedTuple):
    """Lead on behalf of `claim`'s broker."""

    claim: Claim
    assignment: Int64
    leader_epoch: Int32 | None
    topic: Topic
    import_cluster: Text | None = None
    verdict: LeaderVerdict | None = None
    """What the leader oracle said; none if it was not asked."""
    asked_of: Count | None = None
    """The session against which it was asked: of another one its word says nothing."""
    waited_ms: Count = 0
    """How long this claim was held back already; the log's clock may not be this host's."""
    opener: RequestId | None = None
    """Which process opens; so two that are told the same never open one session both."""
    resigned: tuple[Claim, ...] = ()
    """Of brokers that only follow: an earlier session of theirs is taken for closed."""


class CloseSession(NamedTuple):
    """Stop leading; only the session that `claim` holds is closed."""

    claim: Claim
    reason: Text


class AddSegment(NamedTuple):
    """Record that the copy of a segment starts."""

    claim: Claim
    origin: Origin
    metadata: RemoteLogSegmentMetadata


class UpdateSegment(NamedTuple):
    """Move a segment on in its life."""

    claim: Claim
    origin: Origin
    update: RemoteLogSegmentMetadataUpdate


class PutPartitionDelete(NamedTuple):
    """Move the deletion of the whole partition on."""

    claim: Claim
    origin: Origin
    metadata: RemotePartitionDeleteMetadata


class ImportedRecord(NamedTuple):
    """One record of a recorded `__remote_log_metadata`, where and when it stood."""

    metadata_partition: Int32
    offset: Count
    timestamp_ms: Int64
    record: KafkaRecord


class ImportRecords(NamedTuple):
    """Take over recorded history, by the rules of Kafka's own consumer."""

    claim: Claim
    records: tuple[ImportedRecord, ...]


class DropTombstones(NamedTuple):
    """Forget ids that were deleted longer ago than the retention."""


Command: TypeAlias = (
    OpenSession
    | CloseSession
    | AddSegment
    | UpdateSegment
    | PutPartitionDelete
    | ImportRecords
    | DropTombstones
)
