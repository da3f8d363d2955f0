"""The kinds of dead weight, and the names of the reasons for which something is left."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import msgspec

from tierledger.events.typed_fields import Count, Int32, Int64


class WeightKind(StrEnum):
    """Why something is dead weight."""

    UNFINISHED_COPY = "unfinished_copy"
    """A segment whose copy began, and neither finished nor was given up."""
    UNFINISHED_DELETION = "unfinished_deletion"
    """A segment whose deletion began and did not end."""
    LOST_SEGMENT = "lost_segment"
    """A finished segment that Kafka's own tables have lost, and that answers nothing."""
    LEFT_OF_TOPIC = "left_of_topic"
    """A finished segment of a topic whose deletion began and did not end."""
    DELETED_BUT_THERE = "deleted_but_there"
    """Objects of a segment whose deletion has ended."""
    ORPHAN = "orphan"
    """Objects of a segment that no log has ever named."""
    QUARANTINED = "quarantined"
    """Objects that a plan has taken into quarantine long enough ago."""


OF_SEGMENTS: Final = frozenset({WeightKind.UNFINISHED_COPY, WeightKind.UNFINISHED_DELETION})
"""Kinds that end by events of a log, and whose data is deleted by the segment's metadata."""

TRASHED: Final = frozenset({WeightKind.LOST_SEGMENT, WeightKind.LEFT_OF_TOPIC})
"""Kinds of finished segments, which go into the trash."""

BY_EVENTS: Final = OF_SEGMENTS | TRASHED
"""Kinds that end by events of a log."""

_TO_TRASH = "into the trash: DELETE_SEGMENT_STARTED, and its data stays for 7 days"

ACTIONS: Final = {
    WeightKind.UNFINISHED_COPY: "give the copy up: DELETE_SEGMENT_STARTED, delete its data, "
    "DELETE_SEGMENT_FINISHED",
    WeightKind.UNFINISHED_DELETION: "delete its data, DELETE_SEGMENT_FINISHED",
    WeightKind.LOST_SEGMENT: _TO_TRASH,
    WeightKind.LEFT_OF_TOPIC: _TO_TRASH,
    WeightKind.DELETED_BUT_THERE: "move the objects into quarantine",
    WeightKind.ORPHAN: "move the objects into quarantine",
    WeightKind.QUARANTINED: "delete the objects",
}
"""What `clean apply` does about each kind."""

CAN_UNDO: Final = frozenset({WeightKind.DELETED_BUT_THERE, WeightKind.ORPHAN})


class CleaningRefusal(StrEnum):
    """Why nothing is done, or why something is left."""

    # About a whole plan.
    EMPTY_LEDGER = "empty_ledger"
    FOREIGN_LEDGER = "foreign_ledger"
    WRONG_PREFIX = "wrong_prefix"
    PARTIAL_LISTING = "partial_listing"
    CLOCK_JUMPED = "clock_jumped"
    TWO_CLUSTERS = "two_clusters"
    NOT_THE_OWNER = "not_the_owner"
    DELETIONS_HELD = "deletions_held"
    STALE_PLAN = "stale_plan"
    OTHER_PLACE = "other_place"
    CHANGED = "changed"
    READ_ONLY = "read_only"
    # About a part of it.
    DAMAGED_LOG = "damaged_log"
    MISSING_OBJECTS = "missing_objects"
    UNEXPLAINED = "unexplained"
    UNKNOWN_PARTITION = "unknown_partition"
    TOO_YOUNG = "too_young"
    HELD = "held"
    LED = "led"
    """By `apply`: a broker hosts it, and no service answers that could ask its leader."""
    KNOWN_AGAIN = "known_again"


Size = Annotated[int, msgspec.Meta(ge=0)]


class WeightObject(msgspec.Struct, frozen=True, array_like=True):
    """An object as a list had it."""

    name: str
    size: Size
    last_modified_ms: Int64


class DeadWeight(msgspec.Struct, frozen=True):
    """One segment, or the objects of one, that is dead weight."""

    kind: WeightKind
    topic: str
    topic_id: str
    partition: Int32
    segment_id: str
    place: str
    """Prefix of its objects' names."""
    since_ms: Int64
    """When its last sign of life was."""
    size_in_bytes: Size
    objects: tuple[WeightObject, ...]
    row: str
    """Digest of the segment's row in the log; empty if no log has it."""
    quarantine: str
    """The plan that has taken the objects, of a `QUARANTINED` one; else empty."""
    action: str
    can_undo: bool
    evidence: str

    @property
    def place_in_plan(self) -> tuple[str, ...]:
        """What tells it from all others."""
        where = (self.topic_id, str(self.partition), self.segment_id)
        return (self.kind, *where, self.place, self.quarantine)

    @property
    def basis(self) -> tuple[object, ...]:
        """What must still be so when it is applied."""
        return (*self.place_in_plan, self.size_in_bytes, self.row, self.objects)


class LeftWeight(msgspec.Struct, frozen=True):
    """Something of a partition that looks like dead weight, and is left."""

    reason: CleaningRefusal
    topic: str
    topic_id: str
    partition: Int32 | None
    count: Count
    """Segments, or segments' sets of objects."""
    size_in_bytes: Size
    detail: str
