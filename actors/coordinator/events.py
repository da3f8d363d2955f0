"""The events of the coordinator's own log: its decisions. See `state`."""

from __future__ import annotations

from collections.abc import Coroutine
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias

from msgspec import Meta

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.holds import Hold
from tierledger.events.commands import Claim
from tierledger.events.event_codec import EventCodec
from tierledger.events.typed_fields import (
    INT32_MAX,
    Count,
    Id,
    PartitionNumber,
    Text,
    Topic,
)

BrokerId: TypeAlias = Annotated[int, Meta(ge=0, le=INT32_MAX)]
LeaderEpoch: TypeAlias = Annotated[int, Meta(ge=0, le=INT32_MAX)]

Item: TypeAlias = tuple[Id, PartitionNumber, Topic]
"""Topic id, partition, topic."""

LeaderItem: TypeAlias = tuple[Id, PartitionNumber, Topic, LeaderEpoch | None, Count | None]
"""Topic id, partition, topic, leader epoch if known, recorded time if history is imported."""

_new = tuple.__new__  # A named tuple's own constructor costs three times as much.


def key_of(item: Item | LeaderItem) -> PartitionKey:
    """The partition of an item of an announcement."""
    return _new(PartitionKey, item[:2])


class Announcement(NamedTuple):
    """The partitions that a broker leads, follows, or no longer hosts.

    An announcement with a greater pair of incarnation and number replaces those before it.
    """

    broker_id: BrokerId
    incarnation: Count
    number: Count
    leaders: tuple[LeaderItem, ...]
    followers: tuple[Item, ...]
    stopped: tuple[Item, ...]
    import_cluster: Text | None = None

    @property
    def claim(self) -> Claim:
        return Claim(self.broker_id, self.incarnation, self.number)

    def put_to(self, asked: Announcing) -> Coroutine[Any, Any, list[Claim]]:
        """The claim in force for each leader, then each follower; durable on return."""
        return asked.announce(self)


class Announcing(Protocol):
    """Takes announcements."""

    async def announce(self, announcement: Announcement) -> list[Claim]: ...


class ClientRegistered(NamedTuple):
    """A client represents `broker_id` from here on; older incarnations are fenced."""

    broker_id: int
    incarnation: int
    request: bytes | None = None
    """The registration's id, by which a repeat is recognised; None before version 2."""


class Announced(NamedTuple):
    """A broker announced itself; see `Announcement`."""

    broker_id: int
    incarnation: int
    number: int
    leaders: tuple[LeaderItem, ...]
    followers: tuple[Item, ...]
    stopped: tuple[Item, ...]
    import_cluster: str | None


ITEMS_MAX = 500
"""Partitions of one announcement, and placed by one round: 5 ms to decide or to apply. A client
with more announces in pieces; an event of an older log may have more."""


class LeadersPlaced(NamedTuple):
    """Leaders are placed on `host`: (topic id, partition, assignment number) each."""

    host: str
    partitions: tuple[tuple[bytes, int, int], ...]


class FollowersPlaced(NamedTuple):
    """Followers are placed on `host`: (topic id, partition) each."""

    host: str
    partitions: tuple[tuple[bytes, int], ...]


class HostStarted(NamedTuple):
    """A host joined, under a generation that no earlier process of its name had."""

    host: str
    generation: int
    process: str
    """The process's own name; a restarted process has another one."""
    address: str
    """Where the process is found; before version 2 that was the host's name."""


class HostLost(NamedTuple):
    """A host is gone; its partitions are placed on other hosts, or nowhere."""

    host: str


class LeaderLost(NamedTuple):
    """The leader placed under `assignment` has ended by itself, as a fenced one does."""

    topic_id: bytes
    partition: int
    assignment: int


class LeaderRefused(NamedTuple):
    """The log refused the claim placed under `assignment`, and holds `holder`'s session."""

    topic_id: bytes
    partition: int
    assignment: int
    holder: Claim | None
    """None if no session is open."""
    leader_epoch: int | None
    import_cluster: str | None
    recorded_time_ms: int | None
    is_served: bool
    """Whether the placed actor leads on for the holder; otherwise it has ended."""


