"""A sorted map in pages: fast with a million entries, to snapshot, and to store in part.

Rule 1: only its owner changes a page. `snapshot()` makes every page shared, and the first
change of a page afterwards copies it. So a snapshot copies one list of pages, without a pause.
Rule 2: a page read from the store stays packed bytes until it is accessed.
Rule 3: `changed` and `dropped` have the numbers of pages that a checkpoint has to write.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgpack

PAGE_ENTRIES_MAX = 512
"""Entries of a full page: about 12 KiB stored, 1 µs to copy, and 2,000 pages per million."""

K = TypeVar("K", int, bytes)
V = TypeVar("V")

_pack = msgpack.Packer(autoreset=True).pack


class StoredPage(NamedTuple):
    """One page as a directory and a store have it."""

    number: int
    first: Any
    size: int
    proof: int
    packed: bytes


class Page(Generic[K, V]):
    """A run of successive entries, stored under a number that never changes."""

    __slots__ = (
        "_keys",
        "_values",
        "first",
        "number",
        "owner",
        "packed",
        "proof",
        "size",
        "summary",
    )

    def __init__(self, number: int, owner: object, keys: list[K], values: list[V]) -> None:
        self.number = number
        self.owner = owner
        self.first: K = keys[0]
        self.size = len(keys)
        self.packed: bytes | None = None
        self.summary: Any = None  # A reader's derived value; reset when the page changes.
        self.proof = 0  # Checksum of the stored page; valid unless the page is in `changed`.
        self._keys: list[K] = keys
        self._values: list[V] = values

    @classmethod
    def stored(cls, stored: StoredPage, owner: object) -> Self:
        """A page that stays packed until it is accessed."""
        page = cls.__new__(cls)
        page.number, page.first, page.size, page.proof, page.packed = stored
        page.owner, page.summary = owner, None
        return page

    @property
    def keys(self) -> list[K]:
        """The keys, ascending."""
        if self.packed is not None:
            self._unpack()
        return self._keys

    @property
    def values(self) -> list[V]:
        """The values, in the order of the keys."""
        if self.packed is not None:
            self._unpack()
        return self._values

    def _unpack(self) -> None:
        assert self.packed is not None, "an unpacked page has its entries"
        self._keys, self._values = msgpack.unpackb(self.packed, strict_map_key=False)
        self.packed = None

    def pack(self) -> bytes:
        """The page as it is stored: msgpack of keys and values."""
        if self.packed is not None:
            return self.packed
        return _pack((self._keys, self._values))

    def copy(self, owner: object) -> Page[K, V]:
        return Page(self.number, owner, list(self.keys), list(self.values))


class PagedMap(Generic[K, V]):
    """A sorted map from integers or byte strings, in pages of at most 512 entries."""

    __slots__ = ("_firsts", "_owner", "_pages", "changed", "dropped", "next_number")

    def __init__(self) -> None:
        self._owner = object()
        self._firsts: list[K] = []
        self._pages: list[Page[K, V]] = []
        self.next_number = 0
        self.changed: set[int] = set()
        self.dropped: set[int] = set()

    def __len__(self) -> int:
        return sum(page.size for page in self._pages)

    @property
    def pages(self) -> list[Page[K, V]]:
        """The pages in order; not to be changed."""
        return self._pages

    def get(self, key: K) -> V | None:
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return None
        page = self._pages[at]
        keys = page.keys
        i = bisect_left(keys, key)
        return page.values[i] if i < len(keys) and keys[i] == key else None

    def __contains__(self, key: K) -> bool:
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return False
        keys = self._pages[at].keys
        i = bisect_left(keys, key)
        return i < len(keys) and keys[i] == key

    def floor(self, key: K) -> tuple[K, V] | None:
        """The entry with the greatest key that is at most `key`."""
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return None
        page = self._pages[at]
        if page.packed is not None:
            page._unpack()
        keys = page._keys
        i = bisect_right(keys, key) - 1
        return keys[i], page._values[i]

    def below(self, key: K) -> tuple[K, V] | None:
        """The entry just before `key`."""
        at = bisect_left(self._firsts, key) - 1
        if at < 0:
            return None
        page = self._pages[at]
        i = bisect_left(page.keys, key) - 1
        return page.keys[i], page.values[i]

    def above(self, key: K) -> tuple[K, V] | None:
        """The entry just after `key`."""
        at = max(bisect_right(self._firsts, key) - 1, 0)
        for page in self._pages[at : at + 2]:
            i = bisect_right(page.keys, key)
            if i < page.size:
                return page.keys[i], page.values[i]
        return None

    def last(self) -> tuple[K, V] | None:
        """The entry with the greatest key."""
        if not self._pages:
            return None
        page = self._pages[-1]
        return page.keys[-1], page.values[-1]

    def page_at(self, key: K) -> int:
        """The index in `pages` of the page whose range holds `key`; -1 before the first."""
        return bisect_right(self._firsts, key) - 1

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries, ascending. The map must not change meanwhile: iterate a snapshot."""
        for page in self._pages:
            yield from zip(page.keys, page.values, strict=True)

    def items_behind(self, key: K) -> Iterator[tuple[K, V]]:
        """The entries with larger keys, ascending. The map must not change meanwhile."""
        for page in self._pages[max(self.page_at(key), 0) :]:
            for at, value in zip(page.keys, page.values, strict=True):
                if at > key:
                    yield at, value

    def items_from(self, skipped: int) -> Iterator[tuple[K, V]]:
        """The entries after the first `skipped`, which must end at a page's boundary."""
        for page in self._pages:
            if skipped >= page.size:
                skipped -= page.size
                continue
            yield from zip(page.keys, page.values, strict=True)

    # The methods below run for every event of every log, so they are inlined to save calls.

    def set(self, key: K, value: V) -> None:
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            if not self._pages:
                self._insert_page(0, [key], [value])
                return
            at = 0
        page = self._pages[at]
        if page.owner is not self._owner or page.packed is not None:
            page = self._own(at)
        page.summary = None
        self.changed.add(page.number)
        keys = page._keys
        i = bisect_right(keys, key)
        if i and keys[i - 1] == key:
            page._values[i - 1] = value
            return
        keys.insert(i, key)
        page._values.insert(i, value)
        page.size += 1
        if i == 0:
            page.first = self._firsts[at] = key
        if page.size > PAGE_ENTRIES_MAX:
            self._split(at, page)

    def append(self, key: K, value: V) -> bool:
        """Add an entry after all others; false, without a change, if `key` is not the last."""
        pages = self._pages
        if not pages:
            self._insert_page(0, [key], [value])
            return True
        page = pages[-1]
        if page.packed is not None:
            page._unpack()
        if page._keys[-1] >= key:
            return False
        if page.owner is not self._owner:
            page = self._own(len(pages) - 1)
        page.summary = None
        self.changed.add(page.number)
        page._keys.append(key)
        page._values.append(value)
        page.size += 1
        if page.size > PAGE_ENTRIES_MAX:
            self._split(len(pages) - 1, page)
        return True

    def delete(self, key: K) -> bool:
        """Remove `key`; returns whether it was there."""
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return False
        page = self._pages[at]
        if page.packed is not None:
            page._unpack()
        keys = page._keys
        i = bisect_right(keys, key) - 1
        if keys[i] != key:
            return False
        if page.size == 1:
            del self._firsts[at], self._pages[at]
            self.changed.discard(page.number)
            self.dropped.add(page.number)
            return True
        if page.owner is not self._owner:
            page = self._own(at)
            keys = page._keys
        page.summary = None
        self.changed.add(page.number)
        del keys[i], page._values[i]
        page.size -= 1
        if i == 0:
            page.first = self._firsts[at] = keys[0]
        return True

    def snapshot(self) -> PagedMap[K, V]:
        """A copy of the present map; later changes of either do not affect the other."""
        copy = self._empty()
        copy._firsts = list(self._firsts)
        copy._pages = list(self._pages)
        copy.next_number = self.next_number
        self._owner = object()  # Both maps now copy a page before they change it.
        return copy

    def freeze(self, *, whole: bool = False) -> PagedMap[K, V]:
        """A snapshot that takes over the pages a checkpoint has to write; all if `whole`."""
        copy = self.snapshot()
        copy.changed, self.changed = self.changed, set()
        copy.dropped, self.dropped = self.dropped, set()
        if whole:
            copy.changed = {page.number for page in self._pages}
        return copy

    def adopt(self, pages: Iterable[StoredPage]) -> None:
        """Fill this map, which has nothing but what it adopted, with stored pages."""
        loaded = self._pages
        loaded += map(self._adopted, pages)
        loaded.sort(key=lambda page: page.first)
        self._firsts = [page.first for page in loaded]
        self.next_number = max((page.number for page in loaded), default=-1) + 1

    def _empty(self) -> PagedMap[K, V]:
        """A map that keeps its pages where this one does."""
        return PagedMap()

    def _adopted(self, stored: StoredPage) -> Page[K, V]:
        return Page.stored(stored, self._owner)

    def _new_page(self, number: int, keys: list[K], values: list[V]) -> Page[K, V]:
        return Page(number, self._owner, keys, values)

    def dismantle(self) -> Iterator[None]:
        """Free all pages, one per step."""
        while self._pages:
            self._pages.pop()
            yield

    def directory(self) -> list[list[Any]]:
        """For each page number, first key, size and checksum, as `adopt` needs them."""
        return [[page.number, page.first, page.size, page.proof] for page in self._pages]

    def check(self) -> None:
        """Assert the invariants that hold between any two changes."""
        flat = [key for page in self._pages for key in page.keys]
        assert flat == sorted(set(flat)), "keys ascend and are unique"
        assert self._firsts == [page.keys[0] for page in self._pages], "firsts match"
        assert len(flat) == len(self), "the pages know their sizes"
        assert len({page.number for page in self._pages}) == len(self._pages), "numbers differ"

    def _own(self, at: int) -> Page[K, V]:
        """The page at `at`, unpacked and not shared; the caller has to mark it as changed."""
        page = self._pages[at]
        if page.owner is not self._owner:
            page = self._pages[at] = page.copy(self._owner)
        elif page.packed is not None:
            page._unpack()
        return page

    def _insert_page(self, at: int, keys: list[K], values: list[V]) -> None:
        # A small table empties and fills again all the time: reuse its page's key.
        if self.dropped:
            number = self.dropped.pop()
        else:
            number = self.next_number
            self.next_number += 1
        page = self._new_page(number, keys, values)
        self._pages.insert(at, page)
        self._firsts.insert(at, page.first)
        self.changed.add(page.number)

    def _split(self, at: int, page: Page[K, V]) -> None:
        # The last page overflows as the log grows at its end: leave it full.
        cut = PAGE_ENTRIES_MAX if at == len(self._pages) - 1 else PAGE_ENTRIES_MAX // 2
        keys, values = page.keys, page.values
        behind = keys[cut:], values[cut:]
        del keys[cut:], values[cut:]
        page.size = len(keys)
        self._insert_page(at + 1, *behind)  # Last, as it may take this page out of memory.
