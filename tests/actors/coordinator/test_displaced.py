"""A claim that is given up restores the one it replaced: Kafka does not notify again."""

from typing import Any

import pytest

from tests.models.actors.coordinated import Coordinated, announcement, placements
from tierledger.actors.coordinator import decide
from tierledger.events.commands import NO_CLAIM, Claim


@pytest.fixture
def one() -> Coordinated:
    """A coordinator with a host and three brokers."""
    one = Coordinated("host-0")
    for broker_id in (1, 2, 3):
        one.register(broker_id)
    return one


def claim_of(one: Coordinated, broker_id: int) -> Claim:
    """The claim that the broker's last announcement makes."""
    return Claim(broker_id, one.state.incarnations[broker_id], one.announcements[broker_id])


@pytest.mark.parametrize("given", [{"follows": [0]}, {"stops": [0]}])
def test_a_late_announcement_that_is_taken_back_leaves_the_true_leader(
    one: Coordinated, given: dict[str, Any]
) -> None:
    one.announce(1, leads=[0])
    true = claim_of(one, 1)
    one.announce(2, leads=[0])  # Of an election before that one.
    before = one.state.assignment
    one.announce(2, **given)

    assert one.leader_of() == true
    led = one.entry().leadership
    assert led is not None
    assert led.assignment > before, "placed anew: the log may hold the other's session"


AGAIN = Claim(2, 1, 1)
"""The first claim of broker 2."""


@pytest.mark.parametrize(
    ("steps", "leader"),
    [
        ([(1, "leads"), (2, "leads"), (3, "leads"), (3, "follows")], AGAIN),
        ([(1, "leads"), (2, "leads"), (1, "follows"), (2, "follows")], None),
        ([(1, "leads", 4), (2, "leads", 5), (2, "follows")], None),
        ([(1, "leads"), (2, "leads"), (1, "registers"), (2, "follows")], None),
        ([(1, "leads"), (2, "leads"), (3, "follows")], AGAIN),
        (  # Broker 1 comes late, without an epoch, and says the same again with one.
            [(3, "leads", 0), (2, "leads", 2), (1, "leads"), (1, "leads", 1), (1, "follows")],
            AGAIN,
        ),
        ([(1, "leads"), (2, "leads"), (1, "stops"), (2, "follows")], None),
    ],
    ids=[
        "of several the last that was replaced stands",
        "who has announced that it no longer leads does not",
        "who was replaced in a later epoch has only not heard of it",
        "a life that has ended no longer leads",
        "who follows anyway changes nothing",
        "of two known epochs the higher stands though it was replaced",
        "who stops hosting after it was replaced does not stand again",
    ],
)
def test_a_claim_that_is_given_up_leaves_whom_it_replaced(
    one: Coordinated, steps: list[tuple[Any, ...]], leader: Claim | None
) -> None:
    for broker_id, role, *epoch in steps:
        if role == "registers":
            one.register(broker_id)
        else:
            one.announce(broker_id, **{role: [0]}, epoch=epoch[0] if epoch else None)

    assert one.leader_of() == leader


def in_force(one: Coordinated, announced: Claim, *, leads: bool) -> Claim:
    """The claim under which a broker is to write after its announcement."""
    roles: dict[str, Any] = {"leads" if leads else "follows": [0]}
    broker_id, incarnation, number = announced
    given = announcement(broker_id, number, **roles, incarnation=incarnation)
    (claim,) = decide.in_force(one.state, given)
    return claim


def test_a_repeat_counts_for_the_claim_that_is_in_force(one: Coordinated) -> None:
    one.announce(1, leads=[0])
    true = claim_of(one, 1)
    one.announce(1, leads=[0])
    repeated = claim_of(one, 1)

    assert in_force(one, repeated, leads=True) == true
    one.announce(2, follows=[0])
    follows = claim_of(one, 2)
    one.announce(2, follows=[0])
    assert in_force(one, claim_of(one, 2), leads=False) == follows


def test_a_repeat_counts_for_the_claim_that_stands_again_though_another_came_since(
    one: Coordinated,
) -> None:
    one.announce(1, leads=[0])
    true = claim_of(one, 1)
    one.announce(1, leads=[0])
    repeated = claim_of(one, 1)
    one.announce(2, leads=[0])

    assert in_force(one, repeated, leads=True) == true
    one.announce(2, follows=[0])
    assert one.leader_of() == true


def test_an_announcement_of_a_new_incarnation_is_no_repeat_of_earlier_ones(
    one: Coordinated,
) -> None:
    one.announce(1, leads=[0])
    one.register(1)
    one.announce(1, leads=[0])
    announced = claim_of(one, 1)

    assert in_force(one, announced, leads=True) == announced == one.leader_of()


def test_a_claim_below_the_epoch_in_force_is_nobody_elses(one: Coordinated) -> None:
    one.announce(1, leads=[0], epoch=4)
    one.announce(2, leads=[0], epoch=3)
    refused = claim_of(one, 2)

    assert in_force(one, refused, leads=True) == NO_CLAIM


def test_a_partition_is_not_let_go_while_another_s_claim_stands_again(
    one: Coordinated,
) -> None:
    """Its session would be closed, and the true leader refused under its own claim."""
    one.announce(1, leads=[0])
    one.announce(2, leads=[0])

    told = [placed.assignment for placed in placements(one.announce(2, stops=[0]))]

    assert [None if each is None else each.claim.broker_id for each in told] == [1]
    (released,) = placements(one.announce(1, stops=[0]))
    assert released.assignment is None
