"""Pages as they were made last: one that takes long is made beside, and nobody waits for it.

Rule: of a page that has been asked for there is one making at a time, for all who ask. Who asks
meanwhile gets the page from before, and hears when the newer one is there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Make = Callable[[], Awaitable[tuple[str, Callable[[], str]]]]

HELD: Final = 64
"""Pages that are kept."""

WAIT_S: Final = 0.5
"""How long somebody waits for a newer page where there is one from before."""

SHARE: Final = 4
"""A page that took longer than `WAIT_S` is made again after a pause so many times as long."""


class MadePage(NamedTuple):
    """A page, and what it was made of."""

    of: str
    html: str


class Answers:
    """The pages of a site, by their addresses."""

    def __init__(self, tell: Callable[[], None]) -> None:
        """`tell` is called when there is a page that somebody did not wait for."""
        self._tell = tell
        self._held: dict[str, MadePage] = {}
        self._making: dict[str, asyncio.Task[MadePage]] = {}
        self._resting: set[str] = set()
        """Pages that are not made again yet."""

    def is_known(self, address: str) -> bool:
        """Whether the page was made, or is being made."""
        return address in self._held or address in self._making

    async def newest(self, address: str, make: Make) -> MadePage:
        """The page, as new as it can be had without waiting long.

        `make` says what the page is made of, and gives a function that makes it, for a thread.
        What it raises is raised here, or for whoever asks next.
        """
        earlier = self._making.get(address)
        if earlier is not None:  # Begun before the question, so maybe of something older.
            page = await self._waited(address, earlier)
            if not earlier.done():
                return page
        if address in self._resting and address in self._held:
            return self._held[address]
        return await self._waited(address, self.begin(address, make))

    async def _waited(self, address: str, making: asyncio.Task[MadePage]) -> MadePage:
        """The page that is being made, or the one from before if that takes long."""
        held = self._held.get(address)
        await asyncio.wait({making}, timeout=None if held is None else WAIT_S)
        if held is not None and not making.done():
            return held
        if self._making.get(address) is making:
            del self._making[address]
        return await making

    def begin(
        self, address: str, make: Make, *, is_awaited: bool = True
    ) -> asyncio.Task[MadePage]:
        """Make the page, unless that is under way."""
        making = self._making.get(address)
        if making is None:
            making = asyncio.create_task(self._made(address, make, is_awaited=is_awaited))
            self._making[address] = making
            making.add_done_callback(lambda done: self._ended(address, done))
        return making

    def _ended(self, address: str, making: asyncio.Task[MadePage]) -> None:
        """A failure is kept for whoever asks next; a page is held."""
        if (making.cancelled() or making.exception() is None) and (
            self._making.get(address) is making
        ):
            del self._making[address]

    async def _made(self, address: str, make: Make, *, is_awaited: bool) -> MadePage:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            of, page = await make()
            held = self._held.get(address)
            if held is None or held.of != of:
                held = MadePage(of, await asyncio.to_thread(page))
                self._hold(address, held)
            return held
        finally:
            took_s = loop.time() - began_s
            if took_s > WAIT_S:
                self._rest(address, SHARE * took_s)
            if took_s > WAIT_S or not is_awaited:
                self._tell()

    def _hold(self, address: str, page: MadePage) -> None:
        self._held.pop(address, None)
        while len(self._held) >= HELD:
            del self._held[next(iter(self._held))]
        self._held[address] = page

    def _rest(self, address: str, seconds: float) -> None:
        def rested() -> None:
            self._resting.discard(address)
            self._tell()

        self._resting.add(address)
        asyncio.get_running_loop().call_later(seconds, rested)
