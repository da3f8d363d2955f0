"""How fast segments may be copied."""

from __future__ import annotations

import asyncio

from tierledger.events.errors import InvalidArgument


class CopyQuota:
    """Limits a broker's copy rate. All copy tasks share one quota and take turns in order.

    As in Kafka, a running copy is not slowed down: its bytes delay the next copy.
    """

    def __init__(self, bytes_per_second: int) -> None:
        """`bytes_per_second` is `remote.log.manager.copy.max.bytes.per.second`.

        Raises:
            InvalidArgument: It is not positive.
        """
        if bytes_per_second <= 0:
            raise InvalidArgument(
                "remote.log.manager.copy.max.bytes.per.second: expected 1 or more, "
                f"got {bytes_per_second}"
            )
        self._bytes_per_second = bytes_per_second
        self._turn = asyncio.Lock()
        self._free_at = 0.0
        """When the rate allows the next copy, in the event loop's seconds."""

    async def take(self, size_in_bytes: int) -> None:
        """Wait until a copy of `size_in_bytes` may begin."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            delay = self._free_at - loop.time()
            if delay > 0:
                await asyncio.sleep(delay)
            begun = max(self._free_at, loop.time())
            self._free_at = begun + size_in_bytes / self._bytes_per_second
