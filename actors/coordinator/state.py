"""The coordinator's state: the fold of its log, and the indexes that placing needs.

Neither an announcement nor the loss of a host may cost a walk over all partitions. So indexes
of what runs where, and of what has no place yet, are kept beside the entries.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from typing_extensions import override

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.coordinator.events import DeletionsHeld, Route
from tierledger.actors.coordinator.ownership import Ownership
from tierledger.actors.holds import Hold
from tierledger.events.commands import Claim

Seat = tuple[PartitionKey, str]
"""A partition and a role: what takes up one place of a host."""


REGISTRATIONS_KEPT = 8
"""Newest registrations of a broker that are kept so that their repeats are recognised."""


class SetAside(NamedTuple):
    """Something that cannot be carried out, and since when (ms) this is known."""

    what: str
    reason: str
    since_ms: int
    broker_id: int | None = None
    """The broker that announced it; out of date once that broker registers anew."""


class PlacedHold(NamedTuple):
    """A hold, and the log time at which it was placed (ms)."""

    hold: Hold
    since_ms: int


class Leadership(NamedTuple):
    """The claim by which a broker leads a partition, as announced."""

    claim: Claim
    leader_epoch: int | None
    import_cluster: str | None
    recorded_time_ms: int | None
    assignment: int
    """Number of the placement that is to open its session; 0 until it is placed."""


class Entry:
    """One partition as the coordinator knows it."""

    __slots__ = (
        "displaced",
        "follower_host",
        "follower_number",
        "followers",
        "leader_host",
        "leader_number",
        "leadership",
        "stopped",
        "topic",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.leadership: Leadership | None = None
        self.leader_host: str | None = None
        """Where the leader actor runs. It stays while no broker leads, for the next claim."""
        self.leader_number = 0
        """Number of that actor's last placement."""
        self.followers: dict[int, Claim] = {}
        self.displaced: dict[int, Leadership] = {}
        """By broker: claims that another broker's claim has replaced, and not given up.

        The newest comes last. The partition's log may still hold the session of one of them, as
        while the newer claim waits for the oracle, and one may be restored (`displaced`).
        """
        self.stopped: dict[int, Claim] = {}
        """By broker that no longer hosts the partition: the announcement that ended it."""
        self.follower_host: str | None = None
        self.follower_number = 0
        """Number of the follower's placement: its event's position in the coordinator's log."""

    @property
    def placed(self) -> int:
        """Number of the placement by which its leader runs; 0: its claim is to be placed."""
        return self.leader_number if self.leadership is None else self.leadership.assignment

    @property
    def is_hosted(self) -> bool:
        return self.leadership is not None or bool(self.followers)

    def copy(self) -> Entry:
        copied = Entry(self.topic)
        copied.leadership = self.leadership
        copied.leader_host = self.leader_host
        copied.leader_number = self.leader_number
        copied.followers = dict(self.followers)
        copied.displaced = dict(self.displaced)
        copied.stopped = dict(self.stopped)
        copied.follower_host = self.follower_host
        copied.follower_number = self.follower_number
        return copied


