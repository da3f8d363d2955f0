"""The status of a running service, from the answers of its coordinator and hosts.

Pure: `reading` asks, this module compares, `metrics` and the command `status` show the result.
A lag is counted in events, and exact for the two positions compared. These are read a few
milliseconds apart, so a busy follower may seem to lag a little more than it does. Times are not
compared, as the clocks of a leader's and a follower's machine may differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.no_brokers import NO_BROKERS
from tierledger.actors.processes import node_of
from tierledger.events.errors import RemoteResourceNotFound

LAG_NOTED_EVENTS = 1000
"""Events of lag from which a follower is in trouble; fewer are read by one poll."""

NAMED_MAX = 10
"""Most existing names that an error lists."""

COORDINATOR_FIELDS = (
    "owner",
    "owner_epoch",
    "source",
    "heading",
    "move",
    "node",
    "nodes",
    "attending",
    "shadows",
    "kafka",
    "owner_since_ms",
    "give_up_after_ms",
    "deletions_held",
    "deletions_held_text",
    "holds",
    "purges",
    "now_ms",
    "up_ms",
    "conditions",
    "position",
    "partitions",
    "unplaced",
    "set_aside",
    "set_aside_items",
)
"""Fields of the coordinator's status, besides hosts and brokers."""

QUARANTINED = "quarantined"
HOST_SILENT = "host-silent"
NO_LEADER = "no-leader"
LOADING = "loading"
NO_SESSION = "no-session"
BEHIND = "behind"

TROUBLES = {
    QUARANTINED: "its log does not verify: reads are stale, writes are refused",
    HOST_SILENT: "it is placed on a host that does not answer",
    NO_LEADER: "a broker leads it, and no host runs its leader yet",
    LOADING: "its log is being read",
    NO_SESSION: "its leader runs without an open session",
    BEHIND: f"a follower is {LAG_NOTED_EVENTS} events or more behind its leader",
}
"""The troubles of a partition, the worst first, by their codes in the list of troubles."""

_RANKS = {trouble: rank for rank, trouble in enumerate(TROUBLES)}


class HostReading(NamedTuple):
    """One host's answers, as far as it answered."""

    address: str | None = None
    counts: Mapping[str, Any] | None = None
    """The host's counts; None if it did not answer."""
    partitions: Sequence[Mapping[str, Any]] = ()
    silence: str | None = None
    """Why an answer is missing; None if none is."""


class Reading(NamedTuple):
    """All answers of a service."""

    coordinator: Mapping[str, Any] | None
    """The coordinator's `status`; None if it did not answer."""
    hosts: Mapping[str, HostReading]
    leader_hosts: Mapping[tuple[str, int], str | None]
    """For partitions that no answering host leads, the host on which the coordinator has placed
    the leader; None if no host has it. Partitions that no broker leads are absent."""


class HostStatus(NamedTuple):
    """The status of one host."""

    name: str
    address: str | None
    is_up: bool
    process: str | None
    """The name of its process; for a silent host the name with which it registered."""
    pid: int | None
    node: str | None
    """The Ray node that it runs on."""
    leaders: int | None
    followers: int | None
    commits: int | None
    batches: int | None
    waiting_max: int | None
    """Calls in its fullest inbox."""
    alarms: dict[str, int]
    placed: Mapping[str, int] | None
    """Leaders and followers that the coordinator has placed there."""
    heard_ms_ago: int | None
    """Milliseconds since its last answer to the coordinator, by the coordinator's clock."""
    silence: str | None
    door: str | None = None
    """The address for clients."""
    feeds: Mapping[str, int] = MappingProxyType({})
    """Counts of its feeds, with the names of `Feeds.counts`; empty for a silent host."""
    held_back: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """By hold: the deletions that its leaders refused; see `HeldBack`."""
    conditions: Sequence[Mapping[str, Any]] = ()
    """What its process says is wrong now; see `actors.conditions`."""
    checkpointed_ms: int | None = None
    """When a leader there stored a checkpoint last; None: none since its process began."""
    store_times: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """How long its store took, by operation; see `CallTimes.plain`."""
    door_times: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """How long calls at its door took, by outcome and operation; see `DoorTimes.plain`."""
    release: str | None = None
    """The release of tierledger that its process runs; None: silent, or older than telling."""

    def plain(self) -> dict[str, Any]:
        ratio = self.batches_per_commit
        return {
            **self._asdict(),
            "feeds": dict(self.feeds),
            "held_back": dict(self.held_back),
            "conditions": list(self.conditions),
            "store_times": dict(self.store_times),
            "door_times": dict(self.door_times),
            "batches_per_commit": ratio,
        }

    @property
    def batches_per_commit(self) -> float | None:
        """Average number of partitions' batches in one durable step."""
        if self.batches is None or not self.commits:
            return None
        return self.batches / self.commits


