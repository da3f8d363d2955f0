"""A multimap of integers, against a plain list of pairs."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierledger.events.tables import int_index
from tierledger.events.tables.int_index import IntIndex

KEYS = st.sampled_from([-(2**63), -5, -1, 0, 1, 2, 3, 7, 2**63 - 1])


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int_index, "CHUNK_MAX", 4)
        yield


@given(st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 3)), max_size=60))
def test_it_has_what_was_put_and_not_dropped(steps: list[tuple[bool, int, int]]) -> None:
    index, pairs = IntIndex(), list[tuple[int, int]]()
    for is_put, key, value in steps:
        if is_put:
            index.put(key, value)
            pairs.append((key, value))
        else:
            assert index.drop(key, value) == ((key, value) in pairs)
            if (key, value) in pairs:
                pairs.remove((key, value))
        for one in {key for key, _ in pairs} | {key}:
            assert sorted(index.of(one)) == sorted(v for k, v in pairs if k == one)

    assert [key for key, _ in index] == sorted(key for key, _ in pairs)
    assert sorted(index) == sorted(pairs)
    assert len(index) == len(pairs)
    first = index.first()
    assert (first is None) == (not pairs)
    assert first is None or (min(pairs)[0], first) in pairs
    for _ in index.dismantle():
        pass
    assert (len(index), list(index), index.of(1)) == (0, [], [])


def test_keys_that_ascend_leave_full_chunks_behind() -> None:
    index = IntIndex()
    for key in range(10):
        index.put(key, key)

    assert [len(chunk) for chunk in index._keys] == [4, 4, 2]
