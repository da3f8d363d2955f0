"""A partition as an import sees it, which alone writes to its log and asks nothing but this."""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from tierledger.events import log_events as log
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState

_STARTED = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_GONE = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
_UNKNOWN: Final = -1


class ImportView(Overlay):
    """The state before an import, plus all that it has decided so far, however much that is.

    Of a segment that the import has changed it knows the state alone, which is what the rules
    of imports ask for. So the commands of an import, and those about sessions, can be decided
    on with it, and no others.
    """

    def __init__(self, state: PartitionState) -> None:
        super().__init__(state)
        self._states: dict[bytes, int | None] = {}
        """Of segments that the import has changed; None: deleted."""

    @override
    def segment_state(self, segment_id: bytes) -> int | None:
        known = self._states.get(segment_id, _UNKNOWN)
        return super().segment_state(segment_id) if known == _UNKNOWN else known

    @override
    def note(self, event: log.Event) -> None:
        position, _, log_time_ms, _, _, body = event
        if type(body) is log.SegmentAdded:
            self._states[body.segment_id] = _STARTED
        elif type(body) is log.SegmentUpdated:
            state = body.state
            self._states[body.segment_id] = None if state == _GONE else state
        else:
            super().note(event)
            if self.is_finished:
                self._states.clear()
            return
        self.next_position = position + 1
        self.log_time_ms = log_time_ms
        self._note_source(body.source)
