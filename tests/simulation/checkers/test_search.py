"""The checkers of order agree with brute force, which tries all orders and all pairs."""

import sys

import pytest

from tests.models.simulation.search_agreement import Agreement, compare


def assert_agreed(found: Agreement, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f" agreed {found.agreed} of {found.histories} ")
    assert found.disagreed[:1] == []
    for checker, right in found.right.items():
        share = right / found.histories
        assert 0.3 < share < 0.9, f"{share:.0%} were right to {checker}: too easy to agree on"


def test_sweep_and_search_agree_on_20_000_small_histories(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert_agreed(compare("search", 20_000), capsys)


@pytest.mark.long
def test_sweep_and_search_agree_on_a_million_small_histories(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert_agreed(compare("long search", 1_000_000), capsys)
