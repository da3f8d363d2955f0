"""Limits the rate at which a scrub reads."""

from __future__ import annotations

import asyncio
from typing import Protocol

from tierledger.events.errors import InvalidArgument


class PaceClock(Protocol):
    """A monotonic clock."""

    def now_s(self) -> float:
        """Seconds since an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class LoopClock:
    """The event loop's clock."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Pace:
    """Spreads reads over time: after each read it waits until the rate allows the next."""

    def __init__(self, bytes_per_second: int | None, clock: PaceClock) -> None:
        """Without a rate it never waits.

        Raises:
            InvalidArgument: The rate is not positive.
        """
        if bytes_per_second is not None and bytes_per_second < 1:
            raise InvalidArgument(f"expected a rate of 1 or more, got {bytes_per_second}")
        self._rate = bytes_per_second
        self._clock = clock
        self._free_at = clock.now_s()

    async def spend(self, size: int) -> None:
        """Count `size` bytes that were read, and wait until the rate allows the next read."""
        if self._rate is None:
            return
        now = self._clock.now_s()
        self._free_at = max(self._free_at, now) + size / self._rate
        await self._clock.sleep(self._free_at - now)
