"""Ranges, texts and places: what the report's drawings are made of."""

import json
import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tierledger.cli.report_intervals import Claim, common, merged, owned
from tierledger.cli.report_svg import place
from tierledger.cli.report_text import (
    escaped,
    exact,
    json_text,
    size_text,
    span_text,
    time_text,
)

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


def test_what_does_not_print_is_spelled_out() -> None:
    assert escaped("a\x00\u202e\ud800b<&\"'") == "a\\u0000\\u202e\\ud800b&lt;&amp;&quot;&#x27;"
    assert escaped("žluťoučký 名前") == "žluťoučký 名前"


def test_json_cannot_end_its_script() -> None:
    text = json_text(["</script><!--&\u2028"])

    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == ["</script><!--&\u2028"]


def test_numbers_a_browser_would_round_travel_as_text() -> None:
    assert exact(2**53 - 1) == 2**53 - 1
    assert exact(2**53) == str(2**53)
    assert exact(None) is None


def test_sizes_times_and_spans_are_readable() -> None:
    assert [size_text(one) for one in (0, 1023, 1024, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "3.0 GiB",
    ]
    assert time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert time_text(-1) == "1969-12-31 23:59:59.999"
    assert time_text(2**62) == f"{2**62} ms"
    assert [span_text(one) for one in (999, 1500, 61_000, 7_500_000)] == [
        "999 ms",
        "1 s",
        "1 min 1 s",
        "2 h 5 min",
    ]


def test_a_bar_stays_within_its_drawing_however_thin_it_is() -> None:
    assert place(0, 9, (0, 9)) == 'x="0%" width="100%"'
    assert place(5, 9, (0, 9)) == 'x="50%" width="50%"'
    assert place(10**9, 10**9, (0, 10**9)) == 'x="99.95%" width="0.05%"'
