"""Work in threads that does not outlive the task that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread and return its result, like `asyncio.to_thread`.

    A cancellation is raised only when the thread has finished `work`. So once the waiting task
    has ended, none of its work is still running.
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
        working.exception()  # Retrieved, so that asyncio does not report it.
        raise cancelled
    return working.result()
