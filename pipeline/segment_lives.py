"""Follows the states of one partition's segments, and of its deletion, event by event.

A state begins with the event that brings it; an event that repeats it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.log_events import (
    Event,
    PartitionDeleteUpdated,
    SegmentAdded,
    SegmentKept,
    SegmentUpdated,
)
from tierledger.events.tables.segment_rows import id_of_row

if TYPE_CHECKING:
    from tierledger.events.partition.state import PartitionState

COPYING: Final = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
FINISHED: Final = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
DELETING: Final = int(RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
DELETED: Final = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)

_PARTITION_GONE = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


class Stay(NamedTuple):
    """A present state, and the event that began it."""

    state: int
    position: int
    log_time_ms: int
    broker_id: int
    repeats: int = 0
    """Later events that repeated the state."""


class Passage(NamedTuple):
    """What one event did to one segment."""

    segment_id: bytes
    left: Stay | None
    """None if the log that is left does not tell of a state before."""
    entered: Stay | None
    """As `left`, with one more repeat, if the event repeats the state; none: it was removed."""


class SegmentLives:
    """The stays of all segments that are there, and of the partition's deletion."""

    def __init__(self, followed: Collection[int] | None = None) -> None:
        """Only stays in the states `followed` are kept; by default in all."""
        self.stays: dict[bytes, Stay] = {}
        self.deletion: Stay | None = None
        self._followed = followed

    def note(self, state: PartitionState, event: Event) -> list[Passage]:
        """Take an event, before it is applied to `state`."""
        body = event.body
        if isinstance(body, SegmentAdded):
            return [self._entered(body.segment_id, COPYING, event, body.broker_id)]
        if isinstance(body, SegmentUpdated) and body.state != DELETED:
            return [self._entered(body.segment_id, body.state, event, body.broker_id)]
        if isinstance(body, PartitionDeleteUpdated) and (
            self.deletion is None or self.deletion.state != body.state
        ):
            self.deletion = _stay(body.state, event, body.broker_id)
        return [
            Passage(segment_id, self.stays.pop(segment_id, None), None)
            for segment_id in _removed(state, event)
        ]

    def _entered(self, segment_id: bytes, state: int, event: Event, broker_id: int) -> Passage:
        left = self.stays.get(segment_id)
        if left is not None and left.state == state:
            entered = left._replace(repeats=left.repeats + 1)
        else:
            entered = _stay(state, event, broker_id)
        if self._followed is None or state in self._followed:
            self.stays[segment_id] = entered
        else:
            self.stays.pop(segment_id, None)
        return Passage(segment_id, left, entered)


def _stay(state: int, event: Event, broker_id: int) -> Stay:
    return Stay(state, event.position, event.log_time_ms, broker_id)


def _removed(state: PartitionState, event: Event) -> Iterator[bytes]:
    """The segments that the event removes from every answer, for good."""
    body = event.body
    if isinstance(body, SegmentUpdated | SegmentKept):
        yield body.segment_id
    elif isinstance(body, PartitionDeleteUpdated) and body.state == _PARTITION_GONE:
        yield from map(id_of_row, state.rows)
