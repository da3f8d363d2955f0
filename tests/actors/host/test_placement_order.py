"""The placements that still count on a host."""

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey, Placement
from tierledger.actors.host.placement_order import PlacementOrder
from tierledger.actors.messages import Assignment
from tierledger.events.commands import Claim

KEY = PartitionKey(bytes(16), 0)


def placed(number: int, role: str = LEADER) -> Placement:
    return Placement(KEY, "orders", role, Assignment(number, Claim(1, 1, number)))


def test_what_was_placed_before_a_leader_that_ended_is_late() -> None:
    order = PlacementOrder()

    order.ended(KEY, 9)

    assert order.is_late(placed(5), None), "nobody would hear that 9 is lost"
    assert not order.is_late(placed(9), None), "its coordinator has not heard that it is lost"
    assert not order.is_late(placed(10), None)
    assert not order.is_late(placed(5, FOLLOWER), None)


def test_the_end_of_an_older_leader_takes_nothing_back() -> None:
    order = PlacementOrder()
    order.ended(KEY, 9)

    order.ended(KEY, 3)

    assert order.is_late(placed(5), None)
