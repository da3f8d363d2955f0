"""A store in memory that several services share, each through a connector that can fail.

Settings name it like any other store: `settings("orders")` for one process, and
`settings("orders", side="b")` for another, which shares the values but not the faults.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from sortedcontainers import SortedDict
from typing_extensions import override

from tierledger.events.errors import OutcomeUnknown, RemoteStorageError
from tierledger.storage.backend import (
    NO_FORMERS,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
)
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.connector import CONNECTOR_SETTING, MetadataStorageConnector
from tierledger.storage.keys import DefaultMetadataKeyFactory, MetadataKeyFactory

T = TypeVar("T")


class Faults:
    """The faults of the store as one side sees it; a test may change them at any time."""

    def __init__(self) -> None:
        self.refuse_writes: RemoteStorageError | None = None
        self.refuse_reads: RemoteStorageError | None = None
        self.refused = 0
        self.replies_to_lose = 0
        """The number of next writes that are carried out and whose answers are lost."""
        self.passes = asyncio.Event()
        self.passes.set()
        self.unforeseen: str | None = None
        """Listings whose prefix begins so raise an exception that no store should raise."""
        self.held = 0
        """The number of calls that were held by `freeze`."""
        self.open = 0
        """The number of backends that were opened and not closed."""

    def freeze(self) -> None:
        """Hold all calls until `thaw`, also those that have begun and are not carried out."""
        self.passes.clear()

    def thaw(self) -> None:
        self.passes.set()


VALUES: dict[str, SortedDict[str, bytes]] = {}
FAULTS: dict[tuple[str, str], Faults] = {}


def settings(name: str, side: str = "a") -> dict[str, str]:
    return {
        CONNECTOR_SETTING: f"{__name__}:FaultyConnector",
        "test.store": name,
        "test.side": side,
    }


def values(name: str) -> SortedDict[str, bytes]:
    return VALUES.setdefault(name, SortedDict())


def faults(name: str, side: str = "a") -> Faults:
    return FAULTS.setdefault((name, side), Faults())


class FaultyBackend(MetadataStorageBackend):
    """A memory store whose calls suffer `Faults`."""

    def __init__(self, store: MemoryBackend, given: Faults) -> None:
        self._store = store
        self._faults = given

    async def _read(self, work: Callable[[], Awaitable[T]]) -> T:
        await self._pass(self._faults.refuse_reads)
        return await work()

    async def _write(self, work: Callable[[], Awaitable[T]]) -> T:
        await self._pass(self._faults.refuse_writes)
        result = await work()
        if self._faults.replies_to_lose:
            self._faults.replies_to_lose -= 1
            raise OutcomeUnknown("the answer was lost")
        return result

    async def _pass(self, error: RemoteStorageError | None) -> None:
        await asyncio.sleep(0)  # Other tasks run, as with a remote store.
        if not self._faults.passes.is_set():
            self._faults.held += 1
            await self._faults.passes.wait()
        if error is not None:
            self._faults.refused += 1
            raise error

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        return await self._read(lambda: self._store.get_each(keys))

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        if self._faults.unforeseen is not None and prefix.startswith(self._faults.unforeseen):
            raise RuntimeError("a bug of the store's driver")
        return await self._read(lambda: self._store.get_like(prefix, after=after, limit=limit))

    @override
    async def get_firsts(
        self, prefix: str, levels: int, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        return await self._read(
            lambda: self._store.get_firsts(prefix, levels, after=after, limit=limit)
        )

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        return await self._read(lambda: self._store.last_keys(prefixes))

    @override
    async def remove_like(self, prefix: str) -> int:
        return await self._write(lambda: self._store.remove_like(prefix))

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await self._write(lambda: self._store.execute_atomically(operations))

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        return await self._write(lambda: self._store.create_each(items, formers))

    @override
    async def close(self) -> None:
        self._faults.open -= 1
        await self._store.close()


class FaultyConnector(MetadataStorageConnector):
    """Connects to the store and the side that its settings name."""

    @override
    def configure(self, config: Mapping[str, object]) -> None:
        self._name, self._side = str(config["test.store"]), str(config["test.side"])

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        store = MemoryBackend(values(self._name), read_only=read_only)
        found = faults(self._name, self._side)
        found.open += 1
        return FaultyBackend(store, found)

    @override
    def key_factory(self, cluster_id: str) -> MetadataKeyFactory:
        return DefaultMetadataKeyFactory(cluster_id)
