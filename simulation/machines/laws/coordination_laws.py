"""Laws of placements and claims: what the coordinator's log holds, and what became of it.

The log is read here with rules of the simulator's own. Answers to callers do not show these
mistakes: a partition without a replica is read from its leader, and a checkpoint that is never
renewed only makes loading slow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.events import COORDINATOR_CODEC
from tierledger.events.commands import NO_CLAIM, Claim, LeaderVerdict
from tierledger.events.event_codec import genesis
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import Ready
from tierledger.simulation.machines.laws.run_laws import Written
from tierledger.storage.serde import MetadataSerDe


class Coordinated(NamedTuple):
    """One event of the coordinator's log."""

    durable_at: int
    """Nanoseconds, as in histories."""
    body: object


def resigned(events: Iterable[Coordinated], key: PartitionKey) -> frozenset[int]:
    """The brokers that have ever announced that they follow the partition."""
    return frozenset(
        one.body.broker_id
        for one in events
        if isinstance(one.body, ev.Announced)
        and any((topic_id, number) == key for topic_id, number, _ in one.body.followers)
    )


def coordinated(
    batches: Iterable[tuple[int, bytes]], serde: MetadataSerDe, cluster_id: str
) -> list[Coordinated]:
    """The events of the coordinator's log, from all of its `batches`: time (ns) and value."""
    position, chain_hash = 0, genesis(cluster_id, b"coordinator", 0)
    found = []
    for time, value in batches:
        _, _, stored = serde.deserialize("batch", value)
        events, chain_hash = COORDINATOR_CODEC.decode(stored, position, chain_hash)
        position += len(events)
        found += [Coordinated(time, event.body) for event in events]
    return found


def refusal_repeated(log: Sequence[Coordinated]) -> Iterator[Violation]:
    """The coordinator recorded one refusal twice, so that the first had changed nothing.

    If the actor led on for the claim's holder at first, its end is another refusal.
    """
    first: dict[tuple[bytes, int, int, bool], int] = {}
    for time, body in log:
        if not isinstance(body, ev.LeaderRefused):
            continue
        refusal = (body.topic_id, body.partition, body.assignment, body.is_served)
        if refusal in first:
            key = PartitionKey(body.topic_id, body.partition)
            message = (
                f"assignment {body.assignment} was refused again at {ms_text(time)}: the first "
                f"refusal, at {ms_text(first[refusal])}, has changed nothing"
            )
            yield Violation("refusal_repeated", key, message)
        first.setdefault(refusal, time)


EQUAL_ENOUGH = 4
"""If hosts differ by so many leaders or fewer, none moves from one to the other. A world may
have another bound."""


def needless_move(
    log: Sequence[Coordinated],
    moved: set[int],
    refusals: Collection[tuple[str, int, int]] | None = None,
    equal_enough: int = EQUAL_ENOUGH,
    may_be_emptied: Callable[[str, int], bool] = lambda _, __: False,
) -> Iterator[Violation]:
    """A leader was placed on another host while nothing was wrong with the one it was on.

    Nor did that one lead many more partitions than the other.
    Or the coordinator took it from its host because another host reported its claim as refused.

    `moved`: the numbers of placements that the world itself has asked for. `refusals`: host,
    partition and assignment of all reported refusals; None: not known. `may_be_emptied`:
    whether clients may not have come in at a host's door by a time (ns), or its process was to
    be replaced then.
    """
    seats = _Seats(equal_enough)
    for time, body in log:
        if isinstance(body, ev.LeaderRefused) and refusals is not None:
            key = PartitionKey(body.topic_id, body.partition)
            host, number = seats.homes.get(key, ("", -1))
            refusal = (host, key.partition, number)
            if number == body.assignment and refusal not in refusals:
                message = (
                    f"placement {number} was taken for refused at {ms_text(time)}; it is on "
                    f"{host}, which has not reported it"
                )
                yield Violation("needless_move", key, message)
        if isinstance(body, ev.LeadersPlaced):
            for topic_id, partition, number in body.partitions:
                home = seats.homes.get((topic_id, partition))
                if home is None or home[0] == body.host or number in moved:
                    continue
                if not (seats.are_unequal(home[0], body.host) or may_be_emptied(home[0], time)):
                    message = (
                        f"placement {number} at {ms_text(time)} moved the leader from "
                        f"{home[0]}, which leads under {home[1]}, to {body.host}"
                    )
                    key = PartitionKey(topic_id, partition)
                    yield Violation("needless_move", key, message)
        seats.take(body)


