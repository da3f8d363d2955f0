"""The laws of the log: what no leader may append, whatever was asked of it.

They are written down here a second time, apart from `decide`, which the checkers doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.events import log_events
from tierledger.events.lifecycle import (
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    is_valid_delete_transition,
    is_valid_segment_transition,
)
from tierledger.simulation.checkers_violation import Violation

if TYPE_CHECKING:
    from tierledger.simulation.final_log import FinalLog

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


def unlawful_event(log: FinalLog, custom_metadata_bytes_max: int | None) -> list[Violation]:
    """An event that the rules forbid; recorded history is held to none, as in `decide`."""
    laws = _Laws(custom_metadata_bytes_max)
    return [
        Violation("lifecycle", log.key, f"position {position}: {broken}")
        for position, event in enumerate(log.events)
        if (broken := laws.broken_by(position, event)) is not None
    ]


class _Laws:
    """What `decide` promises of the lives of segments and partition, kept apart from it."""

    def __init__(self, custom_metadata_bytes_max: int | None) -> None:
        self.custom_metadata_bytes_max = custom_metadata_bytes_max
        self.states: dict[bytes, RemoteLogSegmentState] = {}
        self.deleted: dict[bytes, int] = {}
        self.delete: RemotePartitionDeleteState | None = None
        self.log_time_ms = 0

    def broken_by(self, position: int, event: log_events.Event) -> str | None:
        """Take one event in; what is wrong with it, if anything is."""
        broken, before = self._broken_by(position, event.body), self.log_time_ms
        self.log_time_ms = max(before, event.log_time_ms)
        if broken is None and event.log_time_ms < before:
            return f"log time goes back from {before} to {event.log_time_ms}"
        return broken

    def _broken_by(self, position: int, body: log_events.Body) -> str | None:
        match body:
            case log_events.SegmentAdded():
                return self._added(body)
            case log_events.SegmentUpdated():
                return self._updated(body, position)
            case log_events.PartitionDeleteUpdated():
                return self._delete_updated(body)
            case log_events.TombstonesDropped():
                dropped = [one for one, at in self.deleted.items() if at < body.until]
                for one in dropped[: body.ids]:
                    del self.deleted[one]
            case log_events.SessionOpened() if self._is_finished:
                return "a session of a deleted partition"
        return None

    @property
    def _is_finished(self) -> bool:
        return self.delete == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

    def _added(self, body: log_events.SegmentAdded) -> str | None:
        segment_id, known = body.segment_id, self.states.get(body.segment_id)
        self.states[segment_id] = RemoteLogSegmentState.COPY_SEGMENT_STARTED
        was_deleted = self.deleted.pop(segment_id, None) is not None
        if body.source is not None:
            return None
        if self._is_finished:
            return f"segment {segment_id.hex()} was added to a deleted partition"
        if was_deleted:
            return f"segment {segment_id.hex()} was deleted, and came back"
        return None if known is None else f"segment {segment_id.hex()} was added twice"

    def _updated(self, body: log_events.SegmentUpdated, position: int) -> str | None:
        segment_id, target = body.segment_id, RemoteLogSegmentState(body.state)
        known = self.states.get(segment_id)
        if target == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            self.states.pop(segment_id, None)
            self.deleted[segment_id] = position
        else:
            self.states[segment_id] = target
        if body.source is not None:
            return None
        if known is None or not is_valid_segment_transition(known, target):
            was = "nothing" if known is None else known.name
            return f"segment {segment_id.hex()} went from {was} to {target.name}"
        size, limit = len(body.custom_metadata or b""), self.custom_metadata_bytes_max
        if target == _FINISHED and limit is not None and size > limit:
            return (
                f"segment {segment_id.hex()} has {size} bytes of custom metadata, above {limit}"
            )
        return None

    def _delete_updated(self, body: log_events.PartitionDeleteUpdated) -> str | None:
        target, known = RemotePartitionDeleteState(body.state), self.delete
        self.delete = target
        if self._is_finished:
            self.states, self.deleted = {}, {}
        if body.source is None and not is_valid_delete_transition(known, target):
            was = "nothing" if known is None else known.name
            return f"the partition's deletion went from {was} to {target.name}"
        return None
