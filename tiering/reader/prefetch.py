"""Fetches ahead of a reader: the next pieces, and the next segment while one is being read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Generic, TypeVar

from tierledger.tiering.closing import closing

AHEAD_BYTES: Final = 16 << 20
"""Bytes that may wait for the reader; the last piece may exceed this."""

T = TypeVar("T")


class Prefetched(Generic[T]):
    """Fetches items ahead of their reader, in a task of its own.

    An error of the items is raised after the items before it. Leaving the block ends the task.
    """

    def __init__(
        self, items: AsyncIterator[tuple[T, int]], ahead_bytes: int = AHEAD_BYTES
    ) -> None:
        """Take from `items`, each with its size in bytes."""
        self._items = items
        self._ahead_bytes = ahead_bytes
        self._waiting: deque[tuple[T, int]] = deque()
        self._waiting_bytes = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Prefetched[T]:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        task = self._started()
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # The reader has got the error, or has left before it came.

    async def next(self) -> T | None:
        """Wait for the next item; none at the end. Raises what the items raised."""
        task = self._started()
        while not self._waiting:
            if task.done():
                task.result()
                return None
            self._changed.clear()
            await self._changed.wait()
        item, size = self._waiting.popleft()
        self._waiting_bytes -= size
        self._changed.set()
        # A reader that finds items waiting would never suspend: let the fetching task run.
        await asyncio.sleep(0)
        return item

    async def _run(self) -> None:
        try:
            async with closing(self._items) as items:
                async for item, size in items:
                    self._waiting.append((item, size))
                    self._waiting_bytes += size
                    self._changed.set()
                    while self._waiting_bytes >= self._ahead_bytes:
                        self._changed.clear()
                        await self._changed.wait()
        finally:
            self._changed.set()

    def _started(self) -> asyncio.Task[None]:
        assert self._task is not None, "enter the block first"
        return self._task
