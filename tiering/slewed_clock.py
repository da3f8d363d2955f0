"""A clock for retention, which deletes by it: one that a jump forward does not carry along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from tierledger.tiering.clock import Clock

SPEED_MAX: Final = 2
"""Times as fast as time itself that the clock may run: a jump by a day is believed in full a
day later, which somebody may have noticed by then; one by a century never is."""

JUMP_MS: Final = 60_000
"""A wall clock this far ahead of what is believed is told of, once until it is back."""

_log = structlog.get_logger("tierledger.tiering")


class SlewedClock:
    """A wall clock that never gets ahead of real time by more than `SPEED_MAX` allows.

    A wall clock that jumps back, or is behind, is believed: less is due then. What it says when
    this is made is believed, too: one that is wrong from the start deletes what it should not.
    """

    def __init__(
        self, wall: Clock, monotonic_s: Callable[[], float], on_jump: Callable[[], None]
    ) -> None:
        """`monotonic_s` counts seconds that nobody sets: an event loop's `time`.

        `on_jump` is called when the wall clock gets ahead of what is believed.
        """
        self._wall = wall
        self._on_jump = on_jump
        self._monotonic_s = monotonic_s
        self._seen_s = monotonic_s()
        self._believed_ms: float = wall.now_ms()
        self._is_ahead = False

    def now_ms(self) -> int:
        """Milliseconds since 1970, as far as they are believed."""
        wall_ms, now_s = self._wall.now_ms(), self._monotonic_s()
        passed_ms = max(0.0, now_s - self._seen_s) * 1000
        self._believed_ms = min(wall_ms, self._believed_ms + SPEED_MAX * passed_ms)
        self._seen_s = now_s
        ahead_ms = wall_ms - self._believed_ms
        if ahead_ms > JUMP_MS and not self._is_ahead:
            _log.warning("the clock jumped ahead", ahead_ms=int(ahead_ms))
            self._on_jump()
        self._is_ahead = ahead_ms > JUMP_MS
        return int(self._believed_ms)
