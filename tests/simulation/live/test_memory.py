"""What the memory of a live service's hosts is judged by."""

import os

import pytest

from tierledger.simulation.live.memory import MemoryGrowth, grown, memory_of


def test_both_ends_of_a_run_are_compared_without_its_warm_up() -> None:
    warm_up = [(float(at), 10) for at in range(10)]
    steady = [(float(at), 100) for at in range(10, 60)]
    end = [(float(at), 106) for at in range(60, 101)]
    found = grown([*warm_up, *steady, *end])

    assert found == MemoryGrowth(100, 106)
    assert found.share == pytest.approx(0.06)


def test_a_short_run_says_nothing() -> None:
    assert grown([]) is None
    assert grown([(0.0, 1), (5.0, 1), (10.0, 1)]) is None


def test_the_memory_of_a_process_is_what_it_has_for_itself() -> None:
    before = memory_of(os.getpid())
    taken = bytearray(32 << 20)
    taken[::4096] = b"x" * (len(taken) // 4096)
    after = memory_of(os.getpid())

    assert before is not None
    assert after is not None
    assert 30 << 20 < after - before < 40 << 20
    assert memory_of(0) is None
