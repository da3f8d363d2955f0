"""The events that requests to the coordinator lead to; `evolve` applies them.

For placements see `placement`. The coordinator proposes; the partitions' logs decide who leads.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.displaced import restored
from tierledger.actors.coordinator.events import Announcement, CoordinatorBody, key_of
from tierledger.actors.coordinator.ownership import PluginMode, check_leading, check_mode
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.events.commands import NO_CLAIM, Claim
from tierledger.events.errors import Fenced, InvalidArgument


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
        check_mode(state.ownership, mode, is_repeat=is_repeat)
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
        check_leading(state.ownership)
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
        entry = state.partitions.get(key_of(item))
        if entry is None:
            return NO_CLAIM
        replaced = None if item in refused else entry.displaced.get(given.broker_id)
        known = [one.claim for one in (entry.leadership, replaced) if one is not None]
        return next((claim for claim in known if claim[:2] == mine), NO_CLAIM)

    def following(item: ev.Item) -> Claim:
        entry = state.partitions.get(key_of(item))
        claim = None if entry is None else entry.followers.get(given.broker_id)
        return claim if claim is not None and claim[:2] == mine else given.claim

    return [*map(leading, given.leaders), *map(following, given.followers)]


def not_taken(
    state: CoordinatorState, given: Announcement, denied: AbstractSet[PartitionKey]
) -> list[ev.LeaderItem]:
    """The items that do not make `given`'s broker leader: another leads in a newer epoch.

    `denied` are those of which Kafka itself has named another leader.
    """
    named = [item for item in given.leaders if key_of(item) in denied] if denied else []
    return [*named, *outranked(state, given)]


def outranked(state: CoordinatorState, given: Announcement) -> list[ev.LeaderItem]:
    """The claims to lead that the partition's log would refuse for their leader epoch.

    Such a claim must not replace the one in force. Otherwise the claim of the true leader would
    be lost: when its actor moves to another host, the wrong claim would be placed there.
    """
    refused = []
    for item in given.leaders:
        entry = state.partitions.get(key_of(item))
        led = None if entry is None else entry.leadership
        if led is None or led.claim.broker_id == given.broker_id:
            continue
        ours, theirs = item[3], led.leader_epoch
        if ours is not None and theirs is not None and ours <= theirs:
            refused.append(item)
    return refused


def _leads(state: CoordinatorState, given: Announcement, item: ev.LeaderItem) -> bool:
    """Whether `item` is in force already: the same incarnation leads in the same epoch."""
    entry = state.partitions.get(key_of(item))
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
    entry = state.partitions.get(key_of(item))
    claim = None if entry is None else entry.followers.get(given.broker_id)
    if claim is None or claim.incarnation != given.incarnation:
        return False
    return claim[1:] > state.announced_before_change.get(given.broker_id, (0, 0))


def _hosts(state: CoordinatorState, broker_id: int, item: ev.Item) -> bool:
    entry = state.partitions.get(key_of(item))
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


def leader_lost(
    state: CoordinatorState, key: PartitionKey, assignment: int, host: str
) -> list[CoordinatorBody]:
    """The event that the leader placed on `host` under `assignment` is gone; none if late.

    Also if nobody claims to lead any more: else the partition would be looked for there.
    """
    entry = state.partitions.get(key)
    if entry is None or (entry.leader_host, entry.placed) != (host, assignment):
        return []
    return [ev.LeaderLost(key.topic_id, key.partition, assignment)]
