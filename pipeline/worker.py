"""How a Spark worker runs asynchronous code, task by task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from gc import disable, enable, isenabled


@contextmanager
def page_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that is run for one page at a time.

    `asyncio.Runner` would handle signals at each run, which costs 2 ms in a loaded worker.
    """
    loop = asyncio.new_event_loop()
    try:
        yield loop
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


@contextmanager
def without_cycles() -> Iterator[None]:
    """Pause the collector of reference cycles: neither a scan nor a fold makes any.

    It would walk the decoded events again and again, which takes a third of the time.
    """
    was_enabled = isenabled()
    disable()
    try:
        yield
    finally:
        if was_enabled:
            enable()
