"""The one rule by which a host or a coordinator keeps its loop free: no step over 10 ms.

What is done for many things, however many a caller, a log or a store makes them, is done in
pieces with a known bound, and others may run in between: a loop over pieces calls
`yield_if_due` after each. A piece is one event, request or page, or so many rows as a constant
says.
"""

from __future__ import annotations

import asyncio

SLICE_S = 0.002
"""Time a loop may be busy before it lets others run: several may be, in one turn."""


class Slices:
    """Lets others run whenever a loop has been busy for a slice."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()

    async def yield_if_due(self) -> None:
        """Between two pieces of work."""
        if self._loop.time() - self._since > SLICE_S:
            await asyncio.sleep(0)
            self._since = self._loop.time()
