"""A paged map is a sorted dictionary, to its readers, its snapshots and its store."""

from typing import Any, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)
from typing_extensions import override

from tierledger.events.tables.paged_map import PAGE_ENTRIES_MAX, PagedMap, StoredPage

KEYS = st.integers(-2_000, 2_000)
VALUES = st.integers(0, 9)

Pair: TypeAlias = "tuple[PagedMap[Any, int], dict[Any, int]]"


class PagedMapMachine(RuleBasedStateMachine):
    """Maps and their dictionaries; a snapshot may be changed as well as its origin."""

    maps: Bundle[Pair] = Bundle("maps")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Pair] = []

    def key(self, number: int) -> Any:  # noqa: ANN401 - Integers here, bytes in a subclass.
        return number

    def known(self, one: PagedMap[Any, int], model: dict[Any, int]) -> Pair:
        self.all.append((one, model))
        return self.all[-1]

    @initialize(target=maps)
    def start(self) -> Pair:
        return self.known(PagedMap(), {})

    @rule(pair=maps, number=KEYS, value=VALUES)
    def set_one(self, pair: Pair, number: int, value: int) -> None:
        one, model = pair
        one.set(self.key(number), value)
        model[self.key(number)] = value

    @rule(
        pair=maps,
        first=KEYS,
        size=st.integers(1, PAGE_ENTRIES_MAX + 100),
        stride=st.sampled_from([1, 2, 3, -1, -2]),
        value=VALUES,
    )
    def set_run(self, pair: Pair, first: int, size: int, stride: int, value: int) -> None:
        one, model = pair
        for number in range(first, first + size * stride, stride):
            one.set(self.key(number), value)
            model[self.key(number)] = value

    @rule(pair=maps, number=KEYS)
    def delete_one(self, pair: Pair, number: int) -> None:
        one, model = pair
        assert one.delete(self.key(number)) == (model.pop(self.key(number), None) is not None)

    @rule(pair=maps, first=KEYS, size=st.integers(1, 2 * PAGE_ENTRIES_MAX))
    def delete_run(self, pair: Pair, first: int, size: int) -> None:
        one, model = pair
        for number in range(first, first + size):
            known = model.pop(self.key(number), None) is not None
            assert one.delete(self.key(number)) == known

    @rule(pair=maps, target=maps)
    def take_snapshot(self, pair: Pair) -> Pair:
        one, model = pair
        return self.known(one.snapshot(), dict(model))

    @rule(pair=consumes(maps), target=maps)
    def store_and_adopt(self, pair: Pair) -> Pair:
        one, model = pair
        adopted: PagedMap[Any, int] = PagedMap()
        adopted.adopt(
            StoredPage(number, first, size, proof, page.pack())
            for (number, first, size, proof), page in zip(
                one.directory(), one.pages, strict=True
            )
        )
        return self.known(adopted, dict(model))

    @rule(pair=maps, number=KEYS)
    def look(self, pair: Pair, number: int) -> None:
        one, model = pair
        key = self.key(number)
        below = max((other for other in model if other < key), default=None)
        above = min((other for other in model if other > key), default=None)
        at = key if key in model else None

        assert one.get(key) == model.get(key)
        assert (key in one) == (key in model)
        assert one.floor(key) == _entry(model, below if at is None else at)
        assert one.below(key) == _entry(model, below)
        assert one.above(key) == _entry(model, above)
        assert one.last() == _entry(model, max(model, default=None))

    @invariant()
    def each_map_is_its_dictionary(self) -> None:
        for one, model in self.all:
            one.check()
            assert len(one) == len(model)
            assert dict(one.items()) == model

    @invariant()
    def pages_are_no_larger_than_they_may_be(self) -> None:
        for one, _ in self.all:
            assert all(0 < page.size <= PAGE_ENTRIES_MAX for page in one.pages)


class BytesKeyMachine(PagedMapMachine):
    """The same with the keys of ids and intervals."""

    @override
    def key(self, number: int) -> Any:
        return (number + 2_000).to_bytes(8, "big", signed=True) + b"\xff" * (number % 3)


class CheckpointMachine(RuleBasedStateMachine):
    """A store that is only ever told of `changed` and `dropped` holds the map all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.map: PagedMap[int, int] = PagedMap()
        self.model: dict[int, int] = {}
        self.store: dict[int, bytes] = {}
        self.directory: list[list[Any]] = []

    @rule(first=KEYS, size=st.integers(1, 700), stride=st.integers(1, 3), value=VALUES)
    def set_run(self, first: int, size: int, stride: int, value: int) -> None:
        for key in range(first, first + size * stride, stride):
            self.map.set(key, value)
            self.model[key] = value

    @rule(first=KEYS, size=st.integers(1, 900))
    def delete_run(self, first: int, size: int) -> None:
        for key in range(first, first + size):
            self.map.delete(key)
            self.model.pop(key, None)

    @rule()
    def read_through_a_snapshot(self) -> None:
        assert dict(self.map.snapshot().items()) == self.model

    @rule()
    def checkpoint(self) -> None:
        by_number = {page.number: page for page in self.map.pages}
        assert self.map.changed <= by_number.keys()
        assert not self.map.changed & self.map.dropped
        for number in self.map.changed:
            self.store[number] = by_number[number].pack()
        for number in self.map.dropped:
            self.store.pop(number, None)
        self.map.changed.clear()
        self.map.dropped.clear()
        self.directory = self.map.directory()
        assert self.store.keys() == by_number.keys()

    @rule()
    def checkpoint_and_start_again(self) -> None:
        self.checkpoint()
        self.map = PagedMap()
        self.map.adopt(
            StoredPage(number, first, size, proof, self.store[number])
            for number, first, size, proof in self.directory
        )

    @invariant()
    def the_map_is_its_dictionary(self) -> None:
        assert len(self.map) == len(self.model)

    @override
    def teardown(self) -> None:
        self.checkpoint_and_start_again()
        self.map.check()
        assert dict(self.map.items()) == self.model


def _entry(model: dict[Any, int], key: Any) -> tuple[Any, int] | None:  # noqa: ANN401
    return None if key is None else (key, model[key])


SHORT = settings(stateful_step_count=20)

TestPagedMap = PagedMapMachine.TestCase
TestPagedMap.settings = SHORT
TestPagedMapOfBytes = BytesKeyMachine.TestCase
TestPagedMapOfBytes.settings = SHORT
TestCheckpointedMap = CheckpointMachine.TestCase
TestCheckpointedMap.settings = SHORT
