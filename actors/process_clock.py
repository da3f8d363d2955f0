"""The clock of a host or coordinator: the machine's, without its jumps into the future.

Log time never goes back. So if a host took the time of a clock that is a year ahead for some
seconds, its logs would be a year ahead for good, and would drop all tombstones at once.

A clock that is wrong from the start shows only beside others: hosts tell theirs in their
answers to pings, and the coordinator tells each what most say (`coordinator/clocks.py`). A
process whose own clock is off goes by that.
"""

from __future__ import annotations

from collections.abc import Callable

from tierledger.actors.calls import CommonTime
from tierledger.actors.conditions import CLOCK_JUMPED, Conditions
from tierledger.storage.clock import Clock
from tierledger.storage.slewed_clock import SPEED_MAX, SlewedClock

OFF_MS = 60_000
"""A clock that differs from most others by more than this is off, and not believed."""


class ProcessClock:
    """The time that a process believes.

    Rule 1: it is that of its own clock, which follows a jump ahead at twice the speed of time,
    unless that is off.
    Rule 2: if it is ahead of the common time, the common time holds at once: what is too early
    mends itself, and log time that is too late does not.
    Rule 3: if it is behind, the common time holds once most clocks agree on it. Then this clock
    jumps once in its life; later it follows at twice the speed of time.
    """

    def __init__(
        self,
        wall: Clock,
        monotonic_s: Callable[[], float],
        conditions: Callable[[], Conditions],
    ) -> None:
        """`conditions` gives those of the process.

        `CLOCK_JUMPED` holds among them until the clock has caught up with a jump of `wall`, or
        `wall` has come back.
        """

        def jumped() -> None:
            text = (
                "this machine's clock jumped ahead by more than a minute; the time in the logs "
                "follows at twice the speed of time"
            )
            conditions().hold(CLOCK_JUMPED, text)

        def agrees() -> None:
            conditions().clear(CLOCK_JUMPED)

        self._own = SlewedClock(wall, monotonic_s, jumped, agrees)
        self._monotonic_s = monotonic_s
        self._common: float | None = None
        """The common time, less the monotonic one (ms)."""
        self._is_agreed = False
        self._raised_to: float | None = None
        """What was believed last, if that was ahead of the own clock ..."""
        self._raised_at = 0.0
        """... and the monotonic time (ms) then."""

    def own_ms(self) -> int:
        """The time of the process's own clock, whatever others say (ms since 1970)."""
        return self._own.now_ms()

    def told(self, time: CommonTime) -> None:
        """Take the common time."""
        now_ms = self._monotonic_s() * 1000
        self._common = time.ms - now_ms
        if time.is_agreed and not self._is_agreed:
            self._is_agreed = True
            self._raised_to, self._raised_at = time.ms, now_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970; may step either way."""
        own_ms, now_ms = self._own.now_ms(), self._monotonic_s() * 1000
        if self._common is None:
            return own_ms
        common_ms = self._common + now_ms
        if own_ms > common_ms + OFF_MS:
            return int(common_ms)
        if own_ms >= common_ms - OFF_MS or self._raised_to is None:
            return own_ms
        followed = self._raised_to + SPEED_MAX * (now_ms - self._raised_at)
        self._raised_to = min(common_ms, max(own_ms, followed))
        self._raised_at = now_ms
        return int(self._raised_to)
