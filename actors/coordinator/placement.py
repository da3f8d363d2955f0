"""Where leaders and followers go, which hosts there should be, and on which node. Pure.

Rule 1: a leader or follower that runs stays where it is. Others go to the host with the fewest,
among those that have room. A host has room for `partitions_per_host` leaders and followers.
Rule 2: a follower runs on another host than its leader where there is a choice, and moves once
there is.
Rule 3: a leader whose host was lost goes to the host of its follower, if that has caught up,
even if that host is full for a moment: the partition has to be served again first, and the
follower moves on. That it has caught up is a hint and may be wrong; the leader reads the log in
any case.
Rule 4: partitions without room call for further hosts, up to `HOSTS_MAX`.
Rule 5: a host that is closed gets nothing new. If clients cannot reach it, what runs there
moves to others, as far as they have room, as if it was lost.
Rule 6: if one host has many more leaders than another that has been well for a while, leaders
move from the one to the other, one at a time, as an exception to rule 1.
Rule 7: so do leaders of hosts with about as many, if those of the one are asked much more. The
leader moves that makes both most equal, and only if rule 6 would not move another one back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from tierledger.actors.calls import LEADER, HostLoad, PartitionKey
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.events import CoordinatorBody
from tierledger.actors.coordinator.state import CoordinatorState, Entry, Seat

PARTITIONS_PER_HOST = 4096
"""Leaders and followers of a host by default: some hundred MB of them."""

HOSTS_MAX = 1000
"""Hosts of one service, however many are called for: 50 GB of idle processes."""

SPREAD = 4
SPREAD_SHARE = 4
"""Hosts may differ by so many leaders, and by this part of an average host's leaders."""

CALLS_SPREAD = 50.0
CALLS_SPREAD_SHARE = 2
"""Hosts may differ by so many calls per second, and by this part of an average host's."""

WRITER = "host-0"
"""The host that writes for all, where a store has one writer."""


class ClosedHosts(NamedTuple):
    """Hosts that run, and are not to be used as others are."""

    hosts: frozenset[str]
    """They get nothing new."""
    emptied: frozenset[str]
    """Those of them whose leaders and followers move away."""


ALL_OPEN = ClosedHosts(frozenset(), frozenset())

NO_LOADS: Mapping[str, HostLoad] = MappingProxyType({})


class _Room:
    """Finds the host that runs the fewest leaders and followers and has room for one more."""

    def __init__(
        self, state: CoordinatorState, partitions_per_host: int, closed: ClosedHosts
    ) -> None:
        self._bound = partitions_per_host
        self._loads = {host: state.loads[host] for host in state.hosts.keys() - closed.hosts}
        self._heap = [(load, host) for host, load in self._loads.items()]
        heapify(self._heap)

    def add(self, host: str, count: int = 1) -> None:
        if host in self._loads:  # Else it is closed.
            self._loads[host] += count
            heappush(self._heap, (self._loads[host], host))

    def least(self, avoid: str | None = None, *, strictly: bool = False) -> str | None:
        """The host with the fewest; `avoid` only if there is no other, `strictly`: never."""
        avoided: tuple[int, str] | None = None
        found: str | None = None
        while self._heap:
            load, host = self._heap[0]
            if self._loads[host] != load or load >= self._bound:
                heappop(self._heap)  # An outdated load, or a full host.
            elif host == avoid:
                avoided = heappop(self._heap)
            else:
                found = host
                break
        if avoided is not None:
            heappush(self._heap, avoided)
            if found is None and not strictly:
                found = avoided[1]
        return found


