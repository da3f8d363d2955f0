"""A store in a sorted dictionary: for one process, for tests, and as a model of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from sortedcontainers import SortedDict
from typing_extensions import override

from tierledger.events.errors import StorageUnavailable, StoreRefused
from tierledger.storage.backend import (
    NO_FORMERS,
    AtomicConflict,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
    Remove,
    check_items,
    check_key,
    check_operations,
    check_page,
    check_prefix,
    conflict_of,
    folder_of,
    key_after,
    older_store,
)


class MemoryBackend(MetadataStorageBackend):
    """Keeps everything in `values`, with which another backend may continue after `close`."""

    def __init__(
        self, values: SortedDict[str, bytes] | None = None, *, read_only: bool = False
    ) -> None:
        self.values: SortedDict[str, bytes] = SortedDict() if values is None else values
        self._read_only = read_only
        self._closed = False
        self._older: StoreRefused | None = None

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        self._refuse_if_closed()
        for key in keys:
            check_key(key)
        return [self.values.get(key) for key in keys]

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        self._refuse_if_closed()
        check_page(prefix, after, limit)
        return [(key, self.values[key]) for key in islice(self._like(prefix, after), limit)]

    def _like(self, prefix: str, after: str | None = None) -> Iterator[str]:
        start, inclusive = prefix, True
        if after is not None and after >= prefix:
            start, inclusive = after, False
        # Python compares code points, whose order is that of UTF-8 bytes.
        return self.values.irange(start, key_after(prefix), (inclusive, False))

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        self._refuse_if_closed()
        for prefix in prefixes:
            check_prefix(prefix)
        return [self._last_key(prefix) for prefix in prefixes]

    def _last_key(self, prefix: str) -> str | None:
        ends = (prefix, key_after(prefix), (True, False), True)
        return next(self.values.irange(*ends), None)

    @override
    async def remove_like(self, prefix: str) -> int:
        self._refuse_to_write()
        check_prefix(prefix)
        keys = list(self._like(prefix))
        for key in keys:
            del self.values[key]
        return len(keys)

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        self._refuse_to_write()
        check_operations(operations)
        changes: dict[str, bytes | None] = {}
        for operation in operations:
            key = operation.key
            present = changes[key] if key in changes else self.values.get(key)
            why = conflict_of(operation, present)
            if why is not None:
                raise AtomicConflict(key, why)
            changes[key] = None if isinstance(operation, Remove) else operation.value
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        self._refuse_to_write()
        check_items(items)
        # Sorting is stable: of two items with one key, the first is created.
        order = sorted(range(len(items)), key=lambda at: items[at][0])
        outcomes = {at: self._create(*items[at]) for at in order}
        for at, outcome in outcomes.items():
            key = items[at][0]
            if outcome is CreateOutcome.CREATED and key in formers:
                self._require(formers[key], items, outcomes)
        return [outcomes[at] for at in range(len(items))]

    def _require(
        self,
        former: Former,
        items: Sequence[tuple[str, bytes]],
        outcomes: Mapping[int, CreateOutcome],
    ) -> None:
        """Check that `former` is there; if not, take back what was created."""
        value = self.values.get(former.key)
        if value is not None and value.startswith(former.beginning):
            return
        for at, outcome in outcomes.items():
            if outcome is CreateOutcome.CREATED:
                del self.values[items[at][0]]
        self._older = older_store("the store in memory", former.key)
        raise self._older

    def _create(self, key: str, value: bytes) -> CreateOutcome:
        if key in self.values:
            return CreateOutcome.EXISTS
        folder = folder_of(key)
        if folder is not None and (self._last_key(folder) or "") > key:
            return CreateOutcome.PASSED
        self.values[key] = value
        return CreateOutcome.CREATED

    @override
    async def close(self) -> None:
        self._closed = True

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StorageUnavailable("the store in memory is closed")

    def _refuse_to_write(self) -> None:
        self._refuse_if_closed()
        if self._read_only:
            raise StoreRefused("the store in memory was opened for reading only")
        if self._older is not None:
            raise StoreRefused(*self._older.args)
