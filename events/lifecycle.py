"""The state transitions of a segment and of a partition's deletion, as tables.

Rule: only the tables define which transitions are legal. `decide` uses them, and the
documentation's diagrams are drawn from them. A state may follow itself, because brokers retry
after failures.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import Final, TypeAlias, overload


class RemoteLogSegmentState(IntEnum):
    """State of a segment; the number is the one on Kafka's wire."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    """State of a partition's deletion; the number is the one on Kafka's wire."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


class DeletionCause(IntEnum):
    """Why a broker deletes a segment, as far as its guard can tell."""

    UNKNOWN = 0
    RETENTION = 1
    TOPIC = 2


_CS, _CF, _DS, _DF = RemoteLogSegmentState
_MARKED, _STARTED, _FINISHED = RemotePartitionDeleteState

SegmentTransition: TypeAlias = "tuple[RemoteLogSegmentState | None, RemoteLogSegmentState]"
PartitionDeleteTransition: TypeAlias = (
    "tuple[RemotePartitionDeleteState | None, RemotePartitionDeleteState]"
)

SEGMENT_TRANSITIONS: Final[frozenset[SegmentTransition]] = frozenset(
    {
        (None, _CS),
        (_CS, _CS),
        (_CS, _CF),
        (_CS, _DS),  # A copy that was given up is deleted without ever having finished.
        (_CF, _CF),
        (_CF, _DS),
        (_DS, _DS),
        (_DS, _DF),
        (_DF, _DF),
    }
)
"""Every legal (source, target) of a segment; deletion always passes through STARTED."""

PARTITION_DELETE_TRANSITIONS: Final[frozenset[PartitionDeleteTransition]] = frozenset(
    {
        (None, _MARKED),
        (_MARKED, _MARKED),
        (_MARKED, _STARTED),
        (_STARTED, _STARTED),
        (_STARTED, _FINISHED),
        (_FINISHED, _FINISHED),
    }
)
"""Every legal (source, target) of a partition's deletion."""


def is_valid_segment_transition(
    source: RemoteLogSegmentState | None, target: RemoteLogSegmentState
) -> bool:
    """Whether `target` may follow `source`; None stands for an unknown segment."""
    return (source, target) in SEGMENT_TRANSITIONS


def is_valid_delete_transition(
    source: RemotePartitionDeleteState | None, target: RemotePartitionDeleteState
) -> bool:
    """Whether `target` may follow `source`; None stands for a partition not in deletion."""
    return (source, target) in PARTITION_DELETE_TRANSITIONS


@overload
def is_valid_transition(
    source: RemoteLogSegmentState | None, target: RemoteLogSegmentState
) -> bool: ...
@overload
def is_valid_transition(
    source: RemotePartitionDeleteState | None, target: RemotePartitionDeleteState
) -> bool: ...
def is_valid_transition(
    source: RemoteLogSegmentState | RemotePartitionDeleteState | None,
    target: RemoteLogSegmentState | RemotePartitionDeleteState,
) -> bool:
    """Whether `target` may follow `source`, by the table of `target`'s kind."""
    # The numbers of both kinds overlap and compare equal, so the kind has to be checked.
    if isinstance(target, RemoteLogSegmentState):
        return (source, target) in SEGMENT_TRANSITIONS
    return (source, target) in PARTITION_DELETE_TRANSITIONS


def diagram(
    transitions: AbstractSet[SegmentTransition]
    | AbstractSet[PartitionDeleteTransition] = SEGMENT_TRANSITIONS,
) -> str:
    """A Mermaid state diagram of one of the tables above; deterministic."""
    known = sorted({state for pair in transitions for state in pair if state is not None})
    lines = ["stateDiagram-v2"]
    for source in (None, *known):
        before = "[*]" if source is None else source.name
        targets = [state for state in known if (source, state) in transitions]
        lines += [f"    {before} --> {target.name}" for target in targets]
        if targets == [source]:
            lines.append(f"    {before} --> [*]")
    return "\n".join(lines) + "\n"
