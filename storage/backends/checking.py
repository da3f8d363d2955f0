"""Checks the operations of an atomic step without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tierledger.storage.backend import Operation, check_operations

OPERATIONS_AT_ONCE = 1000
"""Most operations that are checked on the caller's loop: 1 ms."""


async def checked_beside(operations: Sequence[Operation]) -> None:
    """Refuse operations with a key or a value beyond the limits.

    Many operations, as in a checkpoint, are checked in a thread.

    Raises:
        InvalidArgument: A key or a value is beyond the limits.
    """
    if len(operations) > OPERATIONS_AT_ONCE:
        await asyncio.to_thread(check_operations, operations)
    else:
        check_operations(operations)
