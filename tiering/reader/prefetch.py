"""Fetches ahead of a reader: the next pieces, and the next segment while one is still read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Generic, TypeVar

from tierledger.tiering.closing import closing

AHEAD_BYTES: Final = 16 << 20
"""What may wait to be read; the last piece may exceed it."""

T = TypeVar("T")


class Prefetched(Generic[T]):
    """Takes items of some size ahead of who asks for them, in a task of its own.

    An error of the items comes after those that came before it. Leave the block to end it.
    """

    def __init__(
        self, items: AsyncIterator[tuple[T, int]], ahead_bytes: int = AHEAD_BYTES
    ) -> None:
        """Take from `items`, each with its size."""
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
            task.exception()  # It was told to the reader, or came too late for one.

    async def next(self) -> T | None:
        """The next item, waited for; none at the end. Raises what the items raised."""
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
        # The reader may have enough to do for a long time: let the fetching go on.
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
