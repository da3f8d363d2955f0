"""The laws of the log: what no leader may append, whatever was asked of it.

They are written down here a second time, apart from `decide` and its tables, which the checkers
doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tierledger.events import log_events
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.simulation.checkers.answer_text import id_text
from tierledger.simulation.checkers.slow.model import LEGAL, LEGAL_DELETES
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.final_log import FinalLog

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


def unlawful_event(log: FinalLog, custom_metadata_bytes_max: int | None) -> list[Violation]:
    """An event that the rules forbid; recorded history is held to none, as in `decide`."""
    laws, found, log_time_ms = _Laws(custom_metadata_bytes_max), [], 0
    for position, _, time_ms, _, _, body in log.events:
        laws.time_ms = time_ms
        broken = _LAWS[type(body)](laws, body, position)
        if broken is None and time_ms < log_time_ms:
            broken = f"log time goes back from {log_time_ms} to {time_ms}"
        is_end = laws.imports and isinstance(body, log_events.SessionClosed)
        if broken is None and is_end and time_ms > log_time_ms:
            broken = f"an import ended at {time_ms}, and its last record is of {log_time_ms}"
        if broken is not None:
            found.append(Violation("lifecycle", log.key, f"position {position}: {broken}"))
        log_time_ms = max(log_time_ms, time_ms)
    return found


class _Laws:
    """The lives of segments and partition as `decide` promises them, tracked without it."""

    def __init__(self, custom_metadata_bytes_max: int | None) -> None:
        self.custom_metadata_bytes_max = custom_metadata_bytes_max
        self.time_ms = 0
        """The log time of the event that is judged."""
        self.states: dict[bytes, RemoteLogSegmentState] = {}
        self.deleted: dict[bytes, int] = {}
        self.finished: set[bytes] = set()
        """Segments that were ever finished."""
        self.kept_until: dict[bytes, int] = {}
        self.purging: set[bytes] = set()
        self.delete: RemotePartitionDeleteState | None = None
        self.session = 0
        self.imports = False
        """Whether the session imports recorded history, whose events keep their own times."""
        self.disputes = (0, -1)
        """Disputes in a row, and the session that the last of them opened."""

    def unbound(self, _body: log_events.Body, _position: int) -> str | None:
        """No law is about this kind of event."""
        return None

    def opened(self, body: log_events.SessionOpened, _position: int) -> str | None:
        self.session, self.imports = body.number, body.import_cluster is not None
        return "a session of a deleted partition" if self._is_finished else None

    def disputed(self, body: log_events.SessionDisputed, _position: int) -> str | None:
        in_a_row, last = self.disputes
        expected = in_a_row + 1 if last == self.session - 1 else 1
        if not body.in_a_row:  # Written before disputes were counted.
            return None
        self.disputes = (body.in_a_row, self.session)
        if body.in_a_row != expected:
            return f"dispute {body.in_a_row} in a row, where {expected} comes next"
        return None

    def dropped(self, body: log_events.TombstonesDropped, _position: int) -> str | None:
        dropped = [one for one, at in self.deleted.items() if at < body.until]
        for one in dropped[: body.ids]:
            del self.deleted[one]
        return None

    @property
    def _is_finished(self) -> bool:
        return self.delete == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

    def added(self, body: log_events.SegmentAdded, _position: int) -> str | None:
        segment_id, known = body.segment_id, self.states.get(body.segment_id)
        self.states[segment_id] = RemoteLogSegmentState.COPY_SEGMENT_STARTED
        was_deleted = self.deleted.pop(segment_id, None) is not None
        if segment_id in self.kept_until:
            return f"segment {id_text(segment_id)} is kept from deletion, and came back"
        if body.source is not None:
            return None
        if self._is_finished:
            return f"segment {id_text(segment_id)} was added to a deleted partition"
        if was_deleted:
            return f"segment {id_text(segment_id)} was deleted, and came back"
        return None if known is None else f"segment {id_text(segment_id)} was added twice"

    def updated(self, body: log_events.SegmentUpdated, position: int) -> str | None:
        segment_id, target = body.segment_id, RemoteLogSegmentState(body.state)
        known = self.states.get(segment_id)
        if target == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            self.states.pop(segment_id, None)
            self.deleted[segment_id] = position
        else:
            self.states[segment_id] = target
            if target == _FINISHED:
                self.finished.add(segment_id)
        if body.source is not None:
            return None
        if known is None or (known, target) not in LEGAL:
            was = "nothing" if known is None else known.name
            return f"segment {id_text(segment_id)} went from {was} to {target.name}"
        size, limit = len(body.custom_metadata or b""), self.custom_metadata_bytes_max
        if target == _FINISHED and limit is not None and size > limit:
            where = f"segment {id_text(segment_id)}"
            return f"{where} has {size} bytes of custom metadata, above {limit}"
        return None

    def kept(self, body: log_events.SegmentKept, _position: int) -> str | None:
        segment_id = body.segment_id
        known = self.states.pop(segment_id, None)
        self.kept_until[segment_id] = body.until_ms
        if known != RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            was = "nothing" if known is None else known.name
            return f"segment {id_text(segment_id)} was kept, and was {was}"
        if segment_id not in self.finished:
            return f"segment {id_text(segment_id)} was kept, and its copy never finished"
        return None

    def purge_started(self, body: log_events.SegmentPurgeStarted, _position: int) -> str | None:
        where = f"the purge of segment {id_text(body.segment_id)} began"
        until_ms = self.kept_until.get(body.segment_id)
        self.purging.add(body.segment_id)
        if until_ms is None:
            return f"{where}, and it is not kept"
        if self.time_ms < until_ms and until_ms != log_events.UNTIL_RELEASED_MS:
            return f"{where} at {self.time_ms}, and it is kept until {until_ms}"
        return None

    def purged(self, body: log_events.SegmentPurged, position: int) -> str | None:
        known = self.kept_until.pop(body.segment_id, None)
        if not self._is_finished:
            self.deleted[body.segment_id] = position
        if known is None or body.segment_id not in self.purging:
            return f"segment {id_text(body.segment_id)} was purged before that began"
        return None

    def delete_updated(
        self, body: log_events.PartitionDeleteUpdated, _position: int
    ) -> str | None:
        target, known = RemotePartitionDeleteState(body.state), self.delete
        self.delete = target
        if self._is_finished:
            self.states, self.deleted = {}, {}
        if body.source is None and (known, target) not in LEGAL_DELETES:
            was = "nothing" if known is None else known.name
            return f"the partition's deletion went from {was} to {target.name}"
        return None


_LAWS: dict[type[Any], Callable[[_Laws, Any, int], str | None]] = {
    log_events.SessionOpened: _Laws.opened,
    log_events.SessionClosed: _Laws.unbound,
    log_events.SessionDisputed: _Laws.disputed,
    log_events.SegmentAdded: _Laws.added,
    log_events.SegmentUpdated: _Laws.updated,
    log_events.SegmentKept: _Laws.kept,
    log_events.SegmentPurgeStarted: _Laws.purge_started,
    log_events.SegmentPurged: _Laws.purged,
    log_events.PartitionDeleteUpdated: _Laws.delete_updated,
    log_events.ImportRecordDropped: _Laws.unbound,
    log_events.TombstonesDropped: _Laws.dropped,
}
