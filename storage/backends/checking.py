"""What an atomic step may hold, without holding up the loop that wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tierledger.storage.backend import Operation, check_operations

OPERATIONS_AT_ONCE = 1000
"""Operations that are checked on the caller's loop: 1 ms."""


async def checked_beside(operations: Sequence[Operation]) -> None:
    """Refuse a list in which an operation could not be carried out anywhere.

    Many of them, as in a checkpoint, are checked in a thread.

    Raises:
        InvalidArgument: A key or a value is out of bounds; nothing was done.
    """
    if len(operations) > OPERATIONS_AT_ONCE:
        await asyncio.to_thread(check_operations, operations)
    else:
        check_operations(operations)
