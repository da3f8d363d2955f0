"""The coordinator's rules: which events requests lead to, and how events change the state.

For places see `placement`. The coordinator proposes; the partitions' logs decide who leads.
Its state is the fold of its own log, to which any number of coordinators may append: see rule 1
of `machine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, cast

from tierledger.actors.calls import FOLLOWER, LEADER, CloseCall, PartitionKey, Placement
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.displaced import restore, restored
from tierledger.actors.coordinator.door import check_item, checked_broker, item_name
from tierledger.actors.coordinator.events import Announcement, CoordinatorBody
from tierledger.actors.coordinator.ownership import (
    PluginMode,
    check_leading,
    check_mode,
    word_after,
)
from tierledger.actors.coordinator.refusals import give_back
from tierledger.actors.coordinator.state import (
    REGISTRATIONS_KEPT,
    CoordinatorState,
    Entry,
    Leadership,
    Seat,
    SetAside,
)
from tierledger.actors.messages import Assignment
from tierledger.events.commands import NO_CLAIM, Claim
from tierledger.events.errors import Fenced, InvalidArgument
from tierledger.events.log_events import Event

_new = tuple.__new__  # A named tuple's own constructor costs three times as much.


def _key(item: ev.Item | ev.LeaderItem) -> PartitionKey:
    """The partition of an item of an announcement."""
    return _new(PartitionKey, item[:2])


class HostWork(NamedTuple):
    """Placements or closes that one host has to be sent after an event is durable."""

    host: str
    placements: tuple[Placement, ...]
    closes: tuple[CloseCall, ...] = ()


def register(
    state: CoordinatorState,
    broker_id: int,
    request: bytes,
    after: int,
    mode: PluginMode | None = None,
) -> list[CoordinatorBody]:
    """The event that gives a new client of `broker_id` the next incarnation; it fences others.

    None for a repeat of `request`. None either if another client has registered since `after`
    was the broker's incarnation: so a request that arrives late fences no newer client.

    Args:
        state: What is decided on.
        broker_id: The broker that the client represents.
        request: The registration's id, by which a repeat is recognised.
        after: The newest incarnation of the broker that the client knows of.
        mode: The mode of a broker's plugin; None for a program, which serves no broker.

    Raises:
        NotReady: With this plugin, not all brokers would decide by one manager.
        RejectedError: The same, and the plugin has to be started in another mode.
    """
    is_repeat = request in state.registrations.get(broker_id, {})
    if mode is not None:
        check_mode(state.word, mode, is_repeat=is_repeat)
    newest = state.incarnations.get(broker_id, 0)
    if after != newest or is_repeat:
        return []
    return [ev.ClientRegistered(broker_id, newest + 1, request)]


def registered(state: CoordinatorState, broker_id: int, request: bytes) -> ev.Registered:
    """The answer to a client whose registration was decided on."""
    given = state.registrations.get(broker_id, {}).get(request)
    if given is not None:
        return ev.Registered(given, is_given=True)
    return ev.Registered(state.incarnations.get(broker_id, 0), is_given=False)


def announce(
    state: CoordinatorState,
    given: Announcement,
    denied: AbstractSet[PartitionKey] = frozenset(),
) -> list[CoordinatorBody]:
    """The events that an announcement leads to; none if it repeats what is in force.

    `denied`: partitions that the broker claims to lead, while Kafka names another broker.

    Raises:
        Fenced: The broker has registered anew, or has announced something newer.
        InvalidArgument: The broker never registered under that incarnation.
        NotReady: The broker would lead anew, and tierledger does not own the metadata.
    """
    registered = state.incarnations.get(given.broker_id, 0)
    if given.incarnation > registered:
        raise InvalidArgument(
            f"broker {given.broker_id} has no incarnation {given.incarnation}, "
            f"the newest is {registered}"
        )
    pair = (given.incarnation, given.number)
    last = max(known.get(given.broker_id, (0, 0)) for known in (state.announced, state.heard))
    if given.incarnation < registered:
        raise Fenced(
            f"broker {given.broker_id} registered anew, as incarnation {registered}; "
            f"incarnation {given.incarnation} is fenced"
        )
    if pair < last:
        raise Fenced(f"broker {given.broker_id} announced {pair} after {last}")
    if pair == last:
        return []  # A repeat of the same announcement, perhaps long after the decision.
    refused = not_taken(state, given, denied)
    leaders = tuple(
        item for item in given.leaders if item not in refused and not _leads(state, given, item)
    )
    followers = tuple(item for item in given.followers if not _follows(state, given, item))
    stopped = tuple(item for item in given.stopped if _hosts(state, given.broker_id, item))
    if not leaders and not followers and not stopped:
        return []
    if leaders and given.import_cluster is None:
        check_leading(state.word)
    return [
        ev.Announced(
            broker_id=given.broker_id,
            incarnation=given.incarnation,
            number=given.number,
            leaders=leaders,
            followers=followers,
            stopped=stopped,
            import_cluster=given.import_cluster,
        ),
        *restored(state, given.broker_id, (*followers, *stopped)),
    ]


def hear(state: CoordinatorState, given: Announcement) -> None:
    """Note that `given` was decided on, also if that appended nothing."""
    last = state.heard.get(given.broker_id, (0, 0))
    state.heard[given.broker_id] = max(last, (given.incarnation, given.number))


def in_force(
    state: CoordinatorState,
    given: Announcement,
    denied: AbstractSet[PartitionKey] = frozenset(),
) -> list[Claim]:
    """The broker's claim for each leader, then each follower, of an announcement just taken.

    If the announcement repeats an earlier one, the claim is the earlier one's. That also counts
    if another broker's claim has replaced it: it stands again once the other is given up. A
    claim to lead that was not taken is `NO_CLAIM`: its broker has to announce itself again.
    """
    mine = (given.broker_id, given.incarnation)  # Claims of earlier incarnations do not count.
    refused = not_taken(state, given, denied)

    def leading(item: ev.LeaderItem) -> Claim:
        entry = state.partitions.get(_key(item))
        if entry is None:
            return NO_CLAIM
        replaced = None if item in refused else entry.displaced.get(given.broker_id)
        known = [one.claim for one in (entry.leadership, replaced) if one is not None]
        return next((claim for claim in known if claim[:2] == mine), NO_CLAIM)

    def following(item: ev.Item) -> Claim:
        entry = state.partitions.get(_key(item))
        claim = None if entry is None else entry.followers.get(given.broker_id)
        return claim if claim is not None and claim[:2] == mine else given.claim

    return [*map(leading, given.leaders), *map(following, given.followers)]


def not_taken(
    state: CoordinatorState, given: Announcement, denied: AbstractSet[PartitionKey]
) -> list[ev.LeaderItem]:
    """The items that do not make `given`'s broker leader: another leads in a newer epoch.

    `denied` are those of which Kafka itself has named another leader.
    """
    named = [item for item in given.leaders if _key(item) in denied] if denied else []
    return [*named, *outranked(state, given)]


def outranked(state: CoordinatorState, given: Announcement) -> list[ev.LeaderItem]:
    """The claims to lead that the partition's log would refuse for their leader epoch.

    Such a claim must not replace the one in force. Otherwise the claim of the true leader would
    be lost: when its actor moves to another host, the wrong claim would be placed there.
    """
    refused = []
    for item in given.leaders:
        entry = state.partitions.get(_key(item))
        led = None if entry is None else entry.leadership
        if led is None or led.claim.broker_id == given.broker_id:
            continue
        ours, theirs = item[3], led.leader_epoch
        if ours is not None and theirs is not None and ours <= theirs:
            refused.append(item)
    return refused


def _leads(state: CoordinatorState, given: Announcement, item: ev.LeaderItem) -> bool:
    """Whether `item` is in force already: the same incarnation leads in the same epoch."""
    entry = state.partitions.get(_key(item))
    led = None if entry is None else entry.leadership
    if led is None:
        return False
    mine = (led.claim.broker_id, led.claim.incarnation) == (given.broker_id, given.incarnation)
    newer_epoch = item[3] is not None and item[3] != led.leader_epoch
    return mine and not newer_epoch and led.import_cluster == given.import_cluster


def _follows(state: CoordinatorState, given: Announcement, item: ev.Item) -> bool:
    """Whether the broker follows already, and has announced so since the last owner change.

    After a change of the owner brokers announce themselves anew. That has to be a new claim,
    which is ready only with all that the log held when it was announced.
    """
    entry = state.partitions.get(_key(item))
    claim = None if entry is None else entry.followers.get(given.broker_id)
    if claim is None or claim.incarnation != given.incarnation:
        return False
    return claim[1:] > state.announced_before_word.get(given.broker_id, (0, 0))


def _hosts(state: CoordinatorState, broker_id: int, item: ev.Item) -> bool:
    entry = state.partitions.get(_key(item))
    if entry is None:
        return False
    led = entry.leadership
    is_leader = led is not None and led.claim.broker_id == broker_id
    return is_leader or broker_id in entry.followers or broker_id in entry.displaced


def host_started(
    state: CoordinatorState, host: str, process: str, address: str
) -> list[CoordinatorBody]:
    """The events of a new process that serves as `host`; its predecessor is lost first."""
    if state.hosts.get(host) == process:
        return []
    number = address.rpartition("/")[2]
    generation = max(
        state.generations.get(host, 0) + 1, int(number) if number.isdecimal() else 0
    )
    return [*host_lost(state, host), ev.HostStarted(host, generation, process, address)]


def host_lost(
    state: CoordinatorState, host: str, process: str | None = None
) -> list[CoordinatorBody]:
    """The event that `process` of `host` is gone; none if another process serves by now."""
    known = state.hosts.get(host)
    return [] if known is None or process not in {None, known} else [ev.HostLost(host)]


def evolve(state: CoordinatorState, event: Event) -> list[HostWork]:
    """Apply one durable event; the work for hosts that follows from it.

    An event that cannot be applied is set aside, and `status` shows it. It must not keep every
    coordinator that ever reads this log from starting.
    """
    try:
        return evolve_strictly(state, event)
    except Exception as error:  # noqa: BLE001 - Whatever the log makes of these rules.
        kind = type(event.body).__name__
        what = f"{kind} at position {event.position}"
        state.set_aside[what] = SetAside(what, repr(error), event.log_time_ms)
        state.next_position = event.position + 1
        return []


def evolve_strictly(state: CoordinatorState, event: Event) -> list[HostWork]:
    """The same for an event that is not durable yet: an error keeps it from being appended."""
    body = cast("CoordinatorBody", event.body)
    work: list[HostWork] = []
    match body:
        case ev.ClientRegistered():
            _registered(state, body)
        case ev.Announced():
            work = _announced(state, event, body)
        case ev.LeadersPlaced():
            work = _leaders_placed(state, body)
        case ev.FollowersPlaced():
            work = _followers_placed(state, event.position, body)
        case ev.LeaderLost():
            _leader_lost(state, body)
        case ev.LeaderRestored():
            restore(state, body)
        case ev.LeaderRefused():
            give_back(state, PartitionKey(body.topic_id, body.partition), body)
        case ev.HostStarted():
            state.hosts[body.host] = body.process
            state.addresses[body.host] = body.address
            state.generations[body.host] = body.generation
        case ev.HostLost():
            _host_lost(state, body.host)
        case ev.OwnerChanged():
            state.word = word_after(state.word, body)
            state.announced_before_word = dict(state.announced)
        case ev.PartitionForgotten():
            _forgotten(state, PartitionKey(body.topic_id, body.partition))
    state.next_position = event.position + 1
    return work


def _registered(state: CoordinatorState, body: ev.ClientRegistered) -> None:
    broker_id = checked_broker(body.broker_id)
    state.incarnations[broker_id] = body.incarnation
    for what, one in list(state.set_aside.items()):
        if one.broker_id == broker_id:
            del state.set_aside[what]
    if body.request is not None:
        known = state.registrations.setdefault(broker_id, {})
        known[body.request] = body.incarnation
        while len(known) > REGISTRATIONS_KEPT:
            del known[next(iter(known))]


def _announced(state: CoordinatorState, event: Event, body: ev.Announced) -> list[HostWork]:
    claim = Claim(checked_broker(body.broker_id), body.incarnation, body.number)
    state.announced[body.broker_id] = (body.incarnation, body.number)
    work: list[HostWork] = []
    for item in _carried_out(state, event, body.leaders, leads=True):
        key, (topic, leader_epoch, recorded) = _key(item), item[2:]
        entry = _entry(state, key, topic)
        entry.followers.pop(body.broker_id, None)
        if entry.leadership is not None:
            entry.displaced[entry.leadership.claim.broker_id] = entry.leadership
        entry.displaced.pop(body.broker_id, None)
        entry.stopped.pop(body.broker_id, None)
        entry.leadership = Leadership(claim, leader_epoch, body.import_cluster, recorded, 0)
        state.review(key, entry)
    for item in _carried_out(state, event, body.followers):
        key = _key(item)
        entry = _entry(state, key, item[2])
        work += _resign(key, entry, body.broker_id)
        entry.stopped.pop(body.broker_id, None)
        entry.followers[body.broker_id] = claim
        if entry.follower_host is not None:
            placed = _following(key, entry, claim)
            work.append(HostWork(entry.follower_host, (placed,)))
        state.review(key, entry)
    for item in _carried_out(state, event, body.stopped):
        key = _key(item)
        entry = _entry(state, key, item[2])
        is_restored = bool(restored(state, body.broker_id, (item,)))
        work += _resign(key, entry, body.broker_id)
        entry.followers.pop(body.broker_id, None)
        entry.stopped[body.broker_id] = claim
        if not is_restored:  # Else the next event, `LeaderRestored`, needs the actors.
            work += _release(state, key, entry)
        state.review(key, entry)
    return work


def _carried_out(
    state: CoordinatorState, event: Event, items: tuple[Any, ...], *, leads: bool = False
) -> Iterator[Any]:
    """Those `items` that can be carried out; the others are set aside.

    Only older releases appended items that cannot be: they did not check values.
    """
    for item in items:
        try:
            check_item(item, leads=leads)
        except InvalidArgument as error:
            what, broker_id = item_name(item), cast("ev.Announced", event.body).broker_id
            state.set_aside[what] = SetAside(what, str(error), event.log_time_ms, broker_id)
        else:
            if state.set_aside:  # To make the name costs more than all the rest here.
                state.set_aside.pop(item_name(item), None)  # A valid item replaces a bad one.
            yield item


def _entry(state: CoordinatorState, key: PartitionKey, topic: str) -> Entry:
    entry = state.partitions.get(key)
    if entry is None:
        entry = state.partitions[key] = Entry(topic)
    return entry


def _resign(key: PartitionKey, entry: Entry, broker_id: int) -> list[HostWork]:
    """Take the broker's claim to lead out; its host is to close that session, and no other."""
    led = entry.leadership
    former = entry.displaced.pop(broker_id, None)
    claim = None if former is None else former.claim
    if led is not None and led.claim.broker_id == broker_id:
        entry.leadership, claim = None, led.claim
    if claim is None or entry.leader_host is None:
        return []
    return [HostWork(entry.leader_host, (), (CloseCall(key, claim),))]


