"""A store as seen through a host: for processes that may not write to it themselves.

An SQLite file has one writing process; the coordinator and all other hosts commit through it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from tierledger.actors.calls import StoreCall
from tierledger.actors.foreign_errors import documenting
from tierledger.actors.ports import HostHandle
from tierledger.events.errors import (
    NotReady,
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.storage.backend import (
    NO_FORMERS,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
    WriterReplaced,
)

_MOVED = (OutcomeUnknown, NotReady)
"""Errors after which the writing host may be another one."""


class HostedBackend(MetadataStorageBackend):
    """Forwards every change to the host that `current` finds at that moment.

    Reads go to `reader`, if given: the same store, opened for reading in this process. They
    need no call, and go on while the writing host is being replaced. Nothing is sent a second
    time: the caller learns that the host was lost, and knows what a repeat would do.
    """

    def __init__(
        self,
        current: Callable[[], Awaitable[HostHandle]],
        reader: MetadataStorageBackend | None = None,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`lost` is called after each lost call, so that `current` searches again."""
        self._current = current
        self._reader = reader
        self._lost = lost

    async def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        with documenting("the host that writes", self._failed):
            host = await self._current()
            try:
                return await host.ask(StoreCall(method, arguments, named))
            except WriterReplaced as error:
                # It is no error of the store: another host writes, and has all of it.
                self._lost()
                raise StorageUnavailable(
                    f"the host that writes was replaced: {error}"
                ) from error

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, RemoteStorageError) or isinstance(error, _MOVED):
            self._lost()

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        if self._reader is not None:
            return await self._reader.get_each(keys)
        found: list[bytes | None] = await self._ask("get_each", list(keys))
        return found

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        if self._reader is not None:
            return await self._reader.get_like(prefix, after=after, limit=limit)
        found: list[tuple[str, bytes]] = await self._ask(
            "get_like", prefix, after=after, limit=limit
        )
        return found

    @override
    async def get_firsts(
        self, prefix: str, levels: int, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        if self._reader is not None:
            return await self._reader.get_firsts(prefix, levels, after=after, limit=limit)
        # By `get_like`, which hosts of former releases know.
        return await super().get_firsts(prefix, levels, after=after, limit=limit)

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        if self._reader is not None:
            return await self._reader.last_keys(prefixes)
        found: list[str | None] = await self._ask("last_keys", list(prefixes))
        return found

    @override
    async def last_keys_seen(self, prefixes: Sequence[str]) -> list[str | None]:
        if self._reader is not None:
            return await self._reader.last_keys_seen(prefixes)
        found: list[str | None] = await self._ask("last_keys_seen", list(prefixes))
        return found

    @override
    async def remove_like(self, prefix: str) -> int:
        removed: int = await self._ask("remove_like", prefix)
        return removed

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await self._ask("execute_atomically", list(operations))

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        outcomes: list[CreateOutcome] = await self._ask(
            "create_each", list(items), dict(formers)
        )
        return outcomes

    @override
    async def close(self) -> None:
        """Close the reader; the host closes its own store when it ends."""
        if self._reader is not None:
            await self._reader.close()
