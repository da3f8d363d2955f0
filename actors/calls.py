"""Messages between clients, coordinator and hosts. All of them can be pickled."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from copy import copy
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Meta

from tierledger.actors.holds import Deletions
from tierledger.actors.messages import Assignment, ClaimRefused, Query
from tierledger.events.commands import Claim, Command, EndPurges, EndSegments, StartPurges
from tierledger.events.errors import InvalidArgument, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.typed_fields import (
    INT32_MAX,
    Id,
    Int64,
    PartitionNumber,
    Text,
    checked,
)
from tierledger.storage.backend import Former

A_contra = TypeVar("A_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)

LEADER = "leader"
FOLLOWER = "follower"
STORAGE = "storage"
"""No actor's role: the host reads the partition from its store, for the waiting calls only."""


class Request(Protocol[A_contra, T_co]):
    """A request to an `A`, which answers it with a `T`. It is a value, which `ask` takes.

    A handle on a process has only `ask` for them all, whatever lies between: nothing, Ray, a
    door, or a simulated network. At the other end the request calls the method that answers.
    """

    def put_to(self, asked: A_contra) -> Coroutine[Any, Any, T_co]: ...


class PartitionKey(NamedTuple):
    """A partition's identity: topic id and number; the name is left out."""

    topic_id: Id
    partition: PartitionNumber

    @classmethod
    def of(cls, topic_id_partition: TopicIdPartition) -> PartitionKey:
        """The identity of a partition that a caller names.

        Raises:
            InvalidArgument: The argument names no partition.
        """
        known = topic_id_partition
        if type(known) is not TopicIdPartition:
            known = checked(TopicIdPartition, topic_id_partition, "topic_id_partition")
        return cls(bytes(known.topic_id), known.partition)

    def named(self, topic: str) -> TopicIdPartition:
        """The partition with its topic's name."""
        return TopicIdPartition(Uuid(self.topic_id), self.partition, topic)


class CommandCall(NamedTuple):
    """Change a partition; the result is the position from which the change holds."""

    key: PartitionKey
    command: Command


class QueryCall(NamedTuple):
    """Ask the leader, a follower, or the storage; the result is an `Answered`."""

    key: PartitionKey
    role: Text
    query: Query
    position_min: Int64 = -1
    timeout_ms: Annotated[int, Meta(ge=0, le=INT32_MAX)] = 10_000


class ReadyCall(NamedTuple):
    """Whether what `claim` announced is in force here; the result is a bool."""

    key: PartitionKey
    role: Text
    claim: Claim


class PageCall(NamedTuple):
    """The next page of a list; the result is an `Answered`."""

    cursor: Text


Call: TypeAlias = CommandCall | QueryCall | ReadyCall | PageCall


def refusal_of(call: object) -> InvalidArgument | None:
    """The error of a `call` that no host could carry out; None if it is well-formed."""
    try:
        checked(Call, call, "call")
    except InvalidArgument as error:
        return error
    return None


def of_request(error: RemoteStorageError, request_id: bytes) -> RemoteStorageError:
    """`error` with the id in its text by which the logs of hosts name the call.

    One that has an id already is about a call that was made for this one, as for a route.
    """
    text = str(error)
    if "(request " in text:
        return error
    named = copy(error)  # Others may have been given the same one.
    named.args = (f"{text} (request {request_id.hex()})",)
    return named


class Answered(NamedTuple):
    """An answer and the position it was given at.

    `cursor` is set if the list goes on. `stale`: the partition is in quarantine, this is its
    last good state.
    """

    value: object
    position: int
    cursor: str | None = None
    stale: bool = False


class Placement(NamedTuple):
    """The coordinator's order to a host: take on one partition in one role, or release it.

    Without an assignment the role is released if its placement's number is at most `until`.
    `is_moved`: another host takes it on, so the session stays open.
    """

    key: PartitionKey
    topic: str
    role: str
    assignment: Assignment | None
    until: int = 0
    is_moved: bool = False


