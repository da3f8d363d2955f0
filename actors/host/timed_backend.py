"""How long the store takes for a host, by what is asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from typing_extensions import override

from tierledger.actors.host.call_times import CallTimes
from tierledger.storage.backend import (
    NO_FORMERS,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
)

T = TypeVar("T")


class TimedBackend(MetadataStorageBackend):
    """Another backend, whose calls are timed; those that fail, too."""

    def __init__(self, backend: MetadataStorageBackend, times: CallTimes) -> None:
        self._backend = backend
        self._times = times

    async def _timed(self, operation: str, call: Awaitable[T]) -> T:
        loop = asyncio.get_running_loop()
        since_s = loop.time()
        try:
            return await call
        finally:
            self._times.note(operation, loop.time() - since_s)

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        return await self._timed("read", self._backend.get_each(keys))

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        return await self._timed(
            "list", self._backend.get_like(prefix, after=after, limit=limit)
        )

    @override
    async def get_firsts(
        self, prefix: str, levels: int, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        firsts = self._backend.get_firsts(prefix, levels, after=after, limit=limit)
        return await self._timed("list", firsts)

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        return await self._timed("list", self._backend.last_keys(prefixes))

    @override
    async def last_keys_seen(self, prefixes: Sequence[str]) -> list[str | None]:
        return await self._timed("list", self._backend.last_keys_seen(prefixes))

    @override
    async def remove_like(self, prefix: str) -> int:
        return await self._timed("remove", self._backend.remove_like(prefix))

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await self._timed("write", self._backend.execute_atomically(operations))

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        return await self._timed("append", self._backend.create_each(items, formers))

    @override
    async def is_replaced(self) -> bool:
        return await self._backend.is_replaced()

    @override
    async def close(self) -> None:
        await self._backend.close()
