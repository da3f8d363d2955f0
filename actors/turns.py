"""Long work is done one piece at a time, by turns of those who asked for it.

`slices` bounds what one loop of work does before others may run, not how many such loops there
are: each ready task runs once in a turn of the event loop. So work that callers can order in
any number, as pages of lists, goes through here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol


class AnswerReader(Protocol):
    """Who asked for long work: a client's stream, or a caller in this process."""

    @property
    def name(self) -> str:
        """Whose turns they are: streams with one name share them."""
        ...

    @property
    def making(self) -> asyncio.Lock:
        """Held while an answer is made for this reader, so that it is one at a time."""
        ...

    async def room(self) -> None:
        """Return once the reader has read most of its answers, or will read none any more."""
        ...


class Turns:
    """Lets one task at a time work; those with the same name come in order, names by turns."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By name, the one whose turn is next first."""
        self._is_taken = False

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Wait for the turn of `name`; after the block, other tasks run before the next one."""
        await self._take(name)
        try:
            yield
            await asyncio.sleep(0)  # Work that never waits would be done all in one step.
        finally:
            self._pass_on()

    async def _take(self, name: str) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # The turn had come already.
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            name = next(iter(self._waiting))
            queue = self._waiting.pop(name)
            turn = queue.popleft()
            if queue:
                self._waiting[name] = queue  # Behind all others.
            if not turn.done():  # Else its task was cancelled.
                turn.set_result(None)
                return
        self._is_taken = False


class InProcess:
    """The reader of callers in this process, who take their answers at once."""

    name = ""

    def __init__(self) -> None:
        self.making = asyncio.Lock()

    async def room(self) -> None:
        """There always is."""
