"""The coordinator's rules: what notifications lead to, and who serves what.

It proposes; the partitions' logs decide. Its own state is the fold of its own log, which any
number of coordinators may append to: each decides on the whole log, and an append that finds
the slot taken is decided anew. So two of them are a nuisance, never a danger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from tierledger.actors import coordinator_events as ev
from tierledger.actors.calls import FOLLOWER, LEADER, CloseCall, PartitionKey, Placement
from tierledger.actors.messages import Assignment
from tierledger.events.commands import Claim
from tierledger.events.errors import Fenced, InvalidArgument

if TYPE_CHECKING:
    from tierledger.actors.coordinator_events import (
        Announcement,
        CoordinatorBody,
        CoordinatorState,
        Entry,
    )
    from tierledger.events.log_events import Event


class HostWork(NamedTuple):
    """What one host has to be told after an event is durable."""

    host: str
    placements: tuple[Placement, ...]
    closes: tuple[CloseCall, ...] = ()


def register(state: CoordinatorState, broker_id: int) -> list[CoordinatorBody]:
    """A client of `broker_id` starts; whatever spoke for it before is out of date."""
    return [ev.ClientRegistered(broker_id, state.incarnations.get(broker_id, 0) + 1)]


def announce(state: CoordinatorState, given: Announcement) -> list[CoordinatorBody]:
    """What an announcement changes; nothing if it repeats what is in force.

    Raises:
        Fenced: The broker registered anew or announced something newer since.
        InvalidArgument: The broker never registered under that incarnation.
    """
    registered = state.incarnations.get(given.broker_id, 0)
    if given.incarnation > registered:
        raise InvalidArgument(
            f"broker {given.broker_id} has no incarnation {given.incarnation}, "
            f"the newest is {registered}"
        )
    last = state.announced.get(given.broker_id, (0, 0))
    if (given.incarnation, given.number) < max(last, (registered, 0)):
        raise Fenced(
            f"broker {given.broker_id} announced {(given.incarnation, given.number)} "
            f"after {last}"
        )
    refused = outranked(state, given)
    leaders = tuple(
        item for item in given.leaders if item not in refused and not _leads(state, given, item)
    )
    followers = tuple(item for item in given.followers if not _follows(state, given, item))
    stopped = tuple(item for item in given.stopped if _hosts(state, given.broker_id, item))
    if not leaders and not followers and not stopped:
        return []
    return [
        ev.Announced(
            broker_id=given.broker_id,
            incarnation=given.incarnation,
            number=given.number,
            leaders=leaders,
            followers=followers,
            stopped=stopped,
            import_cluster=given.import_cluster,
        )
    ]


def outranked(state: CoordinatorState, given: Announcement) -> list[ev.LeaderItem]:
    """The claims to lead which the partition's log would refuse for their leader epoch.

    They must not take the place of the claim that is in force: that would be lost when its
    leader has to move.
    """
    refused = []
    for item in given.leaders:
        entry = state.partitions.get(PartitionKey(item[0], item[1]))
        led = None if entry is None else entry.leadership
        if led is None or led.claim.broker_id == given.broker_id:
            continue
        ours, theirs = item[3], led.leader_epoch
        if ours is not None and theirs is not None and ours <= theirs:
            refused.append(item)
    return refused


def _leads(state: CoordinatorState, given: Announcement, item: ev.LeaderItem) -> bool:
    """Whether this word about a leader holds already: the same life of the same broker."""
    entry = state.partitions.get(PartitionKey(item[0], item[1]))
    led = None if entry is None else entry.leadership
    if led is None:
        return False
    mine = (led.claim.broker_id, led.claim.incarnation) == (given.broker_id, given.incarnation)
    newer_epoch = item[3] is not None and item[3] != led.leader_epoch
    return mine and not newer_epoch and led.import_cluster == given.import_cluster


def _follows(state: CoordinatorState, given: Announcement, item: ev.Item) -> bool:
    entry = state.partitions.get(PartitionKey(item[0], item[1]))
    claim = None if entry is None else entry.followers.get(given.broker_id)
    return claim is not None and claim.incarnation == given.incarnation


def _hosts(state: CoordinatorState, broker_id: int, item: ev.Item) -> bool:
    entry = state.partitions.get(PartitionKey(item[0], item[1]))
    if entry is None:
        return False
    led = entry.leadership
    return broker_id in entry.followers or (
        led is not None and led.claim.broker_id == broker_id
    )


def place(state: CoordinatorState) -> list[CoordinatorBody]:
    """Places for every partition that is announced and served nowhere; none without hosts.

    A host serves what it has; the rest goes to the host with the least, followers away from
    their leaders where there is a choice.
    """
    if not state.hosts:
        return []
    load = dict.fromkeys(sorted(state.hosts), 0)
    for entry in state.partitions.values():
        for host in (entry.leader_host, entry.follower_host):
            if host in load:
                load[host] += 1
    leaders: dict[str, list[tuple[bytes, int, int]]] = {}
    followers: dict[str, list[tuple[bytes, int]]] = {}
    number = state.assignment
    for key, entry in state.partitions.items():
        led = entry.leadership
        home = entry.leader_host
        if led is not None and led.assignment == 0:
            number += 1
            home = home or entry.follower_host or min(load, key=lambda host: (load[host], host))
            load[home] += 1
            leaders.setdefault(home, []).append((*key, number))
        if entry.followers and entry.follower_host is None:
            away = [host for host in load if host != home] or list(load)
            chosen = min(away, key=lambda host: (load[host], host))
            load[chosen] += 1
            followers.setdefault(chosen, []).append(key)
    return [
        *(ev.LeadersPlaced(host, tuple(placed)) for host, placed in sorted(leaders.items())),
        *(
            ev.FollowersPlaced(host, tuple(placed))
            for host, placed in sorted(followers.items())
        ),
    ]


def host_started(state: CoordinatorState, host: str, process: str) -> list[CoordinatorBody]:
    """A new process serves under the name `host`; what an earlier one served is lost first."""
    if state.hosts.get(host) == process:
        return []
    return [*host_lost(state, host), ev.HostStarted(host, state.generation + 1, process)]


def host_lost(state: CoordinatorState, host: str) -> list[CoordinatorBody]:
    """The process behind `host` is gone."""
    return [ev.HostLost(host)] if host in state.hosts else []


def evolve(state: CoordinatorState, event: Event) -> list[HostWork]:
    """Apply one durable event; what hosts have to be told because of it."""
    body = cast("CoordinatorBody", event.body)
    work: list[HostWork] = []
    match body:
        case ev.ClientRegistered():
            state.incarnations[body.broker_id] = body.incarnation
        case ev.Announced():
            work = _announced(state, body)
        case ev.LeadersPlaced():
            work = _leaders_placed(state, body)
        case ev.FollowersPlaced():
            work = _followers_placed(state, body)
        case ev.LeaderLost():
            _leader_lost(state, body)
        case ev.HostStarted():
            state.hosts[body.host] = body.process
            state.generation = body.generation
        case ev.HostLost():
            _host_lost(state, body.host)
        case ev.PartitionForgotten():
            state.partitions.pop(PartitionKey(body.topic_id, body.partition), None)
    state.next_position = event.position + 1
    return work


def _announced(state: CoordinatorState, body: ev.Announced) -> list[HostWork]:
    claim = Claim(body.broker_id, body.incarnation, body.number)
    state.announced[body.broker_id] = (body.incarnation, body.number)
    work: list[HostWork] = []
    for topic_id, partition, topic, leader_epoch, recorded in body.leaders:
        entry = _entry(state, PartitionKey(topic_id, partition), topic)
        entry.followers.pop(body.broker_id, None)
        entry.leadership = ev.Leadership(claim, leader_epoch, body.import_cluster, recorded, 0)
    for topic_id, partition, topic in body.followers:
        key = PartitionKey(topic_id, partition)
        entry = _entry(state, key, topic)
        work += _resign(key, entry, body.broker_id)
        entry.followers[body.broker_id] = claim
        if entry.follower_host is not None:
            placed = _following(key, entry, claim)
            work.append(HostWork(entry.follower_host, (placed,)))
    for topic_id, partition, topic in body.stopped:
        key = PartitionKey(topic_id, partition)
        entry = _entry(state, key, topic)
        work += _resign(key, entry, body.broker_id)
        entry.followers.pop(body.broker_id, None)
        work += _release(key, entry)
    return work


def _entry(state: CoordinatorState, key: PartitionKey, topic: str) -> Entry:
    entry = state.partitions.get(key)
    if entry is None:
        entry = state.partitions[key] = ev.Entry(topic)
    return entry


def _resign(key: PartitionKey, entry: Entry, broker_id: int) -> list[HostWork]:
    """The broker leads no more; its own session closes, and no other."""
    led = entry.leadership
    if led is None or led.claim.broker_id != broker_id:
        return []
    entry.leadership = None
    if entry.leader_host is None:
        return []
    return [HostWork(entry.leader_host, (), (CloseCall(key, led.claim),))]


def _release(key: PartitionKey, entry: Entry) -> list[HostWork]:
    """Once no broker hosts the partition its actors go; nothing is deleted."""
    if entry.is_hosted:
        return []
    work = [
        HostWork(host, (Placement(key, entry.topic, role, None),))
        for host, role in ((entry.leader_host, LEADER), (entry.follower_host, FOLLOWER))
        if host is not None
    ]
    entry.leader_host = entry.follower_host = None
    return work


def _following(key: PartitionKey, entry: Entry, claim: Claim) -> Placement:
    return Placement(key, entry.topic, FOLLOWER, Assignment(0, claim, topic=entry.topic))


def _leading(key: PartitionKey, entry: Entry) -> Placement:
    led = entry.leadership
    assert led is not None, "only what is led is placed to lead"
    assignment = Assignment(
        number=led.assignment,
        claim=led.claim,
        leader_epoch=led.leader_epoch,
        topic=entry.topic,
        import_cluster=led.import_cluster,
        recorded_time_ms=led.recorded_time_ms,
    )
    return Placement(key, entry.topic, LEADER, assignment)


def _leaders_placed(state: CoordinatorState, body: ev.LeadersPlaced) -> list[HostWork]:
    placements = []
    for topic_id, partition, number in body.partitions:
        state.assignment = max(state.assignment, number)
        key = PartitionKey(topic_id, partition)
        entry = state.partitions[key]
        if entry.leadership is None:
            continue  # Resigned in the same batch.
        entry.leader_host = body.host
        entry.leadership = entry.leadership._replace(assignment=number)
        placements.append(_leading(key, entry))
    return [HostWork(body.host, tuple(placements))] if placements else []


def _followers_placed(state: CoordinatorState, body: ev.FollowersPlaced) -> list[HostWork]:
    placements = []
    for topic_id, partition in body.partitions:
        key = PartitionKey(topic_id, partition)
        entry = state.partitions[key]
        entry.follower_host = body.host
        placements += [_following(key, entry, claim) for claim in entry.followers.values()]
    return [HostWork(body.host, tuple(placements))] if placements else []


def _leader_lost(state: CoordinatorState, body: ev.LeaderLost) -> None:
    entry = state.partitions.get(PartitionKey(body.topic_id, body.partition))
    led = None if entry is None else entry.leadership
    if entry is not None and led is not None and led.assignment == body.assignment:
        entry.leadership = led._replace(assignment=0)
        entry.leader_host = None


def _host_lost(state: CoordinatorState, host: str) -> None:
    state.hosts.pop(host, None)
    for entry in state.partitions.values():
        if entry.leader_host == host:
            entry.leader_host = None
            if entry.leadership is not None:
                entry.leadership = entry.leadership._replace(assignment=0)
        if entry.follower_host == host:
            entry.follower_host = None


def leader_lost(
    state: CoordinatorState, key: PartitionKey, assignment: int
) -> list[CoordinatorBody]:
    """A host says that the leader it ran under `assignment` is gone."""
    entry = state.partitions.get(key)
    led = None if entry is None else entry.leadership
    if led is None or led.assignment != assignment:
        return []
    return [ev.LeaderLost(key.topic_id, key.partition, assignment)]


def standing_work(state: CoordinatorState, host: str) -> HostWork:
    """All that `host` has to serve, for a coordinator that starts anew; repeats do nothing."""
    placements: list[Placement] = []
    for key, entry in state.partitions.items():
        led = entry.leadership
        if entry.leader_host == host and led is not None and led.assignment:
            placements.append(_leading(key, entry))
        if entry.follower_host == host:
            placements += [_following(key, entry, claim) for claim in entry.followers.values()]
    return HostWork(host, tuple(placements))
