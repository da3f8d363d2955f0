"""When a leader writes a checkpoint: after so many events, and one at a time."""

from __future__ import annotations

from tierledger.actors import messages as msg


class Checkpoints:
    """What one leader has applied since its last checkpoint, and how that one went."""

    def __init__(self) -> None:
        self.is_writing = False
        self._events = 0
        self._held = 0
        """Of these, what the one that is being written holds."""

    def applied(self, events: int) -> None:
        """So many events were applied."""
        self._events += events

    def due(self, events_min: int, next_batch: int) -> list[msg.Effect]:
        """The order to write one, up to `next_batch`, if it would hold enough events."""
        if self.is_writing or self._events < events_min:
            return []
        self.is_writing = True
        self._events, self._held = 0, self._events
        return [msg.WriteCheckpoint(next_batch)]

    def holds_back(self, events_max: int) -> bool:
        """Whether one is being written and so many events wait for the next already."""
        return self.is_writing and self._events >= events_max

    def done(self, done: msg.CheckpointDone) -> None:
        """It was stored, or not; what was not may be due again at once."""
        self.is_writing = False
        if done.again:
            self._events += self._held
