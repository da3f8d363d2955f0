"""What the coordinator is asked beside `Announcement`, `Attend`, `Handover` and holds."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.attendance import Attending, Followed
from tierledger.actors.coordinator.events import Announcing, Registered, Route
from tierledger.actors.coordinator.holding import PlacesHolds
from tierledger.actors.coordinator.ownership import HandingOver, PluginMode
from tierledger.actors.coordinator.purge_requests import GivesPurges
from tierledger.actors.coordinator.replacing import ReplacesProcesses
from tierledger.events.typed_fields import Count, RequestId


class AskedCoordinator(
    Announcing,
    Attending,
    GivesPurges,
    HandingOver,
    PlacesHolds,
    ReplacesProcesses,
    Protocol,
):
    """Answers clients, each request by the method that its `put_to` calls."""

    async def register(
        self, broker_id: int, request: bytes, after: int, mode: PluginMode | None = None
    ) -> Registered: ...

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]: ...

    async def hosts(self) -> dict[str, str]: ...

    async def doors(self) -> dict[str, str]: ...

    async def status(self) -> dict[str, Any]: ...


class FollowedCoordinator(AskedCoordinator, Protocol):
    """Answers the service's own processes, too."""

    async def follow_kafka(self, report: dict[str, Any]) -> Followed: ...


class RegisterCall(NamedTuple):
    """A new incarnation of a broker, if its newest was `after`; repeats get the same."""

    broker_id: int
    request: RequestId
    after: Count
    mode: PluginMode | None = None
    """The mode of a broker's plugin; None for a program."""

    def put_to(self, asked: AskedCoordinator) -> Coroutine[Any, Any, Registered]:
        return asked.register(*self)


class RouteCall(NamedTuple):
    """Where each partition is served now."""

    keys: Sequence[PartitionKey]

    def put_to(self, asked: AskedCoordinator) -> Coroutine[Any, Any, list[Route]]:
        return asked.route(self.keys)


class HostsCall(NamedTuple):
    """The hosts that are believed to live, and the address of each."""

    def put_to(self, asked: AskedCoordinator) -> Coroutine[Any, Any, dict[str, str]]:
        return asked.hosts()


class DoorsCall(NamedTuple):
    """The doors (HOST:PORT) of living processes that listen, by address."""

    def put_to(self, asked: AskedCoordinator) -> Coroutine[Any, Any, dict[str, str]]:
        return asked.doors()


class StatusCall(NamedTuple):
    """Hosts, partitions and brokers as the coordinator knows them."""

    def put_to(self, asked: AskedCoordinator) -> Coroutine[Any, Any, dict[str, Any]]:
        return asked.status()


class FollowCall(NamedTuple):
    """A follower's report; the answer is the owner, and whether it is chosen."""

    report: dict[str, Any]

    def put_to(self, asked: FollowedCoordinator) -> Coroutine[Any, Any, Followed]:
        return asked.follow_kafka(self.report)
