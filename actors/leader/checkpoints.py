"""When a leader writes a checkpoint: after a number of events, and one at a time."""

from __future__ import annotations

from tierledger.actors import messages as msg


class Checkpoints:
    """Counts the events that one leader has applied since its last checkpoint."""

    def __init__(self) -> None:
        self.is_writing = False
        self.is_whole = False
        """Whether the next one reads all that the store has, to write what differs."""
        self._events = 0
        self._held = 0
        """Events that the checkpoint that is being written covers."""

    def begin(self, uncovered: int | None, next_position: int) -> None:
        """Begin with a state of which no checkpoint has `uncovered` events; None: it is one.

        If no checkpoint has any event up to `next_position`, there is nothing to be read.
        """
        self.is_whole = uncovered is not None and uncovered < next_position
        self._events += uncovered or 0

    def applied(self, events: int) -> None:
        """Count `events` more that were applied."""
        self._events += events

    def due(self, events_min: int, next_batch: int) -> list[msg.Effect]:
        """The order to write a checkpoint up to `next_batch`, if enough events call for one."""
        if self.is_writing or self._events < events_min:
            return []
        self.is_writing = True
        self._events, self._held = 0, self._events
        return [msg.WriteCheckpoint(next_batch)]

    def at_end(self, events_min: int, next_batch: int) -> list[msg.Effect]:
        """The order to write the last one of a leader that ends.

        Of any event, so that the next load has nothing to replay; but it is not worth while to
        read all that the store has for less than `events_min`.
        """
        return self.due(events_min if self.is_whole else 1, next_batch)

    def holds_back(self, events_max: int) -> bool:
        """Whether one is being written and `events_max` events wait for the next already."""
        return self.is_writing and self._events >= events_max

    def done(self, done: msg.CheckpointDone) -> None:
        """A checkpoint was stored, or not. With `done.again` its events are due again."""
        self.is_writing = False
        self.is_whole = self.is_whole and not done.stored
        if done.again:
            self._events += self._held
