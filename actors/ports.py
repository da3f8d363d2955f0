"""What actors need of the world, as small protocols: handed in, never looked up."""

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
    """Makes ids that nobody else makes."""

    def request_id(self) -> bytes:
        """A new id of 12 bytes."""
        ...


class LeaderOracle(Protocol):
    """Knows from outside, as from Kafka itself, which broker leads a partition."""

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        """Each partition's leader as of now; none where it does not know.

        Any error, and no answer within `no_oracle.ORACLE_DEADLINE_S`, count as not knowing.
        """
        ...


class HostGone(OutcomeUnknown):
    """The process behind a handle has ended; no later call on it will be answered either."""


class HostFailed(OutcomeUnknown):
    """The process lives, and raised what nobody foresaw: some of what was asked may be done."""


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


class HostHandle(Protocol):
    """The same as the coordinator and its own kind see it; raises like it."""

    async def ping(self) -> HostPing:
        """What the coordinator has to know; also tells that the host lives."""
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


class HostLauncher(Protocol):
    """Starts, finds and ends the processes that serve as hosts.

    An address is the host's name, a slash and a number: `host-3/7` is the seventh process that
    serves as `host-3`. Each process has an address of its own.
    """

    def prepare(self, address: str) -> None:
        """Let a process for `address` begin to start, beside what goes before its launch.

        It opens no store, and serves nothing, before it is launched.
        """
        ...

    async def launch(self, address: str) -> HostHandle:
        """The process at `address`, or a new one, whose store is open.

        Raises:
            RemoteStorageError: It does not start; nothing of it is left.
        """
        ...

    async def find(self, address: str) -> HostHandle | None:
        """The process at `address`; none if it has ended. Never starts one."""
        ...

    async def end(self, address: str, process: str | None) -> None:
        """End the process at `address`, which calls itself `process` where that is known.

        Certain on return where the store has one writer and this is it; elsewhere the best
        that can be done within a short time.

        Raises:
            RetryableError: It may still run.
        """
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