class CloseCall(NamedTuple):
    """A broker no longer leads: close the session if it is that claim's."""

    key: PartitionKey
    claim: Claim


class Refusal(NamedTuple):
    """A host's report: the claim placed under `assignment` does not lead, `holder` does.

    `is_served`: the host leads on for the holder; otherwise the leader's actor has ended.
    """

    assignment: int
    holder: Claim | None
    leader_epoch: int | None
    import_cluster: str | None
    recorded_time_ms: int | None
    is_served: bool

    @classmethod
    def of(cls, refused: ClaimRefused) -> Refusal:
        """The report for the effect `refused`."""
        session = refused.session
        if session is None:
            return cls(refused.assignment, None, None, None, None, refused.is_served)
        imports = session.import_cluster is not None
        return cls(
            assignment=refused.assignment,
            holder=session.claim,
            leader_epoch=session.leader_epoch,
            import_cluster=session.import_cluster,
            recorded_time_ms=refused.log_time_ms if imports else None,
            is_served=refused.is_served,
        )


class CommonTime(NamedTuple):
    """The time by the clocks of all processes of the service, as the coordinator tells it."""

    ms: int
    """Milliseconds since 1970 when it was sent."""
    is_agreed: bool
    """Whether most clocks have that time; if not, it is an early one of several."""


class TopicDeletions(NamedTuple):
    """What leaders of one host have let brokers delete of a topic."""

    topic_id: bytes
    topic: str
    """Its name; empty if none of its leaders runs there any more."""
    tiered_bytes: int
    """Of its finished segments that are led there, as of some seconds ago."""
    minutes: tuple[tuple[int, int, int], ...]
    """Of the last hour: minute since 1970, bytes of finished segments whose deletion was let
    begin, and those of them that did not go with their whole partition."""


class DeletionReport(NamedTuple):
    """What has changed of a host's `TopicDeletions`."""

    number: int = 0
    """Of the newest change."""
    topics: tuple[TopicDeletions, ...] = ()


class DeletionsHeard(NamedTuple):
    """What the coordinator knows of a host's `TopicDeletions`."""

    process: str = ""
    number: int = -1
    """Of the newest change that this process has told."""
    topics: frozenset[bytes] = frozenset()
    """Topics of which other hosts have let go something."""


class HostPing(NamedTuple):
    """A host's answer to a ping of the coordinator: it lives, and this is its report."""

    process: str
    door: str | None = None
    lost: tuple[tuple[PartitionKey, int], ...] = ()
    """Leaders that ended there, and their assignments."""
    refused: tuple[tuple[PartitionKey, Refusal], ...] = ()
    """Claims that did not get to lead there."""
    behind: tuple[PartitionKey, ...] = ()
    """Partitions whose follower there has not caught up."""
    is_heard: bool = False
    """Whether brokers' clients have used its door lately."""
    doors: tuple[tuple[str, bool], ...] = ()
    """Other hosts' processes, by address, at whose doors it knocks, and whether they open."""
    clock_ms: int | None = None
    """The time of its own clock; None if it follows no common time."""
    newest: Former | None = None
    """The batch that it has committed last; its successor has to find it in the store."""
    deleted: DeletionReport = DeletionReport()
    tiered_bytes: int = 0
    """Of the finished segments of the partitions that it leads, as of some seconds ago."""
    runs: tuple[tuple[PartitionKey, str, int], ...] = ()
    """If more runs there than is placed: all of it, by partition, role and placement."""


class HostLoad(NamedTuple):
    """What a host's leaders are asked, since it was last told."""

    calls_per_s: float
    busiest: tuple[tuple[PartitionKey, float], ...] = ()
    """The partitions whose leaders are asked most, with their calls per second."""


# What a process that serves as a host is asked, beside calls about partitions.