class ServedStatus(NamedTuple):
    """A leader or follower on a host."""

    host: str
    phase: str
    position: int
    lag_events: int | None
    """Events behind the leader; None for a leader, and if no leader answered."""
    reason: str | None
    """Why it is in quarantine."""
    remote_log_bytes: int = 0
    """Bytes of all its segments, in any state, each once."""
    copying_bytes: int = 0
    """Those of them that are of segments that are being copied."""


class PartitionStatus(NamedTuple):
    """The status of one partition, with its leader and followers."""

    topic: str
    topic_id: str
    partition: int
    trouble: str | None
    """The worst of its `TROUBLES`; None without any."""
    leader: ServedStatus | None
    placed_on: str | None
    """The leader's host, also if it is silent."""
    followers: tuple[ServedStatus, ...]
    session: Mapping[str, Any] | None
    disputes: int
    disputes_in_a_row: int
    """Disputes since the last session that opened without one."""
    last_dispute_ms: int | None
    """Log time of the last dispute in that row."""
    unexplained: Mapping[str, Any] | None = None
    """Deleted segments that are kept as no rule explains it: how many, since when, and why."""
    kept: Mapping[str, Any] | None = None
    """Deleted segments whose data stays: how many, their bytes, since when, and until when the
    first one stays."""

    @property
    def key(self) -> tuple[str, int]:
        return self.topic_id, self.partition

    @property
    def position(self) -> int:
        """The last position that its leader or a follower has applied."""
        served = [*([self.leader] if self.leader else []), *self.followers]
        return max((one.position for one in served), default=-1)

    @property
    def hosts(self) -> list[str]:
        """The names of all hosts that serve it, or on which it is placed."""
        placed = [] if self.placed_on is None else [self.placed_on]
        return [*placed, *(one.host for one in self.followers)]

    @property
    def lag_max(self) -> int:
        return max((one.lag_events or 0 for one in self.followers), default=0)

    @property
    def has_open_session(self) -> bool:
        return self.session is not None and bool(self.session["is_open"])

    def plain(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "position": self.position,
            "leader": None if self.leader is None else self.leader._asdict(),
            "followers": [one._asdict() for one in self.followers],
            "session": None if self.session is None else dict(self.session),
        }