class LeaderRestored(NamedTuple):
    """The claim in force was given up; that of `broker_id`, which it replaced, is restored."""

    topic_id: bytes
    partition: int
    broker_id: int


class PartitionForgotten(NamedTuple):
    """No broker hosts the partition, and an operator removed it."""

    topic_id: bytes
    partition: int


class Owner(StrEnum):
    """By whose manager the brokers of a cluster decide (ADR 0050)."""

    NOBODY = "nobody"
    KAFKA = "kafka"
    """Kafka's own manager."""
    TIERLEDGER = "tierledger"
    MOVING = "moving"
    """From one of those two to the other; brokers hold their writes."""


class OwnerChanged(NamedTuple):
    """From here on `owner` decides: an `Owner`, or a value that only newer releases know."""

    owner: str
    source: str = ""
    """During a move: the owner before, and (`heading`) after it. Empty before version 2."""
    heading: str = ""
    give_up_after_ms: int = 0
    """After so long without a further change the owner before the move is restored."""


class DeletionsHeld(NamedTuple):
    """From here on no leader lets a broker delete a finished segment; see `unowned`."""

    broker_id: int
    """The broker that ran without the plugin; `FOREIGN`: some broker wrote Kafka's topic."""
    incarnation: int
    """The broker's newest by then. A plugin that comes back under it was only silent."""
    since_ms: int
    foreign: int
    """Records of others that Kafka's topic had."""
    excused_ms: int
    """A plugin that had begun by then was only silent, too; 0: none was."""


class DeletionsReleased(NamedTuple):
    """The broker was only silent; None: an operator lets brokers delete again."""

    broker_id: int | None


class HoldPlaced(Hold):
    """From here on no leader lets a broker delete a segment that is under this hold."""


class HoldReleased(NamedTuple):
    """The hold ends."""

    name: str
    by: str
    reason: str


CoordinatorBody: TypeAlias = (
    ClientRegistered
    | Announced
    | LeadersPlaced
    | FollowersPlaced
    | HostStarted
    | HostLost
    | LeaderLost
    | LeaderRefused
    | LeaderRestored
    | PartitionForgotten
    | OwnerChanged
    | DeletionsHeld
    | DeletionsReleased
    | HoldPlaced
    | HoldReleased
)

COORDINATOR_CODEC = EventCodec(
    (
        (1, ClientRegistered, 2),
        (2, Announced, 1),
        (3, LeadersPlaced, 1),
        (4, FollowersPlaced, 1),
        (5, HostStarted, 2),
        (6, HostLost, 1),
        (7, LeaderLost, 1),
        (8, PartitionForgotten, 1),
        (9, LeaderRefused, 1),
        (10, LeaderRestored, 1),
        (11, OwnerChanged, 2),
        (12, DeletionsHeld, 2),
        (13, DeletionsReleased, 1),
        (14, HoldPlaced, 2),
        (15, HoldReleased, 1),
    ),
    {
        (1, 1): lambda fields: [*fields, None],
        (5, 1): lambda fields: [*fields, fields[0]],
        (11, 1): lambda fields: [*fields, "", "", 0],
        (12, 1): lambda fields: [*fields, 0],
        (14, 1): lambda fields: [*fields, None, 0],
    },
    is_strict=False,
)


class Registered(NamedTuple):
    """The answer to a registration."""

    incarnation: int
    """The client's incarnation; if it was given none, the broker's newest."""
    is_given: bool


class Route(NamedTuple):
    """Where a partition is served (addresses of hosts), and whether it is known at all."""

    known: bool
    leader_host: str | None
    follower_host: str | None
    leader: Claim | None
    topic: str = ""
    followers: tuple[Claim, ...] = ()

    def host(self, role: str) -> str | None:
        """The address of the host that serves the partition in `role`."""
        if role == LEADER:
            return self.leader_host
        return self.follower_host if role == FOLLOWER else None

    def serving(self, role: str) -> tuple[str, str] | None:
        """The address of the host that answers a call for `role`, and in which role it does.

        The leader answers if no host follows the partition, and for the storage; None: no host
        serves it.
        """
        for one in (role, LEADER):
            if (host := self.host(one)) is not None:
                return host, one
        return None
