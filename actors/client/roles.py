"""The roles of one broker in its partitions: as announced, and as the coordinator took them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey, ReadyCall
from tierledger.actors.client.router import Router
from tierledger.actors.coordinator.events import ITEMS_MAX, Announcement, LeaderItem, Registered
from tierledger.actors.coordinator.requests import RegisterCall, RouteCall
from tierledger.actors.deadline import Attempt, Deadline
from tierledger.events.commands import NO_CLAIM, Claim
from tierledger.events.errors import NotLeader, OutcomeUnknown, RetryableError
from tierledger.events.identifiers import TopicIdPartition


class Roles:
    """The roles and claims of one incarnation of a broker."""

    def __init__(self, router: Router, broker_id: int, incarnation: int) -> None:
        """See `register`."""
        self.broker_id = broker_id
        self._router = router
        self._link = router.link
        self._incarnation = incarnation
        self._announcements = 0
        self._claims: dict[PartitionKey, tuple[str, Claim]] = {}
        # One announcement at a time: one that a later one overtakes would be fenced.
        self._turn = asyncio.Lock()

    @classmethod
    async def register(
        cls, router: Router, broker_id: int, request: bytes, deadline: Deadline
    ) -> Roles:
        """A new incarnation of `broker_id`, which fences all before it.

        `request` identifies this registration and is the same for each retry. So a request that
        arrives late makes no further incarnation.
        """
        given = Registered(0, is_given=False)
        while not given.is_given:
            call = RegisterCall(broker_id, request, given.incarnation)
            given = await router.coordinate(call, deadline)
        return cls(router, broker_id, given.incarnation)

    def role(self, key: PartitionKey) -> str:
        """The role that answers this broker's reads: the leader's if this broker leads."""
        return self._claims.get(key, (FOLLOWER, None))[0]

    def claim_to_lead(self, key: PartitionKey) -> Claim | None:
        """The claim under which this broker believes to lead; None if it announced no such."""
        role, claim = self._claims.get(key, (None, None))
        return claim if role == LEADER else None

    async def announce(
        self,
        leaders: Collection[LeaderItem],
        followers: Collection[TopicIdPartition],
        stopped: Collection[TopicIdPartition],
        import_cluster: str | None = None,
        *,
        deadline: Deadline,
    ) -> None:
        """Announce roles; durable on return. A repeat keeps the claim that is in force.

        More than `ITEMS_MAX` partitions are announced in pieces, in order. If a piece fails,
        those before it stay announced.

        Raises:
            NotLeader: Another broker leads some of these partitions in a newer leader epoch, or
                Kafka names it; everything else was announced.
            RetryableError: The deadline passed; nothing was sent, or all attempts were refused.
            OutcomeUnknown: The deadline passed, and the announcement may be durable.
        """
        await deadline.before_sending(
            self._turn.acquire(), "the announcement before it had to end"
        )
        try:
            await self._announce(leaders, followers, stopped, import_cluster, deadline)
        finally:
            self._turn.release()

    async def _announce(
        self,
        leaders: Collection[LeaderItem],
        followers: Collection[TopicIdPartition],
        stopped: Collection[TopicIdPartition],
        import_cluster: str | None,
        deadline: Deadline,
    ) -> None:
        items: list[tuple[str, Any]] = [(LEADER, item) for item in leaders]
        for role, tips in ((FOLLOWER, followers), ("", stopped)):
            items += [(role, (bytes(tip.topic_id), tip.partition, tip.topic)) for tip in tips]
        refused = []
        for first in range(0, max(1, len(items)), ITEMS_MAX):
            refused += await self._announce_piece(
                items[first : first + ITEMS_MAX], import_cluster, deadline
            )
        if refused:
            raise NotLeader(
                f"another broker than {self.broker_id} leads {len(refused)} of these "
                f"partitions, the first is {refused[0]}; announce them again if Kafka does"
            )

    async def _announce_piece(
        self, items: list[tuple[str, Any]], import_cluster: str | None, deadline: Deadline
    ) -> list[TopicIdPartition]:
        """Announce one piece; returns the partitions of which another broker is the leader."""
        self._announcements += 1
        announcement = Announcement(
            self.broker_id,
            self._incarnation,
            self._announcements,
            tuple(item for role, item in items if role == LEADER),
            tuple(item for role, item in items if role == FOLLOWER),
            tuple(item for role, item in items if not role),
            import_cluster,
        )
        claims = await self._router.coordinate(announcement, deadline)
        for item in announcement.stopped:
            self._claims.pop(PartitionKey(*item[:2]), None)
        announced = [(PartitionKey(*item[:2]), role) for role, item in items if role]
        for (key, role), claim in zip(announced, claims, strict=True):
            self._claims[key] = (role, claim)
        leaders = zip(announcement.leaders, claims, strict=False)
        return [
            PartitionKey(*item[:2]).named(item[2])
            for item, claim in leaders
            if claim == NO_CLAIM
        ]

    async def are_ready(self, keys: Sequence[PartitionKey], deadline: Deadline) -> list[bool]:
        """For each partition: whether its announcement is in force and its host has caught up.

        Partitions of a host that does not answer within the deadline count as not ready.
        """
        known = {key: self._claims[key] for key in keys if key in self._claims}
        ready: set[PartitionKey] = set()
        try:
            with deadline.bound():
                asked = RouteCall([*known])
                routes = await self._link.coordinator.ask(asked) if known else []
                by_host: dict[str, list[ReadyCall]] = {}
                for (key, (role, claim)), route in zip(known.items(), routes, strict=True):
                    address = route.host(role)
                    if address is not None:
                        by_host.setdefault(address, []).append(ReadyCall(key, role, claim))
                await asyncio.gather(
                    *(
                        self._ready(address, calls, deadline, ready)
                        for address, calls in by_host.items()
                    )
                )
        except (RetryableError, OutcomeUnknown, TimeoutError):
            pass
        return [key in ready for key in keys]

    async def _ready(
        self,
        address: str,
        calls: list[ReadyCall],
        deadline: Deadline,
        ready: set[PartitionKey],
    ) -> None:
        async def ask(call: ReadyCall) -> None:
            with contextlib.suppress(RetryableError, OutcomeUnknown):
                if await self._link.call(address, call, Attempt(deadline)) is True:
                    ready.add(call.key)

        await asyncio.gather(*map(ask, calls))