class ServiceStatus(NamedTuple):
    """The status of a service; partitions worst first, then by topic and number."""

    coordinator: dict[str, Any] | None
    brokers: dict[int, dict[str, Any]]
    hosts: list[HostStatus]
    partitions: list[PartitionStatus]

    def plain(self) -> dict[str, Any]:
        return {
            "coordinator": self.coordinator,
            "brokers": self.brokers,
            "hosts": [one.plain() for one in self.hosts],
            "totals": self.totals(),
            "partitions": [one.plain() for one in self.partitions],
        }

    def holds(self) -> list[dict[str, Any]]:
        """The holds that operators have placed, each with the deletions that it has stopped.

        These are counted since the hosts' processes began.
        """
        found = []
        for hold in (self.coordinator or {}).get("holds") or ():  # An older service has none.
            name = hold["name"]
            told = [one.held_back[name] for one in self.hosts if name in one.held_back]
            newest = max(told, key=lambda one: int(one["last_ms"]), default=None)
            stopped = {
                "refused": sum(one["times"] for one in told),
                "refused_since_ms": min((one["since_ms"] for one in told), default=None),
                "refused_last_ms": None if newest is None else newest["last_ms"],
                "refused_last": None if newest is None else newest["last"],
            }
            found.append({**hold, **stopped})
        return found

    def narrowed(
        self, topic: str | None = None, partition: int | None = None, host: str | None = None
    ) -> ServiceStatus:
        """The status of only that topic (a name or an id), that partition number and that host.

        Raises:
            RemoteResourceNotFound: The service serves no such topic or partition, or has no
                such host.
        """
        found = self
        if topic is not None:
            wanted = [one for one in self.partitions if topic in (one.topic, one.topic_id)]
            served = list(dict.fromkeys(one.topic for one in self.partitions))
            _require(wanted, "serves no topic", topic, served)
            found = found._replace(partitions=wanted)
        if partition is not None:
            served = list(dict.fromkeys(str(one.partition) for one in found.partitions))
            wanted = [one for one in found.partitions if one.partition == partition]
            _require(wanted, "serves no partition", str(partition), served)
            found = found._replace(partitions=wanted)
        if host is not None:
            known = [one.name for one in self.hosts]
            _require(host in known, "has no host", host, known)
            here = [one for one in found.partitions if host in one.hosts]
            hosts = [one for one in found.hosts if one.name == host]
            found = found._replace(partitions=here, hosts=hosts)
        return found

    def totals(self) -> dict[str, Any]:
        """Counts over all partitions and hosts."""
        troubles = dict.fromkeys(TROUBLES, 0)
        for one in self.partitions:
            if one.trouble is not None:
                troubles[one.trouble] += 1
        known = self.coordinator
        return {
            "partitions_known": None if known is None else known["partitions"],
            "partitions_served": len(self.partitions),
            "partitions_led": sum(one.leader is not None for one in self.partitions),
            "sessions_open": sum(one.has_open_session for one in self.partitions),
            "followers": sum(len(one.followers) for one in self.partitions),
            "lag_events_max": max((one.lag_max for one in self.partitions), default=0),
            "disputes": sum(one.disputes for one in self.partitions),
            "hosts_silent": sum(not one.is_up for one in self.hosts),
            "leaders_on_silent_hosts": sum(
                one.placed["leaders"] for one in self.hosts if one.placed and not one.is_up
            ),
            "troubles": troubles,
        }


def _require(found: object, what: str, name: str, known: Sequence[str]) -> None:
    if not found:
        more = f" and {len(known) - NAMED_MAX} more" if len(known) > NAMED_MAX else ""
        listed = f"{', '.join(known[:NAMED_MAX])}{more}" if known else "none"
        raise RemoteResourceNotFound(f"the service {what} {name!r}; there are {listed}")


def status_of(reading: Reading) -> ServiceStatus:
    coordinator = reading.coordinator
    served: dict[tuple[str, int], list[tuple[str, Mapping[str, Any]]]] = {}
    for name, host in reading.hosts.items():
        for one in host.partitions:
            served.setdefault((one["topic_id"], one["partition"]), []).append((name, one))
    partitions = [_partition(key, rows, reading) for key, rows in served.items()]
    partitions.sort(key=_order)
    brokers = {} if coordinator is None else coordinator["brokers"]
    return ServiceStatus(
        None
        if coordinator is None
        else {name: coordinator.get(name) for name in COORDINATOR_FIELDS},
        {
            broker: dict(one)
            for broker, one in sorted(brokers.items())
            if broker not in NO_BROKERS
        },
        [
            _host(name, host, coordinator or {})
            for name, host in sorted(reading.hosts.items(), key=lambda one: _natural(one[0]))
        ],
        partitions,
    )


def _order(one: PartitionStatus) -> tuple[int, int, str, str, int]:
    rank = len(_RANKS) if one.trouble is None else _RANKS[one.trouble]
    return rank, -one.lag_max, one.topic, one.topic_id, one.partition


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key by which host-2 comes before host-10."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(one), "") if one.isdecimal() else (-1, one) for one in parts]


