"""Long lists, page by page, each as of one position."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tierledger.actors.calls import Answered
from tierledger.events.errors import RetryableError

LIST_ATTEMPTS = 3
"""Attempts to read a whole list: its host may close it, or be lost."""


async def pages(
    first: Callable[[], Awaitable[Answered]], following: Callable[[str], Awaitable[Answered]]
) -> AsyncIterator[list[bytes]]:
    """The list's pages of rows, in order; each is fetched when the caller asks for it.

    Raises:
        NotReady: The list was closed, or its host was lost; begin it again.
    """
    answered = await first()
    while True:
        page: Any = answered.value
        yield page
        if answered.cursor is None:
            return
        answered = await following(answered.cursor)


async def all_rows(begin: Callable[[], AsyncIterator[list[bytes]]]) -> list[bytes]:
    """All rows of one list, as of one position; begun again if it was closed or lost."""
    for _ in range(LIST_ATTEMPTS - 1):
        try:
            return [row async for page in begin() for row in page]
        except RetryableError:
            continue
    return [row async for page in begin() for row in page]
