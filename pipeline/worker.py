"""How a Spark worker runs our asynchronous code, task by task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from gc import disable, enable, isenabled


@contextmanager
def page_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that is run page by page.

    `asyncio.Runner` sees to signals at each run, which costs 2 ms beside all that we hold.
    """
    loop = asyncio.new_event_loop()
    try:
        yield loop
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


@contextmanager
def without_cycles() -> Iterator[None]:
    """Pauses the collector of reference cycles: neither a scan nor a fold makes any.

    It would walk the decoded events again and again: a third of the time.
    """
    was_enabled = isenabled()
    disable()
    try:
        yield
    finally:
        if was_enabled:
            enable()