class _Led(NamedTuple):
    """A claim to lead, as it was announced."""

    incarnation: int
    leader_epoch: int | None
    imports: bool


class _Claims:
    """The claims to lead one partition, as far as the coordinator's log shows them."""

    def __init__(self) -> None:
        self.is_refused = False
        """Whether the partition's log refused a claim: only that log shows which one stands."""
        self._in_force: tuple[int, _Led] | None = None
        """The broker whose claim is in force, and that claim."""
        self._gone: _Led | None = None
        """The last claim that was given up while it was in force."""
        self._replaced: dict[int, _Led] = {}
        """By broker, replaced claims that were not given up; the newest comes last."""
        self._claiming: set[int] = set()
        """Brokers whose newest announcement is that they lead."""

    def lead(self, broker_id: int, led: _Led) -> None:
        """Put that claim in force."""
        if self._in_force is not None:
            former, claim = self._in_force
            self._replaced.pop(former, None)
            self._replaced[former] = claim
        self._replaced.pop(broker_id, None)
        self._in_force = broker_id, led
        self._claiming.add(broker_id)

    def give_up(self, broker_id: int) -> None:
        """Drop the broker's claim: it has announced that it no longer leads."""
        self._claiming.discard(broker_id)
        self._replaced.pop(broker_id, None)
        if self._in_force is not None and self._in_force[0] == broker_id:
            self._gone = self._in_force[1]
            self._in_force = None

    def restore(self, broker_id: int, newest: Mapping[int, int]) -> str | None:
        """Put that broker's claim in force again; the result is why that is wrong, or None.

        `newest`: each broker's newest incarnation.
        """
        if broker_id not in self._claiming:
            return "though it has given up its claim"
        if self.is_refused or self._gone is None:
            return None
        gone = self._gone.leader_epoch
        standing = [
            one
            for one, former in self._replaced.items()
            if former.incarnation == newest.get(one) and not former.imports
            if former.leader_epoch is None or gone is None or former.leader_epoch > gone
        ]
        if broker_id in self._replaced:
            self.lead(broker_id, self._replaced[broker_id])
        if standing[-1:] == [broker_id]:
            return None
        return f"though the claim of broker {standing[-1]} stands and came last"


def passed_over(log: Sequence[Coordinated]) -> Iterator[Violation]:
    """A claim was put in force again though it was given up, or though a later one stands."""
    partitions: defaultdict[tuple[bytes, int], _Claims] = defaultdict(_Claims)
    newest: dict[int, int] = {}
    for time, body in log:
        match body:
            case ev.ClientRegistered():
                newest[body.broker_id] = body.incarnation
            case ev.LeaderRefused():
                partitions[body.topic_id, body.partition].is_refused = True
            case ev.Announced():
                for topic_id, partition, _, epoch, _ in body.leaders:
                    led = _Led(body.incarnation, epoch, body.import_cluster is not None)
                    partitions[topic_id, partition].lead(body.broker_id, led)
                for topic_id, partition, _ in (*body.followers, *body.stopped):
                    partitions[topic_id, partition].give_up(body.broker_id)
            case ev.LeaderRestored():
                where = body.topic_id, body.partition
                why = partitions[where].restore(body.broker_id, newest)
                if why is not None:
                    message = (
                        f"the claim of broker {body.broker_id} was put in force again at "
                        f"{ms_text(time)}, {why}"
                    )
                    yield Violation("passed_over", PartitionKey(*where), message)
            case _:
                pass


