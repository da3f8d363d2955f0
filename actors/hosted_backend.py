"""A store as seen through a host: for processes that may not write to it themselves.

An SQLite file has one writing process; the coordinator commits through it like everybody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from tierledger.storage.backend import MetadataStorageBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tierledger.actors.ports import HostHandle
    from tierledger.storage.backend import CreateOutcome, Operation


class HostedBackend(MetadataStorageBackend):
    """Forwards every call to whichever host `current` names at that moment."""

    def __init__(self, current: Callable[[], HostHandle]) -> None:
        self._current = current

    async def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        return await self._current().store(method, arguments, named)

    @override
    async def create(self, key: str, value: bytes) -> None:
        await self._ask("create", key, value)

    @override
    async def update(self, key: str, value: bytes, *, expected: bytes | None = None) -> None:
        await self._ask("update", key, value, expected=expected)

    @override
    async def get(self, key: str) -> bytes | None:
        found: bytes | None = await self._ask("get", key)
        return found

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        found: list[bytes | None] = await self._ask("get_each", list(keys))
        return found

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = await self._ask(
            "get_like", prefix, after=after, limit=limit
        )
        return found

    @override
    async def remove_like(self, prefix: str) -> int:
        removed: int = await self._ask("remove_like", prefix)
        return removed

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await self._ask("execute_atomically", list(operations))

    @override
    async def create_each(self, items: Sequence[tuple[str, bytes]]) -> list[CreateOutcome]:
        outcomes: list[CreateOutcome] = await self._ask("create_each", list(items))
        return outcomes

    @override
    async def close(self) -> None:
        """Nothing is held here; the host closes its store when it ends."""
