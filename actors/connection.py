"""A running service as its clients see it: its coordinator, and its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tierledger.actors.calls import Call, PartitionKey
from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.events import Announcement, Registered, Route
from tierledger.actors.coordinator.ownership import Handover, Owned, OwnerWord, PluginMode
from tierledger.actors.deadline import Attempt
from tierledger.events.commands import Claim


class ClientsHost(Protocol):
    """A process that serves as a host, as clients see it.

    Every call may raise `OutcomeUnknown` when it is lost, `HostGone` when it is lost for good,
    and `HostFailed` or whatever the host raised; none of the latter reaches a client.
    """

    async def call(self, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401
        """The result of `call`, or the error as a value; `attempt` notes when it is sent."""
        ...

    async def counts(self) -> dict[str, Any]:
        """Who the host is, and what it has done since its process began."""
        ...

    async def partitions(self) -> list[dict[str, Any]]:
        """Role, phase and position of everything that runs there."""
        ...


class CoordinatorHandle(Protocol):
    """The coordinator, wherever it runs. Every call may raise `OutcomeUnknown`."""

    async def register(
        self, broker_id: int, request: bytes, after: int, mode: PluginMode | None = None
    ) -> Registered:
        """A new incarnation of a broker, if its newest was `after`; repeats get the same.

        `mode`: of a broker's plugin; programs have none.
        """
        ...

    async def hand_over(self, wish: Handover) -> Owned:
        """Let another own the cluster's metadata; who owns it then, durable."""
        ...

    async def attend(self, said: Attend) -> OwnerWord:
        """Who owns it, for a broker's plugin that says how it stands."""
        ...

    async def announce(self, announcement: Announcement) -> list[Claim]:
        """Which claim counts for each leader, then each follower; durable when it returns."""
        ...

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        """Where each partition is served now."""
        ...

    async def hosts(self) -> dict[str, str]:
        """The hosts that are believed to live, and the address of each."""
        ...

    async def doors(self) -> dict[str, str]:
        """Where the processes that live listen (HOST:PORT), by address; only those that do."""
        ...

    async def status(self) -> dict[str, Any]:
        """Hosts, partitions and brokers as the coordinator knows them."""
        ...


class ServiceConnection(Protocol):
    """A running service, as one who has found it sees it; clients see it through a link."""

    @property
    def coordinator(self) -> CoordinatorHandle:
        """The handle on the coordinator."""
        ...

    def host(self, name: str) -> ClientsHost:
        """The process at an address (`host-3/7`), or the newest that serves as `host-3`.

        Raises:
            NotReady: There is none; nothing was sent.
        """
        ...

    async def close(self) -> None:
        """Let the service go on without this client."""
        ...