class _Placing:
    """The placements of one round, collected by host."""

    def __init__(
        self, state: CoordinatorState, partitions_per_host: int, closed: ClosedHosts
    ) -> None:
        self.state = state
        self.closed = closed
        self.room = _Room(state, partitions_per_host, closed)
        self.number = state.assignment
        self.leaders: dict[str, list[tuple[bytes, int, int]]] = {}
        self.followers: dict[str, list[tuple[bytes, int]]] = {}
        self.homes: dict[PartitionKey, str] = {}
        self.followed: set[PartitionKey] = set()
        self.count = 0

    def lead(self, key: PartitionKey, entry: Entry, *, is_behind: bool) -> None:
        home = entry.leader_host
        if home is None or home in self.closed.emptied:
            follower, closed = entry.follower_host, self.closed.hosts
            if follower is not None and follower not in closed and not is_behind:
                found: str | None = follower
            else:
                found = self.room.least()
            if found is not None:
                self.room.add(found)
                home = found
            elif home is None or (key, LEADER) not in self.state.unplaced:
                return
        self.number += 1
        self.count += 1
        self.homes[key] = home
        self.leaders.setdefault(home, []).append((*key, self.number))

    def follow(self, key: PartitionKey, entry: Entry, *, must_move: bool = False) -> None:
        led_from = self.homes.get(key, entry.leader_host)
        host = self.room.least(led_from, strictly=must_move)
        if host is not None:
            if entry.follower_host is not None:
                self.room.add(entry.follower_host, -1)
            self.room.add(host)
            self.count += 1
            self.followed.add(key)
            self.followers.setdefault(host, []).append(key)

    @property
    def is_full(self) -> bool:
        """Whether the rest has to wait for the next event."""
        return self.count >= ev.ITEMS_MAX

    def bodies(self) -> list[CoordinatorBody]:
        led = [ev.LeadersPlaced(host, tuple(new)) for host, new in sorted(self.leaders.items())]
        followed = [
            ev.FollowersPlaced(host, tuple(new)) for host, new in sorted(self.followers.items())
        ]
        return [*led, *followed]


def place(
    state: CoordinatorState,
    partitions_per_host: int = PARTITIONS_PER_HOST,
    behind: Collection[PartitionKey] = (),
    closed: ClosedHosts = ALL_OPEN,
) -> list[CoordinatorBody]:
    """Events that place announced partitions that run nowhere, as far as hosts have room.

    And those that run where clients cannot reach them.

    They place at most `ITEMS_MAX` seats; call again once they are in the log.

    `behind`: partitions whose followers are known not to have caught up.
    """
    cut_off = stranded(state, closed)
    if not state.hosts or not (state.unplaced or state.together or cut_off):
        return []
    placing = _Placing(state, partitions_per_host, closed)
    seats = dict.fromkeys((*state.unplaced, *cut_off))
    for key, role in seats:
        if role == LEADER and not placing.is_full:
            placing.lead(key, state.partitions[key], is_behind=key in behind)
    for key, role in seats:
        if role != LEADER and not placing.is_full:
            placing.follow(key, state.partitions[key])
    together = dict.fromkeys((*state.together, *placing.homes))  # Each partition once.
    for key in together if len(state.hosts) > 1 else ():
        if placing.is_full:
            break
        entry = state.partitions[key]
        led_from = placing.homes.get(key, entry.leader_host)
        is_beside = entry.follower_host is not None and entry.follower_host == led_from
        if is_beside and key not in placing.followed:
            placing.follow(key, entry, must_move=True)
    return placing.bodies()


def stranded(state: CoordinatorState, closed: ClosedHosts) -> list[Seat]:
    """The seats on hosts that clients cannot reach, as far as a broker needs them."""
    return [
        (key, role)
        for host in sorted(closed.emptied)
        for key, role in state.seats.get(host, ())
        if _is_needed(state.partitions[key], role)
    ]


