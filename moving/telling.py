"""Tells the service how far a move is, for those who look at `status` or the console.

Rule: telling cannot fail, and holds nothing up. A service of an older release refuses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.coordinator.attendance import MoveReport
from tierledger.events.errors import RemoteStorageError

TELL_S = 0.5
"""Seconds between two reports."""

PATIENCE_S = 2.0
"""Seconds for the last report, for which the command waits."""

SUCCEEDED = "the metadata has moved"


@asynccontextmanager
async def telling(
    coordinator: CoordinatorHandle, report: Callable[[], MoveReport]
) -> AsyncIterator[None]:
    """Report again and again while the block runs, and how it has ended."""
    told = asyncio.create_task(_tell(coordinator, report))
    outcome = SUCCEEDED
    try:
        yield
    except BaseException as error:
        outcome = str(error) or "it was interrupted"
        raise
    finally:
        told.cancel()
        await asyncio.gather(told, return_exceptions=True)
        with suppress(RemoteStorageError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await coordinator.ask(report()._replace(outcome=outcome))


async def _tell(coordinator: CoordinatorHandle, report: Callable[[], MoveReport]) -> None:
    while True:
        with suppress(RemoteStorageError):
            await coordinator.ask(report())
        await asyncio.sleep(TELL_S)
