"""What every open store does alike: work ends before its store, and removals go by steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tierledger.events.errors import (
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.own_process import OwnProcess

T = TypeVar("T")

KEYS_PER_REMOVAL = 1000
"""Keys that one step of a removal removes."""


class OpenStore:
    """A store that this process has opened, with the work on it that is under way."""

    def __init__(self, thing: str, where: str) -> None:
        """`thing` is what belongs to this process, `where` the store; both for messages."""
        self._home = OwnProcess(thing)
        self._where = where
        self._work: set[asyncio.Task[Any]] = set()
        self._closing: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Return if the store is open here.

        Raises:
            StorageUnavailable: It is closed.
            InvalidArgument: This process was forked from the one that opened it.
        """
        self._home.check()
        if self._closing is not None:
            raise StorageUnavailable(f"{self._where} is closed")

    async def finished(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which goes on if its caller is cancelled. Raises as `check`."""
        try:
            self.check()
        except RemoteStorageError:
            work.close()
            raise
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return await asyncio.shield(task)

    async def close(self, end: Callable[[], Awaitable[None]]) -> None:
        """Let the work end, then do `end`, once. A forked process leaves the store alone."""
        if not self._home.is_here:
            return
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(end))
        # Shielded, so that cancelling a caller does not leave the store half closed.
        await asyncio.shield(self._closing)

    async def _close(self, end: Callable[[], Awaitable[None]]) -> None:
        if self._work:
            await asyncio.wait(self._work)
        await end()


async def removed(step: Callable[[], Awaitable[int]]) -> int:
    """The number of keys that calls of `step` removed, until one has removed fewer than all.

    Raises:
        OutcomeUnknown: A step failed after others had removed keys.
    """
    total = 0
    while True:
        try:
            count = await step()
        except (StorageUnavailable, StoreRefused, OutcomeUnknown) as error:
            if total:
                raise OutcomeUnknown(f"{error}; {total} keys are removed") from error
            raise
        total += count
        if count < KEYS_PER_REMOVAL:
            return total
