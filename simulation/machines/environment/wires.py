"""Messages between processes: delayed, reordered, lost, sent twice, cut off, clogged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tierledger.simulation.machines.environment.clockwork import MS, Clockwork, ProcessLife
from tierledger.simulation.machines.environment.recording import Message, Recording

Link = tuple[str, str]
"""The sites of sender and receiver."""

LOSE, DELAY, TWICE = 0, 1, 2
"""The fates of a message."""

RESENT = 200 * MS
"""The time (us) after which TCP sends again what was lost on a stream."""


class Wires:
    """The network between processes.

    Delays come from a table, so that leaving one fault out of a run changes as little as
    possible of the rest.
    """

    def __init__(self, clock: Clockwork, delays: Sequence[int], recording: Recording) -> None:
        self._clock = clock
        self._delays = delays
        self._size = len(delays)
        self._recording = recording
        self._is_troubled = False
        self._armed: dict[Link, list[tuple[int, int]]] = {}
        self._cuts: dict[Link, int] = {}
        self._clogs: dict[Link, int] = {}

    def heal(self) -> None:
        """End all faults: from now on every message arrives soon."""
        self._is_troubled = False

    def arm(self, link: Link, fate: int, given: int) -> None:
        """Let the next message on `link` suffer `fate`; `given`: how late it is (us)."""
        self._is_troubled = True
        self._armed.setdefault(link, []).append((fate, given))

    def cut(self, link: Link, until: int) -> None:
        """Lose all messages that are sent on `link` until then; the other direction works."""
        self._is_troubled = True
        self._cuts[link] = until

    def clog(self, link: Link, until: int) -> None:
        """Hold all messages that are sent on `link` until then, and deliver them reordered."""
        self._is_troubled = True
        self._clogs[link] = until

    def is_cut(self, source: ProcessLife, target: ProcessLife) -> bool:
        """Whether a message that is sent now is lost to a cut."""
        return self._clock.now < self.cut_until(source, target)

    def cut_until(self, source: ProcessLife, target: ProcessLife) -> int:
        """When the last cut of the link ends or ended; 0 if it was never cut."""
        return self._cuts.get((source.site, target.site), 0)

    def delay(self, source: ProcessLife, salt: int = 0) -> int:
        source.sent += 1
        return self._delays[(source.sent + salt + 17 * source.number) % self._size]

    def send(
        self,
        source: ProcessLife,
        target: ProcessLife,
        call: Callable[..., None],
        *args: Any,  # noqa: ANN401
        message: Message,
    ) -> bool:
        """Have `target` make `call` after a delay; false if `target` cannot be reached.

        A message that is lost on its way counts as sent. `message`: as the picture shows it.
        """
        if target.is_dead or target.is_cut_off:
            return False
        source.sent = sent = source.sent + 1  # As in `delay`.
        arrives = self._clock.now + self._delays[(sent + 17 * source.number) % self._size]
        if self._is_troubled:
            fated = self._fated(source, target, arrives, message, call, args)
            if fated is None:
                return True
            arrives = fated
        self._recording.message(source, target, message, arrives)
        self._clock.at(arrives, target, call, *args)
        return True

    def _fated(
        self,
        source: ProcessLife,
        target: ProcessLife,
        arrives: int,
        message: Message,
        call: Callable[..., None],
        args: tuple[Any, ...],
    ) -> int | None:
        """When a message arrives, after the fault that it meets; None if it is lost."""
        link, now, recording = (source.site, target.site), self._clock.now, self._recording
        if now < self._cuts.get(link, 0):
            recording.lost(source, target, message)
            recording.mark("message lost to a cut")
            return None
        until = self._clogs.get(link, 0)
        if now < until:
            recording.mark("message held in a clog")
            return until + 7 * self.delay(source, 97)
        armed = self._armed.get(link)
        if not armed:
            return arrives
        fate, given = armed.pop(0)
        if fate == LOSE:
            recording.lost(source, target, message)
            recording.mark("message lost")
            return None
        if fate == TWICE:
            recording.mark("message sent twice")
            recording.message(source, target, message, arrives + given)
            self._clock.at(arrives + given, target, call, *args)
            return arrives
        recording.mark("message delayed")
        return arrives + given

    def carries(self, source: ProcessLife, target: ProcessLife) -> int:
        """How long data of a stream takes (us): nothing is lost, as all is sent again."""
        delay = self.delay(source)
        if not self._is_troubled:
            return delay
        link = (source.site, target.site)
        armed = self._armed.get(link)
        if armed:
            fate, given = armed.pop(0)
            self._recording.mark(f"message {('lost', 'delayed', 'sent twice')[fate]}")
            delay += (RESENT, given, 0)[fate]
        clogged = self._clogs.get(link, 0) - self._clock.now
        if clogged > 0:
            self._recording.mark("message held in a clog")
            return max(clogged, delay)
        if (cut := self._cuts.get(link, 0) - self._clock.now) > delay:
            self._recording.mark("message lost to a cut")
            return cut + RESENT
        return delay
