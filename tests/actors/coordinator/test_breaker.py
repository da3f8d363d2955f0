"""When brokers delete too much of the tier within an hour, a hold is due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierledger.actors.calls import HostPing
from tierledger.actors.coordinator.breaker import Breaker

MINUTE_MS = 60_000


def ping(let_go: int, tiered: int, process: str = "host-0/1/p") -> HostPing:
    return HostPing(process, let_go_bytes=let_go, tiered_bytes=tiered)


def told(breaker: Breaker, *pings: HostPing, every_ms: int = 200) -> bool:
    """Whether the breaker breaks after the last of these pings of one host."""
    for number, one in enumerate(pings):
        breaker.reported("host-0", one, number * every_ms)
    return breaker.broken() is not None


@pytest.mark.parametrize(
    ("percent", "floor", "let_go", "is_broken"),
    [
        (50, 0, 500, False),
        (50, 0, 501, True),
        (80, 0, 501, False),
        (100, 0, 1000, False),
        (0, 0, 1000, False),
        (50, 700, 700, False),
        (50, 700, 701, True),
    ],
)
def test_it_breaks_above_the_share_and_the_floor(
    percent: int, floor: int, let_go: int, is_broken: bool
) -> None:
    breaker = Breaker(percent, floor)

    assert told(breaker, ping(0, 1000), ping(let_go, 1000 - let_go)) is is_broken


def test_what_came_and_went_between_two_pings_was_in_the_tier() -> None:
    assert not told(Breaker(50, 0), ping(0, 0), ping(300, 300))
    assert told(Breaker(50, 0), ping(0, 0), ping(301, 300))


def test_the_hold_tells_the_arithmetic_and_is_about_everything() -> None:
    breaker = Breaker(50, 0)
    assert told(breaker, ping(7, 1000), ping(607, 400))
    hold = breaker.broken()

    assert hold is not None
    assert (hold.name, hold.topic, hold.term_ms, hold.until_ms) == ("breaker", "*", None, None)
    assert hold.reason == "brokers deleted 600 of 1000 bytes within an hour, more than 50 %"
    breaker.begin_anew()
    assert breaker.broken() is None
    breaker.reported("host-0", ping(607, 400), 0)
    assert breaker.broken() is None, "what was let go before does not count again"


def test_what_is_older_than_an_hour_does_not_count() -> None:
    slow = [ping(10 * number, 1000) for number in range(200)]

    assert not told(Breaker(60, 0), *slow, every_ms=MINUTE_MS), "1 % a minute"
    assert told(Breaker(59, 0), *slow, every_ms=MINUTE_MS)


def test_a_process_that_is_heard_first_or_replaces_another_adds_nothing_of_before() -> None:
    breaker = Breaker(50, 0)

    assert not told(breaker, ping(900, 1000), ping(950, 950), ping(900, 10, "host-0/2/p"))
    assert told(breaker, ping(901, 10, "host-0/2/p"), ping(1400, 10, "host-0/2/p"))


def test_a_host_that_ended_does_not_count_beside_its_successor() -> None:
    breaker = Breaker(50, 0)
    assert not told(breaker, ping(0, 1000))

    breaker.know({"host-1"})
    for let_go in (0, 501):
        moved = ping(let_go, 1000 - let_go, "host-1/2/p")
        breaker.reported("host-1", moved, 1)

    assert breaker.broken() is not None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300)), max_size=20))
def test_it_breaks_just_when_more_than_the_share_went_from_all_hosts(
    steps: list[tuple[int, int]],
) -> None:
    breaker, gone, left = Breaker(50, 0), [0, 0, 0], [500, 500, 500]
    for host in range(3):
        breaker.reported(f"host-{host}", ping(0, 500), 0)
    for host, size in steps:
        step = min(size, left[host])
        gone[host] += step
        left[host] -= step
        breaker.reported(f"host-{host}", ping(gone[host], left[host]), 1)

        assert (breaker.broken() is not None) is (sum(gone) > 750)