def _release(state: CoordinatorState, key: PartitionKey, entry: Entry) -> list[HostWork]:
    """Release the partition's actors if no broker hosts it any more; no data is deleted."""
    if entry.is_hosted:
        return []
    work = []
    seats = (
        (entry.leader_host, LEADER, state.assignment),
        (entry.follower_host, FOLLOWER, entry.follower_number),
    )
    for host, role, number in seats:
        if host is not None:
            work.append(_released(key, entry, host, role, number))
            state.seat(key, entry, role, None)
    return work


def _released(key: PartitionKey, entry: Entry, host: str, role: str, number: int) -> HostWork:
    """The order to `host` to release its `role` unless it was placed after `number`."""
    return HostWork(host, (Placement(key, entry.topic, role, None, until=number),))


def _following(key: PartitionKey, entry: Entry, claim: Claim) -> Placement:
    assignment = Assignment(entry.follower_number, claim, topic=entry.topic)
    return Placement(key, entry.topic, FOLLOWER, assignment)


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
        resigned=() if led.import_cluster is None else tuple(sorted(entry.followers.values())),
    )
    return Placement(key, entry.topic, LEADER, assignment)


def _leaders_placed(state: CoordinatorState, body: ev.LeadersPlaced) -> list[HostWork]:
    placements = []
    for topic_id, partition, number in body.partitions:
        state.assignment = max(state.assignment, number)
        key = PartitionKey(topic_id, partition)
        entry = state.partitions.get(key)
        if entry is None or entry.leadership is None:
            continue  # Its announcement was set aside, or resigned in the same batch.
        state.seat(key, entry, LEADER, body.host)
        entry.leadership = entry.leadership._replace(assignment=number)
        state.review(key, entry)
        placements.append(_leading(key, entry))
    return [HostWork(body.host, tuple(placements))] if placements else []