class CoordinatorState:
    """The fold of the coordinator's log. Only `evolve` changes it."""

    def __init__(self, chain_hash: bytes) -> None:
        self.next_position = 0
        self.chain_hash = chain_hash
        self.ownership = Ownership()
        """The owner of the cluster's remote log metadata."""
        self.owner_since_ms: int | None = None
        """Log time of the newest change of the owner; None: there was none."""
        self.held: dict[int, DeletionsHeld] = {}
        """By broker, or `unowned.FOREIGN`: why leaders let brokers delete no segment."""
        self.holds: dict[str, PlacedHold] = {}
        """By name: the holds that operators have placed, also those whose time is over."""
        self.released_ms: dict[str, int] = {}
        """By name: when a hold that the breaker had placed was released last."""
        self.held_at = -1
        """The position of the newest event about that."""
        self.foreign = 0
        """Records of others in Kafka's topic that such an event told of."""
        self.incarnations: dict[int, int] = {}
        self.registrations: dict[int, dict[bytes, int]] = {}
        """By broker: its last registrations, each request with the incarnation it was given."""
        self.announced: dict[int, tuple[int, int]] = {}
        self.announced_before_change: dict[int, tuple[int, int]] = {}
        """`announced` as it was at the last change of the owner."""
        self.heard: dict[int, tuple[int, int]] = {}
        """Not from the log: the newest announcement of each broker that was decided on here,
        also if that changed nothing."""
        self.set_aside: dict[str, SetAside] = {}
        """Items of the log that cannot be carried out."""
        self.partitions: dict[PartitionKey, Entry] = {}
        self.hosts: dict[str, str] = {}
        """By host: the process that serves under its name."""
        self.addresses: dict[str, str] = {}
        """By host: where that process is found."""
        self.generations: dict[str, int] = {}
        """By host: the number of its last process, also of one that is gone."""
        self.assignment = 0
        self.seats: dict[str, dict[Seat, None]] = {}
        """By host: the seats that are placed there."""
        self.loads: Counter[str] = Counter()
        """By host: how many leaders and followers run there."""
        self.unplaced: dict[Seat, None] = {}
        """Seats that are announced and placed nowhere."""
        self.together: dict[PartitionKey, None] = {}
        """Partitions whose leader and follower would be lost with the same host."""

    def draft(self) -> CoordinatorState:
        """A copy on which the next decisions are made; this state stays as it is.

        The copy's indexes know only what those decisions change. So it cannot tell which seats
        are lost with a host.
        """
        draft = CoordinatorState(self.chain_hash)
        draft.next_position = self.next_position
        draft.ownership = self.ownership
        draft.owner_since_ms = self.owner_since_ms
        draft.held, draft.held_at = dict(self.held), self.held_at
        draft.foreign = self.foreign
        draft.holds, draft.released_ms = dict(self.holds), dict(self.released_ms)
        draft.incarnations = dict(self.incarnations)
        draft.registrations = {
            broker: dict(known) for broker, known in self.registrations.items()
        }
        draft.announced = dict(self.announced)
        draft.announced_before_change = self.announced_before_change
        draft.heard = dict(self.heard)
        draft.partitions = _CopiedEntries(self.partitions)
        draft.hosts = dict(self.hosts)
        draft.addresses = dict(self.addresses)
        draft.generations = dict(self.generations)
        draft.assignment = self.assignment
        draft.loads = self.loads.copy()
        return draft

    def seat(self, key: PartitionKey, entry: Entry, role: str, host: str | None) -> None:
        """Note that the partition's `role` is placed on `host` now; None: nowhere."""
        former = entry.leader_host if role == LEADER else entry.follower_host
        if former is not None:
            self.seats.get(former, {}).pop((key, role), None)
            self.loads[former] -= 1
        if host is not None:
            self.seats.setdefault(host, {})[key, role] = None
            self.loads[host] += 1
        if role == LEADER:
            entry.leader_host = host
        else:
            entry.follower_host = host

    def review(self, key: PartitionKey, entry: Entry) -> None:
        """Update the indexes of what has no place; call after every change of `entry`."""
        led = entry.leadership
        self._note((key, LEADER), lacks=led is not None and led.assignment == 0)
        self._note((key, FOLLOWER), lacks=bool(entry.followers) and entry.follower_host is None)
        if entry.leader_host is not None and entry.leader_host == entry.follower_host:
            self.together[key] = None
        else:
            self.together.pop(key, None)

    def _note(self, seat: Seat, *, lacks: bool) -> None:
        if lacks:
            self.unplaced.setdefault(seat)
        else:
            self.unplaced.pop(seat, None)

    def route(self, key: PartitionKey) -> Route:
        entry = self.partitions.get(key)
        if entry is None:
            return Route(known=False, leader_host=None, follower_host=None, leader=None)
        led = entry.leadership
        return Route(
            known=True,
            leader_host=self.addresses.get(entry.leader_host or ""),
            follower_host=self.addresses.get(entry.follower_host or ""),
            leader=None if led is None else led.claim,
            topic=entry.topic,
            followers=tuple(entry.followers.values()),
        )


class _CopiedEntries(dict[PartitionKey, Entry]):
    """Entries on top of others: an entry is copied when it is first asked for."""

    def __init__(self, base: dict[PartitionKey, Entry]) -> None:
        super().__init__()
        self._base = base

    @override
    def get(self, key: PartitionKey, default: None = None) -> Entry | None:  # type: ignore[override]
        try:
            return self[key]
        except KeyError:
            return default

    def __missing__(self, key: PartitionKey) -> Entry:
        copied = self[key] = self._base[key].copy()
        return copied
