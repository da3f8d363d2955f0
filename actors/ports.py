"""What actors need of the world, as small protocols: handed in, never looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.actors.calls import Call, CloseCall, PartitionKey, Placement
    from tierledger.actors.coordinator_events import Announcement, Route


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as brokers count them; may step either way."""
        ...


class IdSource(Protocol):
    """Makes ids that nobody else makes."""

    def request_id(self) -> bytes:
        """A new id of 12 bytes."""
        ...


class HostHandle(Protocol):
    """One host, wherever it runs. Every call may raise `OutcomeUnknown` when it is lost."""

    async def submit(self, calls: Sequence[Call]) -> list[Any]:
        """One result per call, in order: a value, or the error as a value."""
        ...

    async def place(self, placements: Sequence[Placement]) -> None:
        """Take on, change or release partitions; repeats and older placements do nothing."""
        ...

    async def close_sessions(self, closes: Sequence[CloseCall]) -> None:
        """End the sessions of brokers that lead no more."""
        ...

    async def store(
        self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401
        """Call the host's own storage backend, for processes that may not write themselves."""
        ...

    async def ping(self) -> dict[str, Any]:
        """What the host says of itself; also tells that it lives."""
        ...

    async def partitions(self) -> list[dict[str, Any]]:
        """Role, phase and position of everything that runs there."""
        ...


class HostLauncher(Protocol):
    """Starts and ends hosts."""

    async def launch(self, name: str) -> HostHandle:
        """The running host of that name, or a new one, whose store is open."""
        ...

    async def end(self, name: str) -> None:
        """Make sure that the host of that name runs no more."""
        ...


class CoordinatorHandle(Protocol):
    """The coordinator, wherever it runs. Every call may raise `OutcomeUnknown`."""

    async def register(self, broker_id: int) -> int:
        """A new incarnation for `broker_id`, greater than all before."""
        ...

    async def announce(self, announcement: Announcement) -> None:
        """Take an announcement; durable when it returns."""
        ...

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        """Where each partition is served now."""
        ...

    async def status(self) -> dict[str, Any]:
        """Hosts, partitions and brokers as the coordinator knows them."""
        ...


class ServiceConnection(Protocol):
    """A running service as a client sees it."""

    @property
    def coordinator(self) -> CoordinatorHandle:
        """The handle on the coordinator."""
        ...

    def host(self, name: str) -> HostHandle:
        """The host of that name; a new handle after the old one's process was lost."""
        ...

    async def close(self) -> None:
        """Let the service go on without this client."""
        ...
