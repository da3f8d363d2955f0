"""When a caller's call ends: decided once, where it enters; all below goes by it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from tierledger.events.errors import Overloaded

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


class Deadline:
    """The end of one call, and whether what it wants may be under way."""

    def __init__(self, seconds: float) -> None:
        """Made on a running loop; the call ends `seconds` from now."""
        self.seconds = seconds
        self._at = asyncio.get_running_loop().time() + seconds

    def bound(self) -> asyncio.Timeout:
        """Ends what runs inside it with `TimeoutError` when the time is over."""
        return asyncio.timeout_at(self._at)

    @property
    def left_s(self) -> float:
        """Seconds that are left, below 0 when it has passed."""
        return self._at - asyncio.get_running_loop().time()

    async def before_sending(self, turn: Awaitable[T], others: str) -> T:
        """What `turn` comes to, which is waited for before anything is sent.

        Raises:
            Overloaded: The time is over; nothing was sent. `others` says what was in the way.
        """
        try:
            async with self.bound():
                return await turn
        except TimeoutError:
            raise Overloaded(
                f"not sent within {self.seconds:g} s: {others} first, and took as long"
            ) from None


class Attempt:
    """One attempt of a call: whether it may have reached the other side."""

    is_sent = False

    def __init__(self, deadline: Deadline | None = None) -> None:
        """`deadline`: when its caller gives up, where that is known."""
        self._deadline = deadline

    @property
    def left_ms(self) -> int:
        """For how long its caller goes on waiting; 0 if that is not known, else at least 1."""
        return 0 if self._deadline is None else max(1, int(self._deadline.left_s * 1000))
