"""Ranges of offsets, held against counting each offset."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tierledger.cli.pages.report.intervals import Claim, common, merged, owned

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


@given(ranges)
def test_every_offset_belongs_to_the_highest_claim(some: list[tuple[int, int]]) -> None:
    claims = [Claim(start, end, (0, at), at) for at, (start, end) in enumerate(some)]

    found = {
        offset: part.owner
        for part in owned(claims)
        for offset in range(part.start, part.end + 1)
    }

    assert found == {
        offset: max(at for at, (start, end) in enumerate(some) if start <= offset <= end)
        for offset in offsets(some)
    }
