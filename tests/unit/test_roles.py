"""Under which claim a broker writes, whatever the coordinator that answers has heard of."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.coordinator_events import Announcement, Route
from tierledger.actors.roles import Roles
from tierledger.events.commands import Claim
from tierledger.events.identifiers import TopicIdPartition, Uuid

TIP = TopicIdPartition(Uuid(bytes(range(16))), 0, "orders")
KEY = PartitionKey.of(TIP)
ITEM = (bytes(TIP.topic_id), 0, "orders", None, None)


class Coordinator:
    """A coordinator, and the way to it, that answers with one route."""

    def __init__(self, leader: Claim | None, *followers: Claim) -> None:
        self.answer = Route(True, "host-0/1", None, leader, "orders", followers)
        self.announced: list[Announcement] = []

    async def coordinate(self, ask: Callable[[Any], Awaitable[Any]]) -> Any:  # noqa: ANN401
        return await ask(self)

    async def announce(self, announcement: Announcement) -> None:
        self.announced.append(announcement)

    async def route(self, keys: list[PartitionKey]) -> list[Route]:
        return [self.answer for _ in keys]


async def announced(
    leader: Claim | None, *followers: Claim, leads: bool
) -> tuple[str, Claim | None]:
    coordinator: Any = Coordinator(leader, *followers)
    roles = Roles(coordinator, 1, 3)
    await roles.announce([ITEM] if leads else [], [] if leads else [TIP], [])
    return roles.role(KEY), roles.claim_to_lead(KEY)


@pytest.mark.parametrize("leader", [None, Claim(2, 1, 9)])
async def test_a_claim_that_another_has_replaced_stands_until_it_is_taken_back(
    leader: Claim | None,
) -> None:
    assert await announced(leader, leads=True) == (LEADER, Claim(1, 3, 1))


async def test_a_repeat_keeps_the_claim_that_is_in_force() -> None:
    in_force = Claim(1, 3, 0)

    assert await announced(in_force, leads=True) == (LEADER, in_force)


async def test_a_coordinator_that_has_not_heard_of_it_makes_no_follower_of_a_leader() -> None:
    assert await announced(None, Claim(1, 3, 0), leads=True) == (LEADER, Claim(1, 3, 1))


async def test_the_claim_of_an_earlier_life_is_not_ones_own() -> None:
    assert await announced(Claim(1, 2, 7), leads=True) == (LEADER, Claim(1, 3, 1))


async def test_nor_a_leader_of_a_follower() -> None:
    assert await announced(Claim(1, 3, 0), leads=False) == (FOLLOWER, None)
