"""What travels between clients, coordinator and hosts. All of it pickles."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tierledger.actors.messages import Assignment, Query
from tierledger.events.commands import Claim, Command
from tierledger.events.identifiers import TopicIdPartition, Uuid

LEADER = "leader"
FOLLOWER = "follower"
STORAGE = "storage"
"""Not an actor: the host reads the partition from its store, for that call only."""


class PartitionKey(NamedTuple):
    """A partition's identity: topic id and number; the name is left out."""

    topic_id: bytes
    partition: int

    @classmethod
    def of(cls, topic_id_partition: TopicIdPartition) -> PartitionKey:
        return cls(bytes(topic_id_partition.topic_id), topic_id_partition.partition)

    def named(self, topic: str) -> TopicIdPartition:
        """The partition with its topic's name."""
        return TopicIdPartition(Uuid(self.topic_id), self.partition, topic)


class CommandCall(NamedTuple):
    """Change something; the result is the position from which it holds."""

    key: PartitionKey
    command: Command


class QueryCall(NamedTuple):
    """Ask something of the leader or of a follower; the result is an `Answered`."""

    key: PartitionKey
    role: str
    query: Query
    position_min: int = -1
    timeout_ms: int = 10_000


class ReadyCall(NamedTuple):
    """Whether what `claim` announced is in force here; the result is a bool."""

    key: PartitionKey
    role: str
    claim: Claim


class PageCall(NamedTuple):
    """The next page of a list; the result is an `Answered`."""

    cursor: str


class ResumeCall(NamedTuple):
    """The result of an earlier call that was `Pending`."""

    ticket: int


class Pending(NamedTuple):
    """Not a result yet: ask the same process for it with a `ResumeCall`."""

    ticket: int


Call: TypeAlias = CommandCall | QueryCall | ReadyCall | PageCall | ResumeCall


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
    """The coordinator's word to a host about one partition and role.

    Without an assignment the role is released, if its number is at most `until`.
    """

    key: PartitionKey
    topic: str
    role: str
    assignment: Assignment | None
    until: int = 0


class CloseCall(NamedTuple):
    """A broker leads no more: close the session if it is that claim's."""

    key: PartitionKey
    claim: Claim
