"""What actors need of the outside, as small protocols that are passed to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tierledger.actors.calls import Call, CloseCall, HostPing, PartitionKey, Placement
from tierledger.actors.deadline import Attempt
from tierledger.events.commands import Claim, LeaderVerdict
from tierledger.events.errors import OutcomeUnknown
from tierledger.events.identifiers import TopicIdPartition

if TYPE_CHECKING:
    from tierledger.actors.coordinator.attendance import Attend
    from tierledger.actors.coordinator.events import Announcement, Registered, Route
    from tierledger.actors.coordinator.ownership import (
        Handover,
        Owned,
        OwnerWord,
        PluginMode,
    )


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as brokers count them; may step either way."""
        ...


class IdSource(Protocol):
    """Makes unique ids."""

    def request_id(self) -> bytes:
        """A new id of 12 bytes."""
        ...


class LeaderOracle(Protocol):
    """Knows from another source, as Kafka itself, which broker leads a partition."""

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        """The present leader of each partition, in order; None where it is not known.

        An error, or no answer within `no_oracle.ORACLE_DEADLINE_S`, counts as not known.
        """
        ...


class HostGone(OutcomeUnknown):
    """The process behind a handle has ended; no later call on it will be answered either."""


class HostFailed(OutcomeUnknown):
    """The process lives, and raised an unforeseen error: part of the call may be done."""


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


class HostHandle(Protocol):
    """The same as coordinator and other hosts see it; raises the same errors."""

    async def ping(self) -> HostPing:
        """The host's report to the coordinator; that it comes shows that the host lives."""
        ...

    async def place(self, placements: Sequence[Placement]) -> None:
        """Take on, change or release partitions. Idempotent; older placements do nothing."""
        ...

    async def close_sessions(self, closes: Sequence[CloseCall]) -> None:
        """End the sessions of brokers that lead no more."""
        ...

    async def store(
        self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401
        """Call the host's own storage backend, for processes that may not write themselves."""
        ...


class HostLauncher(Protocol):
    """Starts, finds and ends the processes that serve as hosts.

    An address is the host's name, a slash and a number: `host-3/7` is the seventh process that
    serves as `host-3`. Each process has an address of its own.
    """

    def prepare(self, address: str) -> None:
        """Begin to start a process for `address` before its launch, to save time.

        The process opens no store and serves nothing before `launch`.
        """
        ...

    async def launch(self, address: str) -> HostHandle:
        """The process at `address`, or a new one, whose store is open.

        Raises:
            RemoteStorageError: The process does not start; nothing of it is left.
        """
        ...

    async def find(self, address: str) -> HostHandle | None:
        """The process at `address`; None if it has ended. Never starts one."""
        ...

    async def end(self, address: str, process: str | None) -> None:
        """End the process at `address`, whose own name is `process` (None: not known).

        The writer of a store with one writer has certainly ended on return. Of other processes
        this is not certain: the launcher does what it can within a short time.

        Raises:
            RetryableError: The process may still run.
        """
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

    async def attend(self, said: Attend) -> OwnerWord:
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