def relieve(
    state: CoordinatorState,
    host: str,
    count: int,
    partitions_per_host: int = PARTITIONS_PER_HOST,
    behind: Collection[PartitionKey] = (),
    closed: ClosedHosts = ALL_OPEN,
    staying: Collection[PartitionKey] = (),
) -> list[CoordinatorBody]:
    """Events that move up to `count` leaders and followers of `host` to others with room.

    None where no other host has room: they stay, and are served. So do leaders of `staying`.
    """
    others = ClosedHosts(closed.hosts | {host}, frozenset({host}))
    placing = _Placing(state, partitions_per_host, others)
    movable = (
        seat for seat in stranded(state, others) if seat[1] != LEADER or seat[0] not in staying
    )
    seats = list(islice(movable, count))
    for key, role in seats:
        if role == LEADER:
            placing.lead(key, state.partitions[key], is_behind=key in behind)
    for key, role in seats:
        if role != LEADER:
            placing.follow(key, state.partitions[key])
    return placing.bodies()


def awaiting(
    state: CoordinatorState,
    host: str,
    behind: Collection[PartitionKey],
    untold: Collection[str],
    closed: ClosedHosts = ALL_OPEN,
) -> set[PartitionKey]:
    """What `host` leads and had better lead until the follower elsewhere has caught up.

    The leader then begins there with what the follower has. `untold`: hosts of which it is not
    known which of their followers are `behind`.
    """
    others = state.hosts.keys() - closed.hosts - {host}
    return {
        key
        for key in _led(state, host)
        if (follower := state.partitions[key].follower_host) is not None
        and (key in behind or follower in untold or follower == host)
        and (follower in others or (follower == host and others))
    }


def _is_needed(entry: Entry, role: str) -> bool:
    return entry.leadership is not None if role == LEADER else bool(entry.followers)


class Move(NamedTuple):
    """A leader that is to run on another host, though nothing is wrong with its own."""

    key: PartitionKey
    former: str
    host: str
    position: int
    """The end of the log that it was decided on."""