class _Seats:
    """Where leaders and followers run, by the coordinator's log."""

    def __init__(self, equal_enough: int = EQUAL_ENOUGH) -> None:
        self._equal_enough = equal_enough
        self.homes: dict[tuple[bytes, int], tuple[str, int]] = {}
        """The leader's host, and the number of its placement."""
        self.followed_from: dict[tuple[bytes, int], str] = {}
        self.hosts: set[str] = set()
        self._last: dict[tuple[bytes, int], str] = {}
        """The host on which a leader was placed last; it may have been let go there since."""
        self._followers: defaultdict[tuple[bytes, int], set[int]] = defaultdict(set)

    def load(self, host: str) -> int:
        """How many leaders and followers run on `host`."""
        led = sum(home == host for home, _ in self.homes.values())
        return led + sum(home == host for home in self.followed_from.values())

    def are_unequal(self, host: str, other: str) -> bool:
        """Whether `host` leads so many more partitions than `other` that one may move there."""
        led = Counter(home for home, _ in self.homes.values())
        may_lead = sum(home == host for home in self._last.values())
        return may_lead - led[other] > self._equal_enough

    def take(self, body: object) -> bool:
        """Apply an event; the result is whether it can have changed what runs where."""
        match body:
            case ev.Announced():
                self._announced(body)
            case ev.HostStarted():
                self.hosts.add(body.host)
            case ev.LeadersPlaced():
                for topic_id, partition, number in body.partitions:
                    self.homes[topic_id, partition] = (body.host, number)
                    self._last[topic_id, partition] = body.host
            case ev.FollowersPlaced():
                for topic_id, partition in body.partitions:
                    self.followed_from[topic_id, partition] = body.host
            case ev.LeaderLost():
                self._left((body.topic_id, body.partition), body.assignment)
            case ev.LeaderRefused() if not body.is_served:
                self._left((body.topic_id, body.partition), body.assignment)
            case ev.HostLost():
                self._lost(body.host)
                self._last = {key: at for key, at in self._last.items() if at != body.host}
            case ev.PartitionForgotten():
                self._let_go((body.topic_id, body.partition))
            case _:
                return False
        return True

    def _announced(self, body: ev.Announced) -> None:
        for topic_id, partition, *_ in body.leaders:
            self._followers[topic_id, partition].discard(body.broker_id)
        for topic_id, partition, _ in body.followers:
            self._followers[topic_id, partition].add(body.broker_id)
        for topic_id, partition, _ in body.stopped:
            followers = self._followers[topic_id, partition]
            followers.discard(body.broker_id)
            if not followers:  # Perhaps no broker hosts it any more, so that it is released.
                self._let_go((topic_id, partition))

    def _let_go(self, key: tuple[bytes, int]) -> None:
        self.homes.pop(key, None)
        self.followed_from.pop(key, None)

    def _left(self, key: tuple[bytes, int], number: int) -> None:
        if key in self.homes and self.homes[key][1] == number:
            del self.homes[key]

    def _lost(self, host: str) -> None:
        self.hosts.discard(host)
        self.homes = {key: home for key, home in self.homes.items() if home[0] != host}
        self.followed_from = {
            key: home for key, home in self.followed_from.items() if home != host
        }


def early_ready(
    log: Sequence[Coordinated], ready: Sequence[Ready], logs: Mapping[PartitionKey, FinalLog]
) -> Iterator[Violation]:
    """A replica reported ready for an announcement before it had read up to it.

    A follower must have read all events that became durable before the announcement did. A
    leader must be in the session that was opened for the announcement.
    """
    announced: dict[tuple[tuple[bytes, int], tuple[int, int, int]], int] = {}
    for time, body in log:
        if isinstance(body, ev.Announced):
            claim = body.broker_id, body.incarnation, body.number
            named = [item[:2] for item in body.leaders] + [item[:2] for item in body.followers]
            for where in named:
                announced.setdefault((where, claim), time)
    for one in ready:
        final, since = logs.get(one.key), announced.get((one.key, one.claim))
        if final is None:
            continue
        wrong = None
        if since is None:
            wrong = ", which nobody announced"
        elif one.role == LEADER and final.claim_at(one.position) != one.claim:
            wrong = ", whose session is not open there"
        elif one.role == FOLLOWER and one.position + 1 < final.durable_before(since):
            wrong = (
                f"; when that was announced, at {ms_text(since)}, "
                f"position {final.durable_before(since) - 1} was durable"
            )
        if wrong is not None:
            message = (
                f"{one.node_life} reported at {ms_text(one.time)}, at position {one.position}, "
                f"that it is ready for {one.claim}{wrong}"
            )
            yield Violation("early_ready", one.key, message)


