"""A running service as its clients see it: its coordinator, and its hosts."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from tierledger.actors.calls import AskedHost, Call, Request
from tierledger.actors.coordinator.requests import AskedCoordinator
from tierledger.actors.deadline import Attempt

T = TypeVar("T")


class ReportingHost(Protocol):
    """A process that serves as a host; raises as what clients see of it does."""

    async def ask(self, request: Request[AskedHost, T]) -> T:
        """The host's answer about itself."""
        ...


class ClientsHost(ReportingHost, Protocol):
    """A process that serves as a host, as clients see it.

    A call raises `OutcomeUnknown` if its answer was lost, `HostGone` if the process has ended,
    and `HostFailed` or the host's own exception if it failed there. Clients never see the last
    three: `service_link` turns them into `OutcomeUnknown`.
    """

    async def call(self, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401
        """The result of `call`, or the error as a value; `attempt` notes when it is sent."""
        ...


class CoordinatorHandle(Protocol):
    """The coordinator, wherever it runs."""

    async def ask(self, request: Request[AskedCoordinator, T]) -> T:
        """The coordinator's answer; every request may raise `OutcomeUnknown`."""
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
