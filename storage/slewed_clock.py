"""A clock that follows a forward jump of the wall clock only slowly.

Retention deletes by the clock, and leaders drop tombstones by it, so a jump into the future
would delete what is not due.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tierledger.storage.clock import Clock
from tierledger.storage.process_log import ProcessLog

SPEED_MAX: Final = 2
"""The clock runs at most this many times as fast as real time. It catches up with a jump of a
day after a day, in which an operator may notice it; with a jump of a century, never."""

JUMP_MS: Final = 60_000
"""A jump is reported, once, when the wall clock is this far ahead of this clock."""

_log = ProcessLog("tierledger.tiering")


class SlewedClock:
    """A clock that follows the wall clock, but runs at most `SPEED_MAX` times real time.

    It follows a wall clock that jumps back at once: less is due then. It also starts at the
    wall clock's time: if that is wrong from the start, retention deletes what it should not.
    """

    def __init__(
        self,
        wall: Clock,
        monotonic_s: Callable[[], float],
        on_jump: Callable[[], None],
        on_agreement: Callable[[], None] = lambda: None,
    ) -> None:
        """`monotonic_s` is a monotonic clock in seconds, such as an event loop's `time`.

        `on_jump` is called when the wall clock gets ahead by more than `JUMP_MS`, and
        `on_agreement` when it is no longer so.
        """
        self._wall = wall
        self._on_jump = on_jump
        self._on_agreement = on_agreement
        self._monotonic_s = monotonic_s
        self._seen_s = monotonic_s()
        self._believed_ms: float = wall.now_ms()
        self._is_ahead = False

    def now_ms(self) -> int:
        """Milliseconds since 1970, at most the wall clock's."""
        wall_ms, now_s = self._wall.now_ms(), self._monotonic_s()
        passed_ms = max(0.0, now_s - self._seen_s) * 1000
        self._believed_ms = min(wall_ms, self._believed_ms + SPEED_MAX * passed_ms)
        self._seen_s = now_s
        ahead_ms = wall_ms - self._believed_ms
        was_ahead, self._is_ahead = self._is_ahead, ahead_ms > JUMP_MS
        if self._is_ahead and not was_ahead:
            _log.warning("the clock jumped ahead", ahead_ms=int(ahead_ms))
            self._on_jump()
        elif was_ahead and not self._is_ahead:
            self._on_agreement()
        return int(self._believed_ms)