def beside(
    log: Sequence[Coordinated],
    partitions: int,
    room: int,
    is_open: Callable[[str, int], bool] = lambda _, __: True,
) -> Iterator[Violation]:
    """A follower was placed on its leader's host, though another had room.

    Only worlds in which every host has room for all leaders and followers are judged.
    `is_open`: whether it was known of a host, at a time (ns), that clients reach it.
    """
    if 2 * partitions > room:
        return
    seats = _Seats()
    for time, body in log:
        seats.take(body)
        if not isinstance(body, ev.FollowersPlaced):
            continue
        if not any(is_open(host, time) for host in seats.hosts if host != body.host):
            continue
        for topic_id, partition in body.partitions:
            if seats.homes.get((topic_id, partition), ("",))[0] == body.host:
                message = (
                    f"its follower was placed at {ms_text(time)} on {body.host}, which leads it"
                )
                yield Violation("together", PartitionKey(topic_id, partition), message)


def crowded(log: Sequence[Coordinated], room: int) -> Iterator[Violation]:
    """A follower was placed on a host that was full: only a leader may be, for a moment.

    Events that were decided at once have one time in the log; loads after the last of them
    count.
    """
    seats, batch = _Seats(), list[ev.FollowersPlaced]()
    for (time, body), after in zip(log, [*log[1:], None], strict=True):
        seats.take(body)
        if isinstance(body, ev.FollowersPlaced):
            batch.append(body)
        if after is not None and after.durable_at == time:
            continue
        for placed in batch:
            load = seats.load(placed.host)
            if load > room:
                message = (
                    f"{placed.host} has room for {room}, and was given a follower at "
                    f"{ms_text(time)}, which makes {load}"
                )
                yield Violation("crowded", PartitionKey(*placed.partitions[0]), message)
        batch = []


def needless_fence(
    log: Sequence[Coordinated],
    fenced: Sequence[tuple[int, int, tuple[int, int]]],
    accepted: Sequence[AnnouncedTo] = (),
) -> Iterator[Violation]:
    """A broker was fenced, and neither a newer incarnation nor announcement of it is known.

    `fenced`: time (ns), broker id, and the pair of incarnation and announcement. `accepted`:
    also announcements that only repeated what the log has.
    """
    for until, broker_id, pair in fenced:
        if any(
            one.time <= until
            and one.given.broker_id == broker_id
            and (one.given.incarnation, one.given.number) > pair
            for one in accepted
        ):
            continue
        newer = (
            (body.incarnation, getattr(body, "number", 0)) > pair
            for time, body in log
            if isinstance(body, ev.ClientRegistered | ev.Announced) and time <= until
            if body.broker_id == broker_id
        )
        if not any(newer):
            message = (
                f"broker {broker_id} was told at {ms_text(until)} that it is out of date with "
                f"{Claim(broker_id, *pair)}, and that was its newest"
            )
            yield Violation("needless_loss", None, message)


