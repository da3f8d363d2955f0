"""What is noted of the service's processes, from outside."""

import pytest

from tierledger.actors.coordinator.machine import DOUBT_S
from tierledger.simulation.machines.environment.clockwork import ProcessLife
from tierledger.simulation.service.process_watch import KnockedDoors, ObservedKnock

S = 1_000_000_000
DOUBT = int(DOUBT_S * S)
LATER = 4 * S + DOUBT


def doors(*knocks: tuple[int, str, bool], is_first_dead: bool = False) -> KnockedDoors:
    """The knocks at the door of `host-0`, and two coordinators, begun after 1 s and 3 s."""
    found = KnockedDoors()
    found.knocks["host-0"] = [
        ObservedKnock(at * S, name, opens=opens) for at, name, opens in knocks
    ]
    first, second = ProcessLife("coordinator", 1), ProcessLife("coordinator", 2)
    first.is_dead = is_first_dead
    found.coordinators = [(1 * S, first), (3 * S, second)]
    return found


FIRST, SECOND, NEIGHBOUR = "coordinator/1", "coordinator/2", "host-1/5"
STARTED = (0, "", True)


@pytest.mark.parametrize(
    ("knocks", "until", "is_open"),
    [
        ([STARTED, (2, FIRST, True), (4, SECOND, True)], LATER, True),
        ([STARTED, (2, FIRST, True), (4, SECOND, True)], LATER - 1, False),
        ([STARTED, (2, FIRST, True)], 2 * S + DOUBT, False),
        ([STARTED, (2, FIRST, True), (4, SECOND, True), (5, NEIGHBOUR, False)], LATER, False),
        ([STARTED, (2, FIRST, True), (4, SECOND, True), (5, "", True)], LATER, False),
    ],
    ids=["all know it", "just now", "one does not know", "one came not in", "a new process"],
)
def test_a_door_counts_as_open_when_all_who_may_decide_have_known_it_for_long(
    knocks: list[tuple[int, str, bool]], until: int, *, is_open: bool
) -> None:
    assert doors(*knocks).is_open("host-0", until) is is_open


def test_a_coordinator_that_was_replaced_and_is_dead_need_not_know_it() -> None:
    assert doors(STARTED, (4, SECOND, True), is_first_dead=True).is_open("host-0", LATER)


def test_a_door_may_be_shut_once_two_observers_did_not_come_in() -> None:
    found = doors((1, FIRST, False), (2, FIRST, False), (3, NEIGHBOUR, False))

    assert not found.may_be_shut("host-0", 3 * S - 1)
    assert found.may_be_shut("host-0", 3 * S)
    assert not found.may_be_shut("host-1", 3 * S)