def spread_allowed(leaders: int, hosts: int) -> int:
    """By how many leaders the fullest and the emptiest host may differ; more than 1.

    So each move makes hosts more equal, and moves come to an end.
    """
    return max(SPREAD, leaders // hosts // SPREAD_SHARE)


def balanced(
    state: CoordinatorState,
    settled: Collection[str],
    partitions_per_host: int = PARTITIONS_PER_HOST,
    behind: Collection[PartitionKey] = (),
    loads: Mapping[str, HostLoad] = NO_LOADS,
) -> Move | None:
    """The next move by rules 6 and 7; None if there is none.

    Leaders move only to `settled` hosts, which have been well for a while; preferably one whose
    follower has caught up there, since it has most of what it needs (`behind`: see `place`).
    `loads`: what the leaders of each host are asked; none: not known.
    """
    targets = [
        host
        for host in settled
        if host in state.hosts and state.loads[host] < partitions_per_host
    ]
    if not targets or len(state.hosts) < 2:
        return None
    led = {host: _led(state, host) for host in state.hosts}
    fullest = max(sorted(led), key=lambda host: len(led[host]))
    emptiest = min(sorted(targets), key=lambda host: len(led[host]))
    allowed = spread_allowed(sum(map(len, led.values())), len(led))
    movable = [key for key in led[fullest] if _may_move(state.partitions[key])]
    if len(led[fullest]) - len(led[emptiest]) <= allowed or not movable:
        counts = {host: len(keys) for host, keys in led.items()}
        return _evened(state, counts, targets, allowed, loads) if loads else None
    warm = (key for key in movable if state.partitions[key].follower_host == emptiest)
    first = next((key for key in warm if key not in behind), movable[0])
    return Move(first, fullest, emptiest, state.next_position)


def _evened(
    state: CoordinatorState,
    led: Mapping[str, int],
    targets: Collection[str],
    allowed: int,
    loads: Mapping[str, HostLoad],
) -> Move | None:
    """The next move by rule 7. `led`: how many each host leads; `allowed`: their difference."""
    calls = {host: load.calls_per_s for host, load in loads.items()}
    most = max(sorted(calls), key=lambda host: calls[host])
    least = min(sorted(targets), key=lambda host: calls[host])
    differ = calls[most] - calls[least]
    if differ <= max(CALLS_SPREAD, sum(calls.values()) / len(calls) / CALLS_SPREAD_SHARE):
        return None
    after = {**led, most: led[most] - 1, least: led[least] + 1}
    if max(after.values()) - min(after.values()) > allowed:
        return None
    movable = [
        (abs(differ - 2 * asked), key)
        for key, asked in loads[most].busiest
        if (entry := state.partitions.get(key)) is not None
        and entry.leader_host == most
        and _may_move(entry)
    ]
    left, key = min(movable, default=(differ, None))
    # Where one partition is all that is asked, nothing is gained by moving it on and on.
    if key is None or left > differ / 2:
        return None
    return Move(key, most, least, state.next_position)


def _led(state: CoordinatorState, host: str) -> list[PartitionKey]:
    return [key for key, role in state.seats.get(host, ()) if role == LEADER]


def _may_move(entry: Entry) -> bool:
    """Whether a broker leads the partition; an import is not interrupted."""
    led = entry.leadership
    return led is not None and led.assignment > 0 and led.import_cluster is None


def move(state: CoordinatorState, wanted: Move) -> list[CoordinatorBody]:
    """The event of a move; none if anything was logged since it was decided on."""
    if state.next_position != wanted.position:
        return []
    return [ev.LeadersPlaced(wanted.host, ((*wanted.key, state.assignment + 1),))]


def hosts_wanted(
    state: CoordinatorState,
    hosts: int,
    partitions_per_host: int,
    starting: Collection[str],
    closed: ClosedHosts = ALL_OPEN,
) -> list[str]:
    """Hosts to start, besides those that run or are `starting`; call it after `place`.

    `hosts` are always wanted, and as many more as the partitions without room would fill.
    """
    taken = {*state.hosts, *starting}
    free = (name for name in map(_name, range(HOSTS_MAX)) if name not in taken)
    wanted = [name for name in map(_name, range(min(hosts, HOSTS_MAX))) if name not in taken]
    too_many = {host: state.loads[host] - partitions_per_host for host in state.hosts}
    crowded = sum([more for more in too_many.values() if more > 0])
    # What is crowded does not move by itself, so room that is there already is as good.
    unused = sum([-too_many[h] for h in state.hosts.keys() - closed.emptied if too_many[h] < 0])
    crowded = max(0, crowded - unused)
    coming = len(wanted) + len(starting)
    homeless = len({*state.unplaced, *stranded(state, closed)})
    lacking = homeless + crowded - coming * partitions_per_host
    if lacking > 0:
        more = min(-(-lacking // partitions_per_host), HOSTS_MAX - len(state.hosts) - coming)
        wanted = list(islice(free, len(wanted) + max(0, more)))  # `wanted` come first there.
    return wanted


@cache
def _name(number: int) -> str:
    return f"host-{number}"


def next_address(state: CoordinatorState, host: str, skipped: int = 0) -> str:
    """The address of the next process of `host`.

    No earlier process had it, so no start waits for a name to become free. Two coordinators
    that start the same host at once use the same address. `skipped`: addresses to pass over,
    as starts failed there.
    """
    return f"{host}/{state.generations.get(host, 0) + 1 + skipped}"


def emptiest_node(
    nodes: Iterable[str],
    hosts: Mapping[str, int],
    failures: Mapping[str, int],
    avoid: str | None = None,
) -> str:
    """The node with the fewest hosts (`hosts`: count by node), other than `avoid` if possible.

    A failed start since a node's last good one counts as a host. So a node that is gone is
    chosen ever less often, and one whose host died early gets others once it has fewer. A host
    whose start failed avoids that node once (`avoid`): with many hosts on each node, the count
    alone would send it there again and again.
    """

    def burden(node: str) -> tuple[bool, int, int, str]:
        failed = failures.get(node, 0)
        return node == avoid, hosts.get(node, 0) + failed, failed, node

    return min(nodes, key=burden)