class AskedHost(Protocol):
    """Answers clients, each request by the method that its `put_to` calls."""

    async def counts(self) -> dict[str, Any]: ...

    async def partitions(self) -> list[dict[str, Any]]: ...


class Purging(NamedTuple):
    """What a broker is purging of one partition, as far as a look has found it."""

    rows: Sequence[bytes]
    after: int
    """Behind which position the next look begins; -1: at the beginning."""
    due_ms: int | None
    """When the next of what the look has found is due; None: not by time alone."""
    keeps: bool
    """Whether the partition keeps anything."""


class CoordinatedHost(AskedHost, Protocol):
    """Answers the coordinator and other hosts, too."""

    async def ping(
        self,
        deletions: Deletions,
        time: CommonTime | None,
        placed: int | None = None,
        heard: DeletionsHeard = ...,
    ) -> HostPing: ...

    async def load(self) -> HostLoad | None: ...

    async def heed(self, deletions: Deletions) -> list[PartitionKey]: ...

    async def purge(self, key: PartitionKey, command: StartPurges | EndPurges) -> Purging: ...

    async def clean_up(self, key: PartitionKey, command: EndSegments) -> Sequence[bytes]: ...

    async def place(self, placements: Sequence[Placement]) -> None: ...

    async def close_sessions(self, closes: Sequence[CloseCall]) -> None: ...

    async def close(self) -> None: ...

    async def store(
        self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any: ...  # noqa: ANN401


class CountsCall(NamedTuple):
    """The host's names and door, and its counts since its process began."""

    def put_to(self, asked: AskedHost) -> Coroutine[Any, Any, dict[str, Any]]:
        return asked.counts()


class PartitionsCall(NamedTuple):
    """Role, phase and position of each leader and follower that runs there."""

    def put_to(self, asked: AskedHost) -> Coroutine[Any, Any, list[dict[str, Any]]]:
        return asked.partitions()


class PingCall(NamedTuple):
    """The host's report; that it comes shows that the host lives."""

    deletions: Deletions
    time: CommonTime | None
    """None if it is not known."""
    placed: int | None = None
    """How many leaders and followers are placed there; None while placements are being sent."""
    heard: DeletionsHeard = DeletionsHeard()

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, HostPing]:
        return asked.ping(*self)


class LoadCall(NamedTuple):
    """What the host's leaders are asked. A host of an earlier release does not know it."""

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, HostLoad | None]:
        return asked.load()


class HeedCall(NamedTuple):
    """Let no deletion begin that `deletions` forbids.

    On return none can become durable any more, but in the partitions that are returned.
    """

    deletions: Deletions

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, list[PartitionKey]]:
        return asked.heed(self.deletions)


class PurgeCall(NamedTuple):
    """Purge something of a partition that the host leads, for the command's origin."""

    key: PartitionKey
    command: StartPurges | EndPurges

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, Purging]:
        return asked.purge(*self)


class CleanUpCall(NamedTuple):
    """End segments that no broker ends, of a partition that the host leads; their rows then."""

    key: PartitionKey
    command: EndSegments

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, Sequence[bytes]]:
        return asked.clean_up(*self)


class PlaceCall(NamedTuple):
    """Take on, change or release partitions. Idempotent; older placements do nothing."""

    placements: Sequence[Placement]

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, None]:
        return asked.place(self.placements)


class CloseSessionsCall(NamedTuple):
    """End the sessions of brokers that no longer lead."""

    closes: Sequence[CloseCall]

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, None]:
        return asked.close_sessions(self.closes)


class RetireCall(NamedTuple):
    """Stop all partitions in good order; on return the process can be ended."""

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, None]:
        return asked.close()


class StoreCall(NamedTuple):
    """Call the host's own storage backend, for processes that may not write themselves."""

    method: str
    arguments: Sequence[Any]
    named: Mapping[str, Any]

    def put_to(self, asked: CoordinatedHost) -> Coroutine[Any, Any, Any]:
        return asked.store(*self)
