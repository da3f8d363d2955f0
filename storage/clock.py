"""The wall clock as others see it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time; `actors.wall_clock.WallClock` is one."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as brokers count them; may step either way."""
        ...
