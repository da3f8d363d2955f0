"""Bounds how far a client's newest write may be ahead of its oldest that has not ended.

A leader recognises a repeat among the last `REQUESTS_KEPT` requests of its origin, a broker. If
so many other writes succeeded while one is in doubt, its retry would be carried out once more.
"""

from __future__ import annotations

import asyncio
from collections import deque

from tierledger.actors.client.open_writes import OpenWrites

WRITES_MAX = 200
"""Writes from the oldest that has not ended to the newest, below `REQUESTS_KEPT`."""


class Window:
    """The writes of one client to one partition, in the order in which they begin."""

    def __init__(self) -> None:
        self._open = OpenWrites()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_idle(self) -> bool:
        return not (self._open or self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the next write has to wait before it may begin."""
        return bool(self._waiting) or self._is_full()

    async def enter(self) -> int:
        """The number of a write that may begin now; waits while the window is full."""
        if self.is_full:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # Its turn had come: pass it on to the next write.
                raise
        return self.begin()

    def begin(self) -> int:
        """The number of a write that begins now; `is_full` says whether it may."""
        number = self._open.begin()
        self._wake()
        return number

    def leave(self, number: int) -> None:
        """Note that write `number` has ended, with success or without."""
        self._open.end(number)
        self._wake()

    def _is_full(self) -> bool:
        return self._open.span() >= WRITES_MAX

    def _wake(self) -> None:
        """Let the first waiting write begin; it wakes the next one when it has."""
        if self._is_full():
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
