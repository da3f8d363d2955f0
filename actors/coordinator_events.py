"""What the coordinator knows, as events of its own log and the state they fold to."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import Claim
from tierledger.events.event_codec import EventCodec

Item: TypeAlias = tuple[bytes, int, str]
"""Topic id, partition, topic."""

LeaderItem: TypeAlias = "tuple[bytes, int, str, int | None, int | None]"
"""Topic id, partition, topic, leader epoch if known, recorded time if history is imported."""


class Announcement(NamedTuple):
    """A broker's word on which partitions it leads, follows, or hosts no more.

    Newer pairs of incarnation and number replace older ones.
    """

    broker_id: int
    incarnation: int
    number: int
    leaders: tuple[LeaderItem, ...]
    followers: tuple[Item, ...]
    stopped: tuple[Item, ...]
    import_cluster: str | None = None

    @property
    def claim(self) -> Claim:
        return Claim(self.broker_id, self.incarnation, self.number)


class ClientRegistered(NamedTuple):
    """A client speaks for `broker_id` from here on; older incarnations are ignored."""

    broker_id: int
    incarnation: int


class Announced(NamedTuple):
    """A broker announced itself; see `Announcement`."""

    broker_id: int
    incarnation: int
    number: int
    leaders: tuple[LeaderItem, ...]
    followers: tuple[Item, ...]
    stopped: tuple[Item, ...]
    import_cluster: str | None


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


class HostLost(NamedTuple):
    """A host is gone; what it served is served elsewhere or nowhere."""

    host: str


class LeaderLost(NamedTuple):
    """The leader actor under `assignment` ended, as one does that was overtaken."""

    topic_id: bytes
    partition: int
    assignment: int


class PartitionForgotten(NamedTuple):
    """Nobody hosts the partition, and an operator removed it."""

    topic_id: bytes
    partition: int


CoordinatorBody: TypeAlias = (
    ClientRegistered
    | Announced
    | LeadersPlaced
    | FollowersPlaced
    | HostStarted
    | HostLost
    | LeaderLost
    | PartitionForgotten
)

COORDINATOR_CODEC = EventCodec(
    (
        (1, ClientRegistered, 1),
        (2, Announced, 1),
        (3, LeadersPlaced, 1),
        (4, FollowersPlaced, 1),
        (5, HostStarted, 1),
        (6, HostLost, 1),
        (7, LeaderLost, 1),
        (8, PartitionForgotten, 1),
    )
)


class Leadership(NamedTuple):
    """Who leads a partition, as announced."""

    claim: Claim
    leader_epoch: int | None
    import_cluster: str | None
    recorded_time_ms: int | None
    assignment: int
    """Number of the placement that is to open its session; 0 until it is placed."""


class Entry:
    """One partition as the coordinator knows it."""

    __slots__ = ("follower_host", "followers", "leader_host", "leadership", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.leadership: Leadership | None = None
        self.leader_host: str | None = None
        """Where the leader actor runs; it stays while nobody leads, to take the next claim."""
        self.followers: dict[int, Claim] = {}
        self.follower_host: str | None = None

    @property
    def is_hosted(self) -> bool:
        return self.leadership is not None or bool(self.followers)


class Route(NamedTuple):
    """Where a partition is served: host names, and whether it is known at all."""

    known: bool
    leader_host: str | None
    follower_host: str | None
    leader: Claim | None
    topic: str = ""
    followers: tuple[Claim, ...] = ()


class CoordinatorState:
    """The fold of the coordinator's log. Only `evolve` changes it."""

    def __init__(self, chain_hash: bytes) -> None:
        self.next_position = 0
        self.chain_hash = chain_hash
        self.incarnations: dict[int, int] = {}
        self.announced: dict[int, tuple[int, int]] = {}
        self.partitions: dict[PartitionKey, Entry] = {}
        self.hosts: dict[str, str] = {}
        """Host to the process that serves under its name."""
        self.generation = 0
        self.assignment = 0

    def route(self, key: PartitionKey) -> Route:
        entry = self.partitions.get(key)
        if entry is None:
            return Route(known=False, leader_host=None, follower_host=None, leader=None)
        led = entry.leadership
        return Route(
            known=True,
            leader_host=entry.leader_host,
            follower_host=entry.follower_host,
            leader=None if led is None else led.claim,
            topic=entry.topic,
            followers=tuple(entry.followers.values()),
        )