def _followers_placed(
    state: CoordinatorState, position: int, body: ev.FollowersPlaced
) -> list[HostWork]:
    placements = []
    work: list[HostWork] = []
    for topic_id, partition in body.partitions:
        key = PartitionKey(topic_id, partition)
        entry = state.partitions.get(key)
        if entry is None:
            continue  # Its announcement was set aside.
        former = entry.follower_host
        if former is not None and former != body.host:
            work.append(_released(key, entry, former, FOLLOWER, entry.follower_number))
        entry.follower_number = position
        state.seat(key, entry, FOLLOWER, body.host)
        state.review(key, entry)
        placements += [_following(key, entry, claim) for claim in entry.followers.values()]
    return [*work, HostWork(body.host, tuple(placements))] if placements else work


def _leader_lost(state: CoordinatorState, body: ev.LeaderLost) -> None:
    key = PartitionKey(body.topic_id, body.partition)
    entry = state.partitions.get(key)
    led = None if entry is None else entry.leadership
    if entry is not None and led is not None and led.assignment == body.assignment:
        entry.leadership = led._replace(assignment=0)
        state.seat(key, entry, LEADER, None)
        state.review(key, entry)


def _host_lost(state: CoordinatorState, host: str) -> None:
    state.hosts.pop(host, None)
    state.addresses.pop(host, None)
    for key, role in list(state.seats.get(host, ())):
        entry = state.partitions[key]
        state.seat(key, entry, role, None)
        if role == LEADER and entry.leadership is not None:
            entry.leadership = entry.leadership._replace(assignment=0)
        state.review(key, entry)
    state.seats.pop(host, None)


