"""A running service as its clients see it: its coordinator, and its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tierledger.actors.calls import Call, PartitionKey
from tierledger.actors.coordinator.attendance import Attend, Attended
from tierledger.actors.coordinator.events import Announcement, Registered, Route
from tierledger.actors.coordinator.ownership import Handover, Owned, PluginMode
from tierledger.actors.deadline import Attempt
from tierledger.events.commands import Claim


class ClientsHost(Protocol):
    """A process that serves as a host, as clients see it.

    A call raises `OutcomeUnknown` if its answer was lost, `HostGone` if the process has ended,
    and `HostFailed` or the host's own exception if it failed there. Clients never see the last
    three: `service_link` turns them into `OutcomeUnknown`.
    """

    async def call(self, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401
        """The result of `call`, or the error as a value; `attempt` notes when it is sent."""
        ...

    async def counts(self) -> dict[str, Any]:
        """The host's names and door, and its counts since its process began."""
        ...

    async def partitions(self) -> list[dict[str, Any]]:
        """Role, phase and position of each leader and follower that runs there."""
        ...


class CoordinatorHandle(Protocol):
    """The coordinator, wherever it runs. Every call may raise `OutcomeUnknown`."""

    async def register(
        self, broker_id: int, request: bytes, after: int, mode: PluginMode | None = None
    ) -> Registered:
        """A new incarnation of a broker, if its newest was `after`; repeats get the same.

        `mode`: the mode of a broker's plugin; None for a program.
        """
        ...

    async def hand_over(self, wish: Handover) -> Owned:
        """Change the owner of the cluster's metadata; the owner after that, durable."""
        ...

    async def attend(self, attend: Attend) -> Attended:
        """Take a plugin's report (heartbeat); the answer is who owns the cluster's metadata."""
        ...

    async def announce(self, announcement: Announcement) -> list[Claim]:
        """The claim in force for each leader, then each follower; durable on return."""
        ...

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        """Where each partition is served now."""
        ...

    async def hosts(self) -> dict[str, str]:
        """The hosts that are believed to live, and the address of each."""
        ...

    async def doors(self) -> dict[str, str]:
        """The doors (HOST:PORT) of living processes that listen, by address."""
        ...

    async def status(self) -> dict[str, Any]:
        """Hosts, partitions and brokers as the coordinator knows them."""
        ...


class ServiceConnection(Protocol):
    """A connection to a running service; clients use it through a `ServiceLink`."""

    @property
    def coordinator(self) -> CoordinatorHandle:
        """The handle on the coordinator."""
        ...

    def host(self, name: str) -> ClientsHost:
        """The process at an address (`host-3/7`), or the newest that serves as `host-3`.

        Raises:
            NotReady: There is no such process; nothing was sent.
        """
        ...

    async def close(self) -> None:
        """Close the connection; the service goes on."""
        ...
