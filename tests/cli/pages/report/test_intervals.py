"""Ranges of offsets, held against counting each offset."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tierledger.cli.pages.report.intervals import common, merged

ranges = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda one: (one[0], one[0] + one[1])),
    max_size=8,
)


def offsets(found: Sequence[tuple[int, int]]) -> list[int]:
    return [offset for start, end in found for offset in range(start, end + 1)]


@given(ranges)
def test_a_union_is_what_counting_offsets_gives(some: list[tuple[int, int]]) -> None:
    assert offsets(merged(some)) == sorted(set(offsets(some)))


@given(ranges, ranges)
def test_common_offsets_are_counted_once(
    some: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    both = set(offsets(some)) & set(offsets(others))

    assert common(merged(some), merged(others)) == len(both)
