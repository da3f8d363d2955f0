"""Threads that nobody leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns in a thread, as `asyncio.to_thread`.

    A cancellation is raised only when the thread is done with it: once a task that waits here
    has ended, nothing of its work goes on.
    """
    loop = asyncio.get_running_loop()
    working = loop.run_in_executor(None, partial(work, *args, **kwargs))
    cancelled = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        working.exception()  # Nobody is left to hear it.
        raise cancelled
    return working.result()