def against_kafka(
    log: Sequence[Coordinated],
    informed: Mapping[tuple[Claim, PartitionKey], Sequence[LeaderVerdict | None]],
) -> Iterator[Violation]:
    """An announcement was accepted in contradiction to Kafka's answer about its leader.

    `informed`: Kafka's answers about a claim to lead, one each time that it was asked; None: it
    did not answer.
    """
    for time, body in log:
        if not isinstance(body, ev.Announced) or not informed:
            continue
        claim = Claim(body.broker_id, body.incarnation, body.number)
        for topic_id, partition, _, epoch, _ in body.leaders:
            key = PartitionKey(topic_id, partition)
            answers = informed.get((claim, key))
            if answers is None:
                continue
            epochs = {one and one.leader_epoch for one in answers if _may_lead(one, claim)}
            if epoch not in epochs:
                named = [one and (one.broker_id, one.leader_epoch) for one in answers]
                message = (
                    f"broker {claim.broker_id} was taken for the leader in epoch {epoch} at "
                    f"{ms_text(time)}; Kafka had named {named} (broker, leader epoch)"
                )
                yield Violation("against_kafka", key, message)


def _may_lead(verdict: LeaderVerdict | None, claim: Claim) -> bool:
    return verdict is None or verdict.broker_id == claim.broker_id


class AnnouncedTo(NamedTuple):
    """An announcement that its client was told is durable."""

    time: int
    """When the answer was made (ns)."""
    given: ev.Announcement
    claims: tuple[Claim, ...]
    """The claim in force for each leader, then each follower."""


def unannounced(
    log: Sequence[Coordinated], accepted: Iterable[AnnouncedTo]
) -> Iterator[Violation]:
    """A broker was told that its roles are announced, and the log does not hold that.

    Each claim that it was told has to stand there in that role: that of the announcement, or of
    an earlier one that it repeats. What it stopped must stand there in no role of its; if its
    claim to lead may have been refused since, there is nothing to stop.
    """
    held: defaultdict[tuple[PartitionKey, int], list[tuple[int, Claim, str]]]
    held = defaultdict(list)
    for time, body in log:
        if isinstance(body, ev.Announced):
            claim = Claim(body.broker_id, body.incarnation, body.number)
            for role, key in _roles(body):
                held[key, body.broker_id].append((time, claim, role))
        elif isinstance(body, ev.LeaderRefused):
            for (key, _), known in held.items():
                _, claim, role = known[-1]
                if key == body[:2] and role == LEADER and claim != body.holder:
                    known.append((time, claim, ""))
    for time, given, claims in accepted:
        told = iter(claims)
        for role, key in _roles(given):
            then = [one[1:] for one in held[key, given.broker_id] if one[0] <= time]
            claim = next(told) if role else given.claim
            if role:
                is_held = claim == NO_CLAIM or (claim, role) in then
            else:
                is_held = not then or not then[-1][1] or then[-1][0] > claim
            if not is_held:
                what = f"is its {role} under {claim}" if role else "has stopped"
                message = (
                    f"broker {given.broker_id} was told at {ms_text(time)} that it {what}, and "
                    "the coordinator's log did not hold that"
                )
                yield Violation("unannounced", key, message)


def _roles(given: ev.Announcement | ev.Announced) -> Iterator[tuple[str, PartitionKey]]:
    """The partitions of an announcement, each with its role; empty for those it stopped."""
    for role, items in (
        (LEADER, given.leaders),
        (FOLLOWER, given.followers),
        ("", given.stopped),
    ):
        for item in items:
            yield role, PartitionKey(*item[:2])


# Laws of a world that is well again.


def unfollowed(
    following: Mapping[PartitionKey, Collection[Claim]],
    followed: Collection[PartitionKey],
    log: Sequence[Coordinated],
) -> Iterator[Violation]:
    """A broker follows a partition, and no host that can be reached follows its log.

    `following`: the claims of brokers that follow. `followed`: what hosts follow.
    """
    for key, claims in following.items():
        if claims and key not in followed:
            who = " and ".join(str(claim.broker_id) for claim in claims)
            times = _announced_at(log, claims)
            since = f" since {ms_text(min(times))}" if times else ""
            message = (
                f"broker {who} follows it{since}, and no host that can be reached does: its "
                f"follower {_last_placed(key, log)}"
            )
            yield Violation("unfollowed", key, message)


def _announced_at(log: Sequence[Coordinated], claims: Collection[Claim]) -> list[int]:
    """When `claims` were announced (ns), as far as they were."""
    return [
        time
        for time, body in log
        if isinstance(body, ev.Announced)
        and Claim(body.broker_id, body.incarnation, body.number) in claims
    ]