def _forgotten(state: CoordinatorState, key: PartitionKey) -> None:
    entry = state.partitions.pop(key, None)
    if entry is not None:
        for role in (LEADER, FOLLOWER):
            state.seat(key, entry, role, None)
        state.review(key, Entry(entry.topic))


def leader_lost(
    state: CoordinatorState, key: PartitionKey, assignment: int, host: str
) -> list[CoordinatorBody]:
    """The event that the leader placed on `host` under `assignment` is gone; none if late."""
    entry = state.partitions.get(key)
    led = None if entry is None else entry.leadership
    if entry is None or led is None:
        return []
    if (entry.leader_host, led.assignment) != (host, assignment):
        return []
    return [ev.LeaderLost(key.topic_id, key.partition, assignment)]


def standing_work(
    state: CoordinatorState, host: str, seats: Iterable[Seat] | None = None
) -> HostWork:
    """The placements of all seats of `host`, for a coordinator that starts; idempotent there.

    With `seats`: only of those of them that `host` still has.
    """
    placements: list[Placement] = []
    taken = state.seats.get(host, {})
    for key, role in taken if seats is None else filter(taken.__contains__, seats):
        entry = state.partitions[key]
        if role == FOLLOWER:
            placements += [_following(key, entry, claim) for claim in entry.followers.values()]
        elif entry.leadership is not None and entry.leadership.assignment:
            placements.append(_leading(key, entry))
    return HostWork(host, tuple(placements))
