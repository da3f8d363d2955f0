"""When a leader writes a checkpoint: after so many events, and one at a time."""

from __future__ import annotations

from tierledger.actors import messages as msg


class Checkpoints:
    """What one leader has applied since its last checkpoint, and how that one went."""

    def __init__(self) -> None:
        self.is_writing = False
        self._is_refused = False
        self._events = 0

    def applied(self, events: int) -> None:
        """So many events were applied."""
        self._events += events

    def due(self, events_min: int, next_batch: int) -> list[msg.Effect]:
        """The order to write one, up to `next_batch`, if it would hold enough events."""
        if self.is_writing or self._is_refused or self._events < events_min:
            return []
        self.is_writing = True
        self._events = 0
        return [msg.WriteCheckpoint(next_batch)]

    def done(self, done: msg.CheckpointDone) -> None:
        """It was stored; or refused, for good, to a process that may write none."""
        self.is_writing = False
        self._is_refused = not done.stored
