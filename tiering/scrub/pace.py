"""How fast bytes may be read."""

from __future__ import annotations

import asyncio
from typing import Protocol

from tierledger.events.errors import InvalidArgument


class PaceClock(Protocol):
    """Time that only goes on."""

    def now_s(self) -> float:
        """Seconds since some moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so long."""
        ...


class LoopClock:
    """The event loop's time."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Pace:
    """Spreads reading over time: whatever was read is waited for before more is."""

    def __init__(self, bytes_per_second: int | None, clock: PaceClock) -> None:
        """Without a rate, nothing is waited for.

        Raises:
            InvalidArgument: The rate is not positive.
        """
        if bytes_per_second is not None and bytes_per_second < 1:
            raise InvalidArgument(f"expected a rate of 1 or more, got {bytes_per_second}")
        self._rate = bytes_per_second
        self._clock = clock
        self._free_at = clock.now_s()

    async def spend(self, size: int) -> None:
        """Return when `size` bytes more were due."""
        if self._rate is None:
            return
        now = self._clock.now_s()
        self._free_at = max(self._free_at, now) + size / self._rate
        await self._clock.sleep(self._free_at - now)
