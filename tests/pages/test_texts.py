"""Numbers, times and places as pages write them."""

from tierledger.pages.drawing import placed
from tierledger.pages.texts import exact, size_text, span_text, visible


def test_what_does_not_print_is_spelled_out() -> None:
    assert visible("a\x00\u202e\ud800b<&") == "a\\u0000\\u202e\\ud800b<&"
    assert visible("žluťoučký 名前") == "žluťoučký 名前"


def test_numbers_a_browser_would_round_travel_as_text() -> None:
    assert exact(2**53 - 1) == 2**53 - 1
    assert exact(2**53) == str(2**53)
    assert exact(None) is None


def test_sizes_and_spans_are_readable() -> None:
    assert [size_text(one) for one in (0, 1023, 1024, 2**20 - 1, 3 << 30, 2**63)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.0 MiB",
        "3.0 GiB",
        "8.0 EiB",
    ]
    assert [span_text(one) for one in (999, 1500, 61_000, 7_500_000)] == [
        "999 ms",
        "1 s",
        "1 min 1 s",
        "2 h 5 min",
    ]


def test_a_box_stays_within_its_drawing_however_thin_it_is() -> None:
    assert placed(0, 9, (0, 9)) == ("0%", "100%")
    assert placed(5, 9, (0, 9)) == ("50%", "50%")
    assert placed(10**9, 10**9, (0, 10**9)) == ("99.95%", "0.05%")
