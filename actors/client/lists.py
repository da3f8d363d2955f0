"""Long lists, page by page, each as of one position."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tierledger.actors.calls import Answered
from tierledger.events.errors import RetryableError

LIST_ATTEMPTS = 3
"""Times a list is begun again because the host had to close it, or was lost."""


async def pages(
    first: Callable[[], Awaitable[Answered]], following: Callable[[str], Awaitable[Answered]]
) -> AsyncIterator[list[bytes]]:
    """The list's pages of rows, each fetched when it is wanted.

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
    """All rows of one list, begun again where it must be."""
    for _ in range(LIST_ATTEMPTS - 1):
        try:
            return [row async for page in begin() for row in page]
        except RetryableError:
            continue
    return [row async for page in begin() for row in page]
