"""A map whose pages are mostly elsewhere has the entries that a dictionary has."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from tierledger.events.tables import paged_map
from tierledger.events.tables.paged_map import PagedMap, StoredPage
from tierledger.events.tables.spilled_map import Spill, SpilledMap
from tierledger.simulation.service.spill import DictSpillStore, small_spill

KEYS = st.integers(0, 30)


class FullStore(DictSpillStore):
    """One that has room only at times."""

    has_room = True

    @override
    def put(self, packed: bytes) -> int | None:
        return super().put(packed) if self.has_room else None


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paged_map, "PAGE_ENTRIES_MAX", 4)
        yield


class Spilling(RuleBasedStateMachine):
    """Two maps with one spill, one of them read again from what it stored; and a snapshot."""

    @initialize(open_max=st.integers(1, 3))
    def begin(self, open_max: int) -> None:
        self.store = FullStore()
        self.spill = Spill(self.store, open_max)
        self.maps: list[SpilledMap[int, bytes]] = [SpilledMap(self.spill) for _ in range(2)]
        self.expected: list[dict[int, bytes]] = [{}, {}]
        self.snapshot: tuple[PagedMap[int, bytes], dict[int, bytes]] = (PagedMap(), {})
        self.was_full = False

    @rule(which=st.integers(0, 1), key=KEYS, value=st.binary(max_size=2))
    def set(self, which: int, key: int, value: bytes) -> None:
        self.maps[which].set(key, value)
        self.expected[which][key] = value

    @rule(which=st.integers(0, 1), key=KEYS)
    def append(self, which: int, key: int) -> None:
        is_last = key > max(self.expected[which], default=-1)
        assert self.maps[which].append(key, b"last") == is_last
        if is_last:
            self.expected[which][key] = b"last"

    @rule(which=st.integers(0, 1), key=KEYS)
    def delete(self, which: int, key: int) -> None:
        was_there = self.expected[which].pop(key, None) is not None
        assert self.maps[which].delete(key) == was_there

    @rule(which=st.integers(0, 1), key=KEYS)
    def look(self, which: int, key: int) -> None:
        assert self.maps[which].get(key) == self.expected[which].get(key)

    @rule(which=st.integers(0, 1))
    def freeze(self, which: int) -> None:
        self.snapshot = (self.maps[which].freeze(whole=True), dict(self.expected[which]))

    @rule(which=st.integers(0, 1), at_once=st.integers(1, 3))
    def read_again(self, which: int, at_once: int) -> None:
        stored = [
            StoredPage(page.number, page.first, page.size, page.proof, page.pack())
            for page in self.maps[which].pages
        ]
        self.maps[which] = SpilledMap(self.spill)
        for start in range(0, len(stored), at_once):
            self.maps[which].adopt(stored[start : start + at_once])

    @rule(has_room=st.booleans())
    def fill(self, *, has_room: bool) -> None:
        self.store.has_room = has_room
        self.was_full |= not has_room

    @invariant()
    def few_pages_are_open(self) -> None:
        opened = {page for one in self.maps for page in one.pages if page.packed is None}
        assert opened <= set(self.spill._open), "each can be closed"
        assert self.was_full or len(opened) <= self.spill.open_max

    @override
    def teardown(self) -> None:
        frozen, then = self.snapshot
        assert dict(frozen.items()) == then
        for one, expected in zip(self.maps, self.expected, strict=True):
            assert dict(one.items()) == expected
            one.check()
        self.maps, self.snapshot = [], (PagedMap(), {})
        self.spill._open.clear()
        del one, frozen
        gc.collect()
        assert self.store.pages == {}, "nothing is left of maps that are gone"


TestSpilling = Spilling.TestCase


@given(st.sets(st.integers(0, 200), min_size=30))
def test_what_was_only_read_is_not_stored_twice(keys: set[int]) -> None:
    spill = small_spill()
    one: SpilledMap[int, bytes] = SpilledMap(spill)
    for key in sorted(keys):
        one.set(key, b"x")
    store = spill.store
    assert isinstance(store, DictSpillStore)
    list(one.items())
    before = store._last

    assert [key for key, _ in one.items()] == sorted(keys)

    assert store._last == before
    assert len(store.pages) == len(one.pages), "also the open one, unless it was changed"
