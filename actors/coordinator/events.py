"""What the coordinator decides, as events of its own log; see `state`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple, TypeAlias

from tierledger.events.commands import Claim
from tierledger.events.event_codec import EventCodec
from tierledger.events.typed_fields import (
    INT32_MAX,
    Count,
    Id,
    PartitionNumber,
    Text,
    Topic,
    Within,
)

BrokerId: TypeAlias = Annotated[int, Within(0, INT32_MAX)]
LeaderEpoch: TypeAlias = Annotated[int, Within(0, INT32_MAX)]

Item: TypeAlias = tuple[Id, PartitionNumber, Topic]
"""Topic id, partition, topic."""

LeaderItem: TypeAlias = tuple[Id, PartitionNumber, Topic, LeaderEpoch | None, Count | None]
"""Topic id, partition, topic, leader epoch if known, recorded time if history is imported."""


class Announcement(NamedTuple):
    """A broker's word on which partitions it leads, follows, or hosts no more.

    Newer pairs of incarnation and number replace older ones.
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


class ClientRegistered(NamedTuple):
    """A client speaks for `broker_id` from here on; older incarnations are ignored."""

    broker_id: int
    incarnation: int
    request: bytes | None = None
    """By which a repeat is recognised; none before version 2."""


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
"""Partitions of one announcement, and of what is placed at once: 5 ms to decide or to apply.
A client with more announces in pieces; an event of an older log may have more."""


class LeadersPlaced(NamedTuple):
    """Partitions are led from `host`: (topic id, partition, assignment number) each."""

    host: str
    partitions: tuple[tuple[bytes, int, int], ...]


class FollowersPlaced(NamedTuple):
    """Partitions are followed on `host`: (topic id, partition) each."""

    host: str
    partitions: tuple[tuple[bytes, int], ...]


class HostStarted(NamedTuple):
    """A host joined, under a generation that no earlier process of its name had."""

    host: str
    generation: int
    process: str
    """What the process calls itself; a restarted one has another name."""
    address: str
    """Under what it is found; before version 2 that was the host's name."""


class HostLost(NamedTuple):
    """A host is gone; what it served is served elsewhere or nowhere."""

    host: str


class LeaderLost(NamedTuple):
    """The leader actor under `assignment` ended, as one does that was overtaken."""

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
    """Whether the actor that was to lead leads on for the holder; otherwise it has ended."""


class LeaderRestored(NamedTuple):
    """The claim in force was given up, and the one of `broker_id` that it replaced stands."""

    topic_id: bytes
    partition: int
    broker_id: int


class PartitionForgotten(NamedTuple):
    """Nobody hosts the partition, and an operator removed it."""

    topic_id: bytes
    partition: int


class Owner(StrEnum):
    """Whose word on a cluster's remote log metadata counts with its brokers (ADR 0050)."""

    NOBODY = "nobody"
    KAFKA = "kafka"
    """Kafka's own manager."""
    TIERLEDGER = "tierledger"
    MOVING = "moving"
    """From one of those two to the other; brokers hold their writes."""


class OwnerChanged(NamedTuple):
    """From here on `owner` decides; an `Owner`, or one that a newer release knows."""

    owner: str
    source: str = ""
    """While it is moving: whose it was, and whose it is to be. Empty before version 2."""
    heading: str = ""
    give_up_after_ms: int = 0
    """After so long without a further word it is as before."""


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
    ),
    {
        (1, 1): lambda fields: [*fields, None],
        (5, 1): lambda fields: [*fields, fields[0]],
        (11, 1): lambda fields: [*fields, "", "", 0],
    },
    is_strict=False,
)


class Registered(NamedTuple):
    """What became of a registration."""

    incarnation: int
    """The client's; or the newest of its broker, if it was not given one."""
    is_given: bool


class Route(NamedTuple):
    """Where a partition is served (addresses of hosts), and whether it is known at all."""

    known: bool
    leader_host: str | None
    follower_host: str | None
    leader: Claim | None
    topic: str = ""
    followers: tuple[Claim, ...] = ()
