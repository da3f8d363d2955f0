"""The one rule by which a host or a coordinator keeps its loop free: no step over 10 ms.

Work on many things, as many as a caller, a log or a store makes them, is done in pieces with a
known bound. A loop over pieces calls `yield_if_due` after each, so that other tasks may run in
between. A piece is one event, request or page, or a constant number of rows.
"""

from __future__ import annotations

import asyncio

SLICE_S = 0.002
"""Time a loop of work may take before it yields; several such loops may run in one turn."""


class Slices:
    """Lets other tasks run whenever a loop of work has taken `SLICE_S`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()

    async def yield_if_due(self) -> None:
        """Call this between two pieces of work."""
        if self._loop.time() - self._since > SLICE_S:
            await asyncio.sleep(0)
            self._since = self._loop.time()