def _host(name: str, host: HostReading, coordinator: Mapping[str, Any]) -> HostStatus:
    counts = host.counts or {}
    process = counts.get("process") or coordinator.get("hosts", {}).get(name)
    waiting = [one["waiting"] for one in host.partitions]
    return HostStatus(
        name=name,
        address=host.address,
        is_up=host.counts is not None,
        process=process,
        pid=counts.get("pid"),
        node=node_of(process or ""),
        leaders=counts.get("leaders"),
        followers=counts.get("followers"),
        commits=counts.get("commits"),
        batches=counts.get("batches"),
        waiting_max=None if host.counts is None else max(waiting, default=0),
        alarms=dict(counts.get("alarms", {})),
        placed=coordinator.get("placed", {}).get(name),
        heard_ms_ago=coordinator.get("heard_ms_ago", {}).get(name),
        silence=host.silence,
        door=counts.get("door"),
        feeds=dict(counts.get("feeds", {})),
        held_back=dict(counts.get("held_back", {})),
        conditions=counts.get("conditions", ()),
        checkpointed_ms=counts.get("checkpointed_ms"),
        store_times=dict(counts.get("store_times", {})),
        door_times=dict(counts.get("door_times", {})),
        release=counts.get("release"),
    )


def _partition(
    key: tuple[str, int], rows: list[tuple[str, Mapping[str, Any]]], reading: Reading
) -> PartitionStatus:
    # Of two leaders one is a zombie that has not noticed yet: the later session leads.
    leaders = [row for row in rows if row[1]["role"] == LEADER]
    leading = max(leaders, key=_newest, default=None)
    newest = leading or max(rows, key=_newest)
    head = None if leading is None else int(leading[1]["position"])
    followers = [_served(row, head) for row in rows if row[1]["role"] == FOLLOWER]
    leader = None if leading is None else _served(leading, None)
    report = newest[1]
    found = PartitionStatus(
        topic=report["topic"],
        topic_id=key[0],
        partition=key[1],
        trouble=None,
        leader=leader,
        placed_on=reading.leader_hosts.get(key) if leader is None else leader.host,
        followers=tuple(sorted(followers, key=lambda one: _natural(one.host))),
        session=report["session"],
        disputes=report["disputes"],
        disputes_in_a_row=report["disputes_in_a_row"],
        last_dispute_ms=report["last_dispute_ms"],
        unexplained=report.get("unexplained"),
        kept=report.get("kept"),
    )
    return found._replace(trouble=_trouble(found, reading, is_deleted=report["is_deleted"]))


def _newest(row: tuple[str, Mapping[str, Any]]) -> tuple[int, int]:
    session = row[1]["session"]
    return -1 if session is None else session["number"], row[1]["position"]


def _served(row: tuple[str, Mapping[str, Any]], head: int | None) -> ServedStatus:
    host, report = row
    lag = None if head is None else max(0, head - report["position"])
    return ServedStatus(
        host=host,
        phase=report["phase"],
        position=report["position"],
        lag_events=lag,
        reason=report["reason"],
        remote_log_bytes=report["remote_log_bytes"],
        copying_bytes=report["copying_bytes"],
    )


def _trouble(one: PartitionStatus, reading: Reading, *, is_deleted: bool) -> str | None:
    leader = one.leader
    phases = {served.phase for served in (leader, *one.followers) if served is not None}
    if QUARANTINED in phases:
        return QUARANTINED
    if leader is None and one.placed_on is not None:
        host = reading.hosts.get(one.placed_on)
        return HOST_SILENT if host is None or host.counts is None else NO_LEADER
    if leader is None and one.key in reading.leader_hosts:
        return NO_LEADER
    if LOADING in phases:
        return LOADING
    if leader is not None and not one.has_open_session and not is_deleted:
        return NO_SESSION
    return BEHIND if one.lag_max >= LAG_NOTED_EVENTS else None
