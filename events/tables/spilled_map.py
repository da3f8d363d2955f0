"""A sorted map whose pages are in memory only while they are in use.

Rule: a page that is not open has its bytes in the `SpillStore` of its process, and nowhere
else in memory. So what is seldom asked for takes memory by its page, not by its entry.
"""

from __future__ import annotations

from typing import Any, Protocol

from typing_extensions import override

from tierledger.events.tables.paged_map import K, Page, PagedMap, StoredPage, V

OPEN_MAX = 32
"""Pages of a process that are open; with large values 10 MB."""

_SPILLED = object()
"""In `Page.summary` of an open page: the store has it as it is. A change resets the summary."""


class SpillStore(Protocol):
    """Takes packed pages out of memory, for the life of the process."""

    def put(self, packed: bytes) -> int | None:
        """Keep `packed`; its number, or None if there is no room, so that it stays here."""
        ...

    def get(self, number: int) -> bytes:
        """What was kept under `number`."""
        ...

    def drop(self, number: int) -> None:
        """Forget `number`. May be called from any thread."""
        ...


class Spill:
    """A process's open pages, and the store of all others."""

    def __init__(self, store: SpillStore, open_max: int = OPEN_MAX) -> None:
        self.store = store
        self.open_max = open_max
        self._open: dict[SpilledPage[Any, Any], None] = {}
        """In the order in which they were opened."""

    def opened(self, page: SpilledPage[Any, Any]) -> None:
        """Note that `page` was opened, and close the ones that were opened first."""
        self._open[page] = None
        while len(self._open) > self.open_max:
            oldest = next(iter(self._open))
            del self._open[oldest]
            if not oldest.close():
                self._open[oldest] = None  # There is no room; the next call tries another.
                return


class SpilledPage(Page[K, V]):
    """A page; once it was closed, `packed` is empty, and its bytes are in the spill store."""

    __slots__ = ("_number", "_spill")

    _number: int | None
    """In the spill store, if it is there."""
    _spill: Spill

    @classmethod
    def made(
        cls, number: int, owner: object, keys: list[K], values: list[V], spill: Spill
    ) -> SpilledPage[K, V]:
        """An open page."""
        page = cls(number, owner, keys, values)
        page._number, page._spill = None, spill
        spill.opened(page)
        return page

    @classmethod
    def adopted(cls, stored: StoredPage, owner: object, spill: Spill) -> SpilledPage[K, V]:
        """A page that is in memory, packed, until it was opened once."""
        page = cls.stored(stored, owner)
        page._number, page._spill = None, spill
        return page

    def __del__(self) -> None:
        if self._number is not None:
            self._spill.store.drop(self._number)

    @override
    def _unpack(self) -> None:
        is_spilled = not self.packed
        self.packed = self.pack()
        super()._unpack()
        if is_spilled:
            self.summary = _SPILLED
        self._spill.opened(self)

    @override
    def pack(self) -> bytes:
        if self.packed is not None and not self.packed:
            assert self._number is not None, "a page that is not open is in the store"
            return self._spill.store.get(self._number)
        return super().pack()

    def close(self) -> bool:
        """Take an open page out of memory; false if there is no room for it elsewhere."""
        if self.packed is not None:
            return True
        if self.summary is not _SPILLED:
            number = self._spill.store.put(self.pack())
            if number is None:
                return False
            if self._number is not None:
                self._spill.store.drop(self._number)
            self._number = number
        self.packed, self._keys, self._values = b"", [], []
        return True

    @override
    def copy(self, owner: object) -> SpilledPage[K, V]:
        keys, values = list(self.keys), list(self.values)
        return SpilledPage[K, V].made(self.number, owner, keys, values, self._spill)


class SpilledMap(PagedMap[K, V]):
    """A sorted map from integers or byte strings, of which little is in memory."""

    __slots__ = ("_spill",)

    def __init__(self, spill: Spill) -> None:
        super().__init__()
        self._spill = spill

    @override
    def _empty(self) -> SpilledMap[K, V]:
        return SpilledMap(self._spill)

    @override
    def _new_page(self, number: int, keys: list[K], values: list[V]) -> Page[K, V]:
        return SpilledPage[K, V].made(number, self._owner, keys, values, self._spill)

    @override
    def _adopted(self, stored: StoredPage) -> Page[K, V]:
        return SpilledPage[K, V].adopted(stored, self._owner, self._spill)