def _last_placed(key: PartitionKey, log: Sequence[Coordinated]) -> str:
    """Where the follower was placed last, or since when it is placed nowhere, as text."""
    seats, text = _Seats(), "was never placed"
    for time, body in log:
        before = seats.followed_from.get(key)
        seats.take(body)
        home = seats.followed_from.get(key)
        if home != before:
            at = ms_text(time)
            text = f"went from {before} at {at}" if home is None else f"is on {home} since {at}"
    return text


def together(
    log: Sequence[Coordinated],
    keys: Iterable[PartitionKey],
    loads: Mapping[str, int],
    room: int,
    until: int,
) -> Iterator[Violation]:
    """A partition's follower is on its leader's host, though other hosts have room.

    `loads`: leaders and followers on each host that can be reached; `room`: how many each may
    have. What was placed after `until` (ns) need not have taken effect.
    """
    seats, since = _Seats(), 0
    for time, body in log:
        if seats.take(body):
            since = time
    for key in keys:
        led_from, followed_from = seats.homes.get(key), seats.followed_from.get(key)
        if led_from is None or led_from[0] != followed_from or since > until:
            continue
        others = [
            name
            for name, load in loads.items()
            if name != led_from[0] and name in seats.hosts and load < room
        ]
        if others:
            message = (
                f"{led_from[0]} leads and follows it, nothing was placed since "
                f"{ms_text(since)}, and there is room on {', '.join(others)}"
            )
            yield Violation("together", key, message)


def needless_loss(log: Sequence[Coordinated], well: Collection[str]) -> Iterator[Violation]:
    """A host was given up though its process lived and had always answered.

    `well`: the names of the processes of which that is true.
    """
    processes: dict[str, str] = {}
    following = [*(body for _, body in log[1:]), None]
    for (time, body), after in zip(log, following, strict=True):
        if isinstance(body, ev.HostStarted):
            processes[body.host] = body.process
        elif isinstance(body, ev.HostLost) and body.host in processes:
            if isinstance(after, ev.HostStarted) and after.host == body.host:
                continue  # Two coordinators have each started a process of this host.
            process = processes.pop(body.host)
            if process in well:
                message = f"{process} was given up at {ms_text(time)}, and lives and answers"
                yield Violation("needless_loss", None, message)


class WantedReplica(NamedTuple):
    """A claim of a broker that leads or follows a partition, as Kafka wants it to."""

    key: PartitionKey
    role: str
    claim: Claim
    is_ready: bool
    """Whether a replica was ready for it after `since`."""


def unready(wanted: Iterable[WantedReplica], since: int) -> Iterator[Violation]:
    """A broker asks whether its replica is ready for its claim since then, and it is not."""
    for key, role, claim, is_ready in wanted:
        if not is_ready:
            message = (
                f"broker {claim.broker_id} asks its {role} whether it is ready for {claim} "
                f"since {ms_text(since)}, and is not told so"
            )
            yield Violation("unready", key, message)


def stalled_checkpoint(
    log: FinalLog, leader: str | None, well_at: int, last: Written | None, every: int
) -> Iterator[Violation]:
    """The checkpoint is further behind than a leader may let it be.

    `leader`: who leads in the log's last session; None: nobody has to write one. `last`: the
    newest checkpoint; None: there is none. `every`: events between two checkpoints. It may lack
    at most so many of the events that were durable when all was well, at `well_at` (ns).
    """
    if leader is None:
        return
    due = log.durable_before(well_at) - every
    covered = -1 if last is None else last.position
    if covered + 1 < due:
        text = "no checkpoint was written"
        if last is not None:
            text = f"the last checkpoint, at {ms_text(last.time)}, ends at position {covered}"
        message = (
            f"{text}; {leader} leads, and writes one every {every} events: one up to "
            f"position {due - 1} was due"
        )
        yield Violation("stalled_checkpoint", log.key, message)
