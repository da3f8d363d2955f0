"""What actors need of the outside, as small protocols that are passed to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tierledger.actors.calls import CoordinatedHost, Request
from tierledger.actors.explained import NotKnown, ToldRetention
from tierledger.events.commands import LeaderVerdict
from tierledger.events.errors import OutcomeUnknown
from tierledger.events.identifiers import TopicIdPartition

T = TypeVar("T")


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


class RetentionSource(Protocol):
    """Asks Kafka by which rules brokers may delete."""

    async def retentions_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[ToldRetention | NotKnown]:
        """What each partition's leading broker says now, in order.

        An error, or no answer within `no_oracle.ORACLE_DEADLINE_S`, counts as not known.
        """
        ...


class HostGone(OutcomeUnknown):
    """The process behind a handle has ended; no later call on it will be answered either."""


class HostFailed(OutcomeUnknown):
    """The process lives, and raised an unforeseen error: part of the call may be done."""


class HostHandle(Protocol):
    """A process that serves as a host, as the coordinator and its own kind see it.

    Raises as what clients see of it does.
    """

    async def ask(self, request: Request[CoordinatedHost, T]) -> T:
        """The host's answer."""
        ...


class HostLauncher(Protocol):
    """Starts, finds and ends the processes that serve as hosts.

    An address is the host's name, a slash and a number: `host-3/7` is the seventh process that
    serves as `host-3`. Each process has an address of its own.
    """

    def prepare(self, address: str, *, is_replacement: bool = False) -> None:
        """Begin to start a process for `address` before its launch, to save time.

        The process opens no store and serves nothing before `launch`. `is_replacement`: the
        former process is well, and so is the machine that it is on.
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
