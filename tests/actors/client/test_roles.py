"""Under which claim a broker writes, whatever the coordinator that answers has heard of."""

from typing import Any

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.client.roles import Roles
from tierledger.actors.coordinator.events import ITEMS_MAX, Announcement
from tierledger.actors.deadline import Deadline
from tierledger.events.commands import Claim
from tierledger.events.identifiers import TopicIdPartition, Uuid

TIP = TopicIdPartition(Uuid(bytes(range(16))), 0, "orders")
OTHER = TopicIdPartition(TIP.topic_id, 1, "orders")
KEY = PartitionKey.of(TIP)
ITEM = (bytes(TIP.topic_id), 0, "orders", None, None)


class Coordinator:
    """A coordinator, and the way to it, whose log says which claims count."""

    def __init__(self, *claims: Claim) -> None:
        self.claims = list(claims)
        self.announced: list[Announcement] = []

    link = None

    async def coordinate(self, given: Announcement, _: Deadline) -> list[Claim]:
        self.announced.append(given)
        return self.claims


async def test_the_claim_that_counts_is_the_one_that_the_log_knows() -> None:
    coordinator: Any = Coordinator(Claim(1, 3, 0), Claim(1, 3, 1))
    roles = Roles(coordinator, 1, 3)
    await roles.announce([ITEM], [OTHER], [], deadline=Deadline(5))

    assert coordinator.announced[0].claim == Claim(1, 3, 1)
    assert roles.role(KEY) == LEADER
    assert roles.claim_to_lead(KEY) == Claim(1, 3, 0)
    assert roles.role(PartitionKey.of(OTHER)) == FOLLOWER
    assert roles.claim_to_lead(PartitionKey.of(OTHER)) is None


async def test_what_is_stopped_is_led_no_more() -> None:
    coordinator: Any = Coordinator(Claim(1, 3, 1))
    roles = Roles(coordinator, 1, 3)
    await roles.announce([ITEM], [], [], deadline=Deadline(5))
    coordinator.claims = []
    await roles.announce([], [], [TIP], deadline=Deadline(5))

    assert roles.claim_to_lead(KEY) is None
    assert coordinator.announced[1].stopped == (ITEM[:3],)


async def test_more_than_one_announcement_may_hold_goes_in_pieces_in_order() -> None:
    coordinator: Any = Coordinator(*[Claim(1, 3, 1)] * ITEMS_MAX)
    items = [(bytes(16), number, "orders", None, None) for number in range(ITEMS_MAX - 1)]
    others = [TIP] * (ITEMS_MAX + 1)
    roles = Roles(coordinator, 1, 3)
    await roles.announce(items, others, [], deadline=Deadline(5))

    assert [one.number for one in coordinator.announced] == [1, 2]
    assert [len(one.leaders) for one in coordinator.announced] == [len(items), 0]
    assert [len(one.followers) for one in coordinator.announced] == [1, ITEMS_MAX]
