"""A checker of refusals: each must be justified by what the log held during the call.

A refusal names no position. What the log held at any moment between the call's beginning and
its end may justify it; if the times at which events became durable are unknown, at any moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

from tierledger.events import log_events
from tierledger.events.errors import (
    CustomMetadataSizeLimitExceeded,
    InvalidStateTransition,
    PartitionDeleted,
    RemoteResourceNotFound,
)
from tierledger.events.lifecycle import (
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.simulation.checkers.answer_text import id_text
from tierledger.simulation.checkers.slow.model import LEGAL, LEGAL_DELETES
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import FAIL, Operation
from tierledger.simulation.history.final_log import FinalLog

Step: TypeAlias = "tuple[int, int]"
"""A position, and the state that a segment or the partition is in from there on."""

_STARTED = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETED = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
_GONE = int(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)
_ABSENT = -1

JUDGED = frozenset(
    error.__name__
    for error in (
        CustomMetadataSizeLimitExceeded,
        InvalidStateTransition,
        PartitionDeleted,
        RemoteResourceNotFound,
    )
)
"""Errors that only the partition's state justifies; others are about leaders and stores."""


def wrong_refusal(
    operations: Sequence[Operation],
    log: FinalLog,
    custom_metadata_bytes_max: int | None = None,
) -> list[Violation]:
    """A call was refused with a rule, and the log never was in a state in which that holds."""
    refused = [op for op in operations if op.error in JUDGED and op.outcome == FAIL]
    if not refused:
        return []
    lives = _Lives(log)
    return [
        Violation(
            "wrong_refusal",
            log.key,
            f"call {op.number} ({op.what or op.kind} by {op.process}) was refused with "
            f"{op.error}, which the log never justified while it was asked: "
            f"{_stood(op, lives, custom_metadata_bytes_max)}",
            (op.number,),
        )
        for op in refused
        if not _is_justified(op, lives, custom_metadata_bytes_max)
    ]


class _Lives:
    """The states of each segment and of the partition, each from a position on."""

    def __init__(self, log: FinalLog) -> None:
        self.log = log
        self.of_segment: defaultdict[bytes, list[Step]] = defaultdict(list)
        self.of_partition: list[Step] = []
        self.emptied_at = len(log.events)
        deleted: dict[bytes, int] = {}
        for position, event in enumerate(log.events):
            body = event.body
            if isinstance(body, log_events.SegmentAdded):
                self.of_segment[body.segment_id].append((position, _STARTED))
                deleted.pop(body.segment_id, None)
            elif isinstance(body, log_events.SegmentUpdated):
                self.of_segment[body.segment_id].append((position, body.state))
                if body.state == _DELETED:
                    deleted[body.segment_id] = position
            elif isinstance(body, log_events.SegmentKept):
                self.of_segment[body.segment_id].append((position, _DELETED))
            elif isinstance(body, log_events.SegmentPurged):
                deleted[body.segment_id] = position
            elif isinstance(body, log_events.TombstonesDropped):
                # From here on the service no longer knows that these ids existed.
                for segment_id in list(deleted)[: body.ids]:
                    self.of_segment[segment_id].append((position, _ABSENT))
                    del deleted[segment_id]
            elif isinstance(body, log_events.PartitionDeleteUpdated):
                self.of_partition.append((position, body.state))
                if body.state == _GONE:
                    self.emptied_at = min(self.emptied_at, position)

    def within(self, steps: Sequence[Step], op: Operation) -> list[Step]:
        """The steps that were in force at some moment of the call."""
        first = self.log.durable_before(op.invoked)
        end = self.end_of(op)
        found: list[Step] = [(-1, _ABSENT)]
        for step in steps:
            if step[0] < first:
                found = [step]
            elif step[0] < end:
                found.append(step)
        return found

    def end_of(self, op: Operation) -> int:
        """How many events may have been durable when the call ended."""
        return self.log.durable_until(op.completed)


def _stood(op: Operation, lives: _Lives, limit: int | None) -> str:
    """What the log held during the call of what was asked for, as text."""
    wanted = op.wanted
    if op.error == PartitionDeleted.__name__:
        return "the partition's deletion was not finished"
    if op.error == CustomMetadataSizeLimitExceeded.__name__:
        custom = getattr(wanted, "custom_metadata", None)
        return f"it has {len(custom.value) if custom else 0} bytes, and the limit is {limit}"
    if isinstance(wanted, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate):
        segment_id = bytes(wanted.remote_log_segment_id.id)
        steps = lives.within(lives.of_segment[segment_id], op)
        return f"segment {id_text(segment_id)} {_states_text(steps, RemoteLogSegmentState)}"
    steps = lives.within(lives.of_partition, op)
    return f"the partition's deletion {_states_text(steps, RemotePartitionDeleteState)}"


def _states_text(steps: Sequence[Step], states: type[IntEnum]) -> str:
    return ", then ".join(
        "was not there" if state == _ABSENT else f"was in {states(state).name} from {at} on"
        for at, state in steps
    )


def _is_justified(op: Operation, lives: _Lives, limit: int | None) -> bool:
    wanted = op.wanted
    if op.error == PartitionDeleted.__name__:
        return lives.emptied_at < lives.end_of(op)
    if isinstance(wanted, RemoteLogSegmentMetadata):
        return _may_not_be_added(op, wanted, lives)
    if isinstance(wanted, RemoteLogSegmentMetadataUpdate):
        return _may_not_be_updated(op, wanted, lives, limit)
    if isinstance(wanted, RemotePartitionDeleteMetadata):
        steps = lives.within(lives.of_partition, op)
        known = [None if at < 0 else state for at, state in steps]
        return any((one, int(wanted.state)) not in LEGAL_DELETES for one in known)
    return True  # The history does not hold what was asked for.


def _may_not_be_added(op: Operation, wanted: RemoteLogSegmentMetadata, lives: _Lives) -> bool:
    if op.error != InvalidStateTransition.__name__:
        return False
    body = log_events.added_body(wanted)
    return any(
        state != _ABSENT and not (state == _STARTED and lives.log.events[at].body == body)
        for at, state in lives.within(lives.of_segment[body.segment_id], op)
    )


def _may_not_be_updated(
    op: Operation, wanted: RemoteLogSegmentMetadataUpdate, lives: _Lives, limit: int | None
) -> bool:
    is_finish = wanted.state == _FINISHED
    if op.error == CustomMetadataSizeLimitExceeded.__name__:
        custom = wanted.custom_metadata
        size = 0 if custom is None else len(custom.value)
        return is_finish and (limit is None or size > limit)
    steps = lives.within(lives.of_segment[bytes(wanted.remote_log_segment_id.id)], op)
    if op.error == RemoteResourceNotFound.__name__:
        return is_finish and any(state in (_ABSENT, _DELETED) for _, state in steps)
    return any(
        state not in (_ABSENT, _DELETED) and (state, int(wanted.state)) not in LEGAL
        for _, state in steps
    )
