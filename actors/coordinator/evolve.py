"""How events change the coordinator's state, and the work for hosts that follows.

The state is the fold of the coordinator's own log, to which any number of coordinators may
append: see rule 1 of `machine`. `decide` makes the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from tierledger.actors.calls import FOLLOWER, LEADER, CloseCall, PartitionKey, Placement
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.breaker import BY
from tierledger.actors.coordinator.checked_requests import check_item, checked_broker, item_name
from tierledger.actors.coordinator.displaced import restore, restored
from tierledger.actors.coordinator.events import CoordinatorBody, key_of
from tierledger.actors.coordinator.ownership import ownership_after
from tierledger.actors.coordinator.refusals import give_back
from tierledger.actors.coordinator.state import (
    REGISTRATIONS_KEPT,
    CoordinatorState,
    Entry,
    Leadership,
    PlacedHold,
    Seat,
    SetAside,
)
from tierledger.actors.holds import Hold
from tierledger.actors.messages import Assignment
from tierledger.events.commands import Claim
from tierledger.events.errors import InvalidArgument
from tierledger.events.log_events import Event


class HostWork(NamedTuple):
    """Placements or closes that one host has to be sent after an event is durable."""

    host: str
    placements: tuple[Placement, ...]
    closes: tuple[CloseCall, ...] = ()


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
        case (
            ev.OwnerChanged() | ev.DeletionsHeld() | ev.DeletionsReleased()
            | ev.HoldPlaced() | ev.HoldReleased()
        ):  # fmt: skip
            _owned(state, event, body)
        case ev.PartitionForgotten():
            _forgotten(state, PartitionKey(body.topic_id, body.partition))
    state.next_position = event.position + 1
    return work


def _owned(
    state: CoordinatorState,
    event: Event,
    body: ev.OwnerChanged
    | ev.DeletionsHeld
    | ev.DeletionsReleased
    | ev.HoldPlaced
    | ev.HoldReleased,
) -> None:
    match body:
        case ev.OwnerChanged():
            state.ownership = ownership_after(state.ownership, body)
            state.owner_since_ms = event.log_time_ms
            state.announced_before_change = dict(state.announced)
            if state.ownership.decider != ev.Owner.KAFKA:
                return
            state.held.clear()  # Its own manager lets brokers delete what it likes.
            state.foreign = 0
        case ev.DeletionsHeld():
            state.held[body.broker_id] = body
            state.foreign = max(state.foreign, body.foreign)
        case ev.DeletionsReleased():
            for broker_id in [*state.held] if body.broker_id is None else [body.broker_id]:
                state.held.pop(broker_id, None)
        case ev.HoldPlaced():
            state.holds[body.name] = PlacedHold(Hold(*body), event.log_time_ms)
        case ev.HoldReleased():
            released = state.holds.pop(body.name, None)
            if released is not None and released.hold.by == BY:
                state.released_ms[body.name] = event.log_time_ms
    state.held_at = event.position


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
        key, (topic, leader_epoch, recorded) = key_of(item), item[2:]
        entry = _entry(state, key, topic)
        entry.followers.pop(body.broker_id, None)
        if entry.leadership is not None:
            entry.displaced[entry.leadership.claim.broker_id] = entry.leadership
        entry.displaced.pop(body.broker_id, None)
        entry.stopped.pop(body.broker_id, None)
        entry.leadership = Leadership(claim, leader_epoch, body.import_cluster, recorded, 0)
        state.review(key, entry)
    for item in _carried_out(state, event, body.followers):
        key = key_of(item)
        entry = _entry(state, key, item[2])
        work += _resign(key, entry, body.broker_id)
        entry.stopped.pop(body.broker_id, None)
        entry.followers[body.broker_id] = claim
        if entry.follower_host is not None:
            placed = _following(key, entry, claim)
            work.append(HostWork(entry.follower_host, (placed,)))
        state.review(key, entry)
    for item in _carried_out(state, event, body.stopped):
        key = key_of(item)
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
    work: list[HostWork] = []
    for topic_id, partition, number in body.partitions:
        state.assignment = max(state.assignment, number)
        key = PartitionKey(topic_id, partition)
        entry = state.partitions.get(key)
        if entry is None or entry.leadership is None:
            continue  # Its announcement was set aside, or resigned in the same batch.
        former = entry.leader_host
        if former is not None and former != body.host:
            moved = Placement(key, entry.topic, LEADER, None, number - 1, is_moved=True)
            work.append(HostWork(former, (moved,)))
        state.seat(key, entry, LEADER, body.host)
        entry.leader_number = number
        entry.leadership = entry.leadership._replace(assignment=number)
        state.review(key, entry)
        placements.append(_leading(key, entry))
    return [*work, HostWork(body.host, tuple(placements))] if placements else work


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
    if entry is not None and entry.placed == body.assignment:
        entry.leadership = entry.leadership and entry.leadership._replace(assignment=0)
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
    state.loads.pop(host, None)


def _forgotten(state: CoordinatorState, key: PartitionKey) -> None:
    entry = state.partitions.pop(key, None)
    if entry is not None:
        for role in (LEADER, FOLLOWER):
            state.seat(key, entry, role, None)
        state.review(key, Entry(entry.topic))


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


def strays(
    state: CoordinatorState, host: str, runs: Iterable[tuple[PartitionKey, str, int]]
) -> HostWork:
    """The releases of what runs on `host` and is not placed there.

    `runs`: by partition, role and placement. Placements that the log does not have yet here
    are another coordinator's, and stay.
    """
    seats, placements = state.seats.get(host, {}), []
    for key, role, number in runs:
        newest = state.assignment if role == LEADER else state.next_position - 1
        if (key, role) not in seats and number <= newest:
            entry = state.partitions.get(key)
            is_moved = entry is None or entry.is_hosted
            placements.append(Placement(key, "", role, None, until=number, is_moved=is_moved))
    return HostWork(host, tuple(placements))
