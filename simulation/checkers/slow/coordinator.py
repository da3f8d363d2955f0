"""The coordinator's rules written a second time: its state, replies and decisions.

It keeps one plain table of partitions and scans it for everything else: the load of each host,
unplaced leaders and followers, followers beside their leaders. It shares no code with the
coordinator's rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tierledger.actors.calls import FOLLOWER, LEADER, CloseCall, PartitionKey, Placement
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.holds import Hold
from tierledger.actors.messages import Assignment
from tierledger.events.commands import NO_CLAIM, Claim

REGISTRATIONS = 8
"""How many of a broker's last registrations are kept, to recognise a repeated request."""


class Claimed(NamedTuple):
    """A claim to lead as its broker announced it, with its placement's number (0: none)."""

    claim: Claim
    leader_epoch: int | None
    import_cluster: str | None
    recorded_time_ms: int | None
    number: int = 0


@dataclass
class Row:
    """The state of one partition."""

    topic: str
    led: Claimed | None = None
    leader_host: str | None = None
    replaced: list[Claimed] = field(default_factory=list)
    """Claims that another broker's claim replaced, not given up since; the newest last."""
    stops: dict[int, Claim] = field(default_factory=dict)
    """The announcements by which brokers stopped hosting it that do not host it again."""
    followers: dict[int, Claim] = field(default_factory=dict)
    follower_host: str | None = None
    follower_number: int = 0
    leader_number: int = 0

    def drop(self, broker_id: int) -> Claimed | None:
        """Remove the broker's replaced claim, and return it if there was one."""
        found = next((one for one in self.replaced if one.claim.broker_id == broker_id), None)
        self.replaced = [one for one in self.replaced if one is not found]
        return found


class SlowCoordinator:
    """The fold of a coordinator's log."""

    def __init__(self) -> None:
        self.end = 0
        self.changes: list[ev.OwnerChanged] = []
        """Every change of the metadata's owner, oldest first."""
        self.holds: list[Hold] = []
        """Placed and not released, oldest first."""
        self.rows: dict[PartitionKey, Row] = {}
        self.incarnations: dict[int, int] = {}
        self.registrations: dict[int, list[tuple[bytes, int]]] = {}
        self.announced: dict[int, tuple[int, int]] = {}
        self.announced_then: dict[int, tuple[int, int]] = {}
        """`announced` as it was when the owner last changed."""
        self.hosts: dict[str, tuple[str, str]] = {}
        """Host to process and address."""
        self.generations: dict[str, int] = {}
        self.number = 0
        """The number of the last placement of a leader."""

    def load(self, host: str) -> int:
        """How many leaders and followers run on `host`."""
        seats = [(row.leader_host, row.follower_host) for row in self.rows.values()]
        return sum(pair.count(host) for pair in seats)

    def unplaced(self) -> set[tuple[PartitionKey, str]]:
        """Announced leaders and followers that no host runs: partition and role of each."""
        led = {
            (key, LEADER) for key, row in self.rows.items() if row.led and not row.led.number
        }
        return led | {
            (key, FOLLOWER)
            for key, row in self.rows.items()
            if row.followers and row.follower_host is None
        }

    def stranded(self, emptied: Collection[str]) -> set[tuple[PartitionKey, str]]:
        """Leaders and followers that brokers need, on hosts that clients do not reach."""
        seats = set()
        for key, row in self.rows.items():
            if row.led is not None and row.leader_host in emptied:
                seats.add((key, LEADER))
            if row.followers and row.follower_host in emptied:
                seats.add((key, FOLLOWER))
        return seats

    def together(self) -> set[PartitionKey]:
        """Partitions that one host leads and follows."""
        return {
            key
            for key, row in self.rows.items()
            if row.leader_host is not None and row.leader_host == row.follower_host
        }

    def differs_from(self, state: CoordinatorState) -> str | None:
        """The first difference between a coordinator's state and this fold; none if equal."""
        rows = {
            key: Row(
                entry.topic,
                None if entry.leadership is None else Claimed(*entry.leadership),
                entry.leader_host,
                [Claimed(*one) for one in entry.displaced.values()],
                entry.stopped,
                entry.followers,
                entry.follower_host,
                entry.follower_number,
                entry.leader_number,
            )
            for key, entry in state.partitions.items()
        }
        hosts = {
            host: (process, state.addresses[host]) for host, process in state.hosts.items()
        }
        known = {one: dict(made) for one, made in self.registrations.items()}
        loads = {host: self.load(host) for host in hosts}
        pairs = [
            ("next position", state.next_position, self.end),
            ("owner", state.ownership[1:], self.owned),
            ("owner epoch", state.ownership.epoch, len(self.changes)),
            ("holds", [one.hold for one in state.holds.values()], self.holds),
            ("partitions", rows, self.rows),
            ("hosts", hosts, self.hosts),
            ("generations", state.generations, self.generations),
            ("incarnations", state.incarnations, self.incarnations),
            ("registrations", state.registrations, known),
            ("newest announcements", state.announced, self.announced),
            ("last placement", state.assignment, self.number),
            ("unplaced", set(state.unplaced), self.unplaced()),
            ("partitions beside their followers", set(state.together), self.together()),
            ("loads of hosts", {host: state.loads[host] for host in hosts}, loads),
        ]
        for name, found, expected in pairs:
            if found != expected:
                return f"its {name} are {found!r:.400}; by the slow rules {expected!r:.400}"
        return None

    # Events.

    def take(self, body: Any) -> list[HostWork]:  # noqa: ANN401
        """Fold one event in; returns the work that hosts are sent because of it."""
        name = "_" + type(body).__name__
        works: list[HostWork] | None = getattr(self, name)(body)
        self.end += 1
        return works or []

    def _ClientRegistered(self, body: ev.ClientRegistered) -> None:  # noqa: N802
        self.incarnations[body.broker_id] = body.incarnation
        if body.request is not None:
            made = self.registrations.get(body.broker_id, [])
            made = [*made, (body.request, body.incarnation)]
            self.registrations[body.broker_id] = made[-REGISTRATIONS:]

    def _HostStarted(self, body: ev.HostStarted) -> None:  # noqa: N802
        self.hosts[body.host] = (body.process, body.address)
        self.generations[body.host] = body.generation

    def _HostLost(self, body: ev.HostLost) -> None:  # noqa: N802
        self.hosts.pop(body.host, None)
        for row in self.rows.values():
            if row.leader_host == body.host:
                row.leader_host = None
                row.led = row.led and row.led._replace(number=0)
            if row.follower_host == body.host:
                row.follower_host = None

    def _Announced(self, body: ev.Announced) -> list[HostWork]:  # noqa: N802
        claim, works = Claim(body.broker_id, body.incarnation, body.number), list[HostWork]()
        self.announced[body.broker_id] = claim[1:]
        for topic_id, partition, topic, epoch, recorded_ms in body.leaders:
            row = self._row((topic_id, partition), topic)
            row.stops.pop(claim.broker_id, None)
            row.followers.pop(claim.broker_id, None)
            row.drop(claim.broker_id)
            if row.led is not None and row.led.claim.broker_id != claim.broker_id:
                row.replaced.append(row.led)
            row.led = Claimed(claim, epoch, body.import_cluster, recorded_ms)
        for topic_id, partition, topic in body.followers:
            where = PartitionKey(topic_id, partition)
            row = self._row(where, topic)
            row.stops.pop(claim.broker_id, None)
            works += self._given_up(where, claim.broker_id)
            row.followers[claim.broker_id] = claim
            if row.follower_host is not None:
                works.append(_host_work(row.follower_host, self._to_follow(where, claim)))
        for topic_id, partition, topic in body.stopped:
            where = PartitionKey(topic_id, partition)
            row, heir = self._row(where, topic), self.heir(where, claim.broker_id)
            works += self._given_up(where, claim.broker_id)
            row.followers.pop(claim.broker_id, None)
            row.stops[claim.broker_id] = claim
            if heir is None and row.led is None and not row.followers:
                works += self._let_go(where)
        return works

    def _row(self, where: Iterable[Any], topic: str) -> Row:
        return self.rows.setdefault(PartitionKey(*where), Row(topic))

    def _given_up(self, where: Iterable[Any], broker_id: int) -> list[HostWork]:
        """A broker gives up its claim; the leader's host is to close that claim's session."""
        key = PartitionKey(*where)
        row = self.rows[key]
        former = row.drop(broker_id)
        if row.led is not None and row.led.claim.broker_id == broker_id:
            former, row.led = row.led, None
        if former is None or row.leader_host is None:
            return []
        return [HostWork(row.leader_host, (), (CloseCall(key, former.claim),))]

    def _let_go(self, where: Iterable[Any]) -> list[HostWork]:
        key = PartitionKey(*where)
        row, works = self.rows[key], list[HostWork]()
        for host, role, until in (
            (row.leader_host, LEADER, self.number),
            (row.follower_host, FOLLOWER, row.follower_number),
        ):
            if host is not None:
                works.append(_host_work(host, Placement(key, row.topic, role, None, until)))
        row.leader_host = row.follower_host = None
        return works

    def _to_follow(self, where: Iterable[Any], claim: Claim) -> Placement:
        key = PartitionKey(*where)
        row = self.rows[key]
        assigned = Assignment(row.follower_number, claim, topic=row.topic)
        return Placement(key, row.topic, FOLLOWER, assigned)

    def _to_lead(self, key: PartitionKey) -> Placement:
        row = self.rows[key]
        led = row.led
        assert led is not None, "somebody leads"
        assigned = Assignment(
            number=led.number,
            claim=led.claim,
            leader_epoch=led.leader_epoch,
            topic=row.topic,
            import_cluster=led.import_cluster,
            recorded_time_ms=led.recorded_time_ms,
            resigned=tuple(sorted(row.followers.values())) if led.import_cluster else (),
        )
        return Placement(key, row.topic, LEADER, assigned)

    def _LeadersPlaced(self, body: ev.LeadersPlaced) -> list[HostWork]:  # noqa: N802
        works, placements = list[HostWork](), list[Placement]()
        for topic_id, partition, number in body.partitions:
            self.number = max(self.number, number)
            key = PartitionKey(topic_id, partition)
            row = self.rows.get(key)
            if row is not None and row.led is not None:
                if row.leader_host not in {None, body.host}:
                    release = Placement(key, row.topic, LEADER, None, number - 1, True)
                    works.append(_host_work(str(row.leader_host), release))
                row.leader_host, row.leader_number = body.host, number
                row.led = row.led._replace(number=number)
                placements.append(self._to_lead(key))
        return [*works, _host_work(body.host, *placements)] if placements else works

    def _FollowersPlaced(self, body: ev.FollowersPlaced) -> list[HostWork]:  # noqa: N802
        works, placements = list[HostWork](), list[Placement]()
        for where in body.partitions:
            key = PartitionKey(*where)
            row = self.rows.get(key)
            if row is None:
                continue
            if row.follower_host not in {None, body.host}:
                release = Placement(key, row.topic, FOLLOWER, None, row.follower_number)
                works.append(_host_work(str(row.follower_host), release))
            row.follower_host, row.follower_number = body.host, self.end
            placements += [self._to_follow(where, claim) for claim in row.followers.values()]
        return [*works, _host_work(body.host, *placements)] if placements else works

    def _LeaderLost(self, body: ev.LeaderLost) -> None:  # noqa: N802
        row = self.rows.get(PartitionKey(body.topic_id, body.partition))
        if row is None:
            return
        if row.led is None and row.leader_number == body.assignment:
            row.leader_host = None  # Nobody leads; the actor had stayed for the next claim.
        elif row.led is not None and row.led.number == body.assignment:
            row.led, row.leader_host = row.led._replace(number=0), None

    def _LeaderRestored(self, body: ev.LeaderRestored) -> None:  # noqa: N802
        row = self.rows.get(PartitionKey(body.topic_id, body.partition))
        former = None if row is None else row.drop(body.broker_id)
        if row is not None and former is not None and row.led is None:
            row.led = former._replace(number=0)

    def _LeaderRefused(self, body: ev.LeaderRefused) -> None:  # noqa: N802
        """The log refused the claim in force: restore the log's claim, or one that came later.

        Otherwise the refused claim would be placed again and again. A claim that came after the
        log's and still stands goes first, since Kafka does not repeat its notification. If the
        log refuses that one, too, the next is found, and in the end the log's own.
        The log's claim keeps its placement only if its leader still runs, and no other placed
        claim may wait for the oracle: only a newer session stops such a claim from opening.
        """
        row = self.rows.get(PartitionKey(body.topic_id, body.partition))
        if row is None or row.led is None or row.led.number != body.assignment:
            return
        if not body.is_served:
            row.leader_host = None
        refused, row.led = row.led, None
        holder = None if body.holder is None else Claim(*body.holder)
        heir = None
        for former in reversed(row.replaced) if holder != refused.claim else ():
            is_holders = holder is not None and former.claim.broker_id == holder.broker_id
            may_stand = self._is_alive(former) and former.import_cluster is None
            if is_holders:
                assert holder is not None, "it has a broker"
                heir = former if may_stand and former.claim > holder else None
                break
            if may_stand and _may_follow(former.leader_epoch, body.leader_epoch):
                heir = former
                break
        if heir is not None:
            row.led = heir._replace(number=0)
            row.drop(heir.claim.broker_id)
        elif holder is not None and holder.broker_id not in row.followers:
            row.drop(holder.broker_id)
            others_wait = any(former.number for former in row.replaced)
            number = body.assignment if body.is_served and not others_wait else 0
            row.led = Claimed(
                holder, body.leader_epoch, body.import_cluster, body.recorded_time_ms, number
            )

    def _OwnerChanged(self, body: ev.OwnerChanged) -> None:  # noqa: N802
        self.changes.append(body)
        self.announced_then = {**self.announced}

    def _DeletionsHeld(self, body: ev.DeletionsHeld) -> None:  # noqa: N802
        """Nothing that this fold keeps."""

    def _DeletionsReleased(self, body: ev.DeletionsReleased) -> None:  # noqa: N802
        """Nothing that this fold keeps."""

    def _HoldPlaced(self, body: ev.HoldPlaced) -> None:  # noqa: N802
        self.holds = [*self.holds, Hold(*body)]

    def _HoldReleased(self, body: ev.HoldReleased) -> None:  # noqa: N802
        self.holds = [one for one in self.holds if one.name != body.name]

    def _PartitionForgotten(self, body: ev.PartitionForgotten) -> None:  # noqa: N802
        self.rows.pop(PartitionKey(body.topic_id, body.partition), None)

    # Decisions.

    def _is_alive(self, claimed: Claimed) -> bool:
        return self.incarnations.get(claimed.claim.broker_id) == claimed.claim.incarnation

    def heir(self, key: PartitionKey, broker_id: int) -> Claimed | None:
        """The replaced claim that is restored if `broker_id` gives up the one in force.

        Kafka's notifications of two elections may arrive in either order, and Kafka does not
        repeat them: without this claim nobody would lead. Its broker must be alive, and its
        leader epoch must not be known to be the lower one.
        """
        row = self.rows.get(key)
        if row is None or row.led is None or row.led.claim.broker_id != broker_id:
            return None
        standing = [
            one
            for one in row.replaced
            if self._is_alive(one) and one.import_cluster is None
            if _may_follow(one.leader_epoch, row.led.leader_epoch)
        ]
        return standing[-1] if standing else None

    @property
    def owned(self) -> ev.OwnerChanged:
        return self.changes[-1] if self.changes else ev.OwnerChanged("nobody")

    def hand_over(self, wish: Handover) -> list[Any] | str:
        """Events that let `wish` come true, or its error; none if it is true already.

        Between Kafka's manager and tierledger the metadata must be moving, while brokers hold
        their writes. Without that step one broker would not see what another had written with
        the other manager, and what a broker does not see is deleted. The owner epoch names the
        move that a wish ends, so that a late wish cannot end a later move.
        """
        to, of, heading, owner_epoch, within, _ = wish
        owner, source, towards, _ = self.owned
        step = (of, to)
        if of == "moving":
            if owner == to and len(self.changes) == owner_epoch + 1:
                return []
            may = owner == of and owner_epoch == len(self.changes)
            if may and to == "moving" and heading == towards:
                return [ev.OwnerChanged(to, source, towards, within)]
            may = may and to in (source, towards)
            return [ev.OwnerChanged(to)] if may else "RejectedError"
        if to == "moving":
            if owner == "moving" and step == (source, to) and heading == towards:
                return []
            there = {"kafka": "tierledger", "tierledger": "kafka"}.get(of)
            may = owner == of and there is not None and heading == there
            return [ev.OwnerChanged(to, of, there or "", within)] if may else "RejectedError"
        if owner == to:
            return []
        may = owner == of and step in {("nobody", "kafka"), ("nobody", "tierledger")}
        return [ev.OwnerChanged(to)] if may else "RejectedError"

    def hold(self, hold: Hold, now_ms: int) -> list[Any] | str:
        """Events that place `hold`, or its error; none if it is placed already.

        Kafka's own manager heeds no hold, and before and during a move it may decide next.
        """
        if self.owned.owner not in ("nobody", "tierledger"):
            return "RejectedError"
        if any(one.name == hold.name for one in self.holds):
            return [] if hold in self.holds else "RejectedError"
        if hold.until_ms is not None and hold.until_ms <= now_ms:
            return "RejectedError"
        return "RejectedError" if len(self.holds) > 199 else [ev.HoldPlaced(*hold)]

    def let_go(self, name: str, by: str, reason: str) -> list[Any] | str:
        """The event that releases a hold, or the error if there is none of that name."""
        known = [one.name for one in self.holds]
        return [ev.HoldReleased(name, by, reason)] if name in known else "RejectedError"

    def lets_in(self, mode: str, *, is_in: bool) -> str | None:
        """The error that a plugin in `mode` gets when it registers; none if it is let in."""
        table = {
            ("shadow", "moving"): "NotReady",
            ("shadow", "tierledger"): "RejectedError",
            ("tierledger", "nobody"): "NotReady",
            ("tierledger", "kafka"): "NotReady",
            ("tierledger", "moving"): "NotReady",
        }
        owner, source, _, _ = self.owned
        stays = is_in and owner == "moving" and source == "tierledger" and mode == "tierledger"
        return None if stays else table.get((mode, owner))

    def register(
        self, broker_id: int, request: bytes, after: int, mode: str | None = None
    ) -> list[Any] | str:
        newest = self.incarnations.get(broker_id, 0)
        is_repeat = request in dict(self.registrations.get(broker_id, ()))
        error = None if mode is None else self.lets_in(mode, is_in=is_repeat)
        if error is not None:
            return error
        if after != newest or is_repeat:
            return []
        return [ev.ClientRegistered(broker_id, newest + 1, request)]

    def announce(
        self,
        given: ev.Announcement,
        heard: tuple[int, int],
        denied: AbstractSet[PartitionKey] = frozenset(),
    ) -> list[Any] | str:
        """Events of an announcement, or its error; `heard`: the newest that was decided on."""
        newest = self.incarnations.get(given.broker_id, 0)
        if given.incarnation != newest:
            return "InvalidArgument" if given.incarnation > newest else "Fenced"
        pair = (given.incarnation, given.number)
        last = max(heard, self.announced.get(given.broker_id, (0, 0)))
        if pair <= last:
            return "Fenced" if pair < last else []
        leaders = tuple(
            item
            for item in given.leaders
            if PartitionKey(*item[:2]) not in denied and self._is_new_leader(given, item)
        )
        followers = tuple(
            item for item in given.followers if self._is_new_follower(given, item)
        )
        stopped = tuple(item for item in given.stopped if self._hosts(given.broker_id, item))
        if not (leaders or followers or stopped):
            return []
        if leaders and given.import_cluster is None and self.owned[0] in {"kafka", "moving"}:
            return "NotReady"
        given_up = [PartitionKey(topic_id, partition) for topic_id, partition, _ in followers]
        given_up += [PartitionKey(topic_id, partition) for topic_id, partition, _ in stopped]
        heirs = [(key, self.heir(key, given.broker_id)) for key in given_up]
        return [
            ev.Announced(*given[:3], leaders, followers, stopped, given.import_cluster),
            *(
                ev.LeaderRestored(*key, heir.claim.broker_id)
                for key, heir in heirs
                if heir is not None
            ),
        ]

    def _is_new_leader(self, given: ev.Announcement, item: Any) -> bool:  # noqa: ANN401
        """Whether the claim replaces the one in force.

        Not another broker's claim if the log would refuse this one for its leader epoch: the
        claim in force would be lost when its leader has to move.
        """
        row, epoch = self.rows.get(PartitionKey(item[0], item[1])), item[3]
        led = None if row is None else row.led
        if led is None:
            return True
        if led.claim.broker_id != given.broker_id:
            return epoch is None or led.leader_epoch is None or epoch > led.leader_epoch
        is_known = epoch in {None, led.leader_epoch}
        is_same = (led.claim.incarnation, led.import_cluster) == (
            given.incarnation, given.import_cluster,
        )  # fmt: skip
        return not (is_known and is_same)

    def _is_new_follower(self, given: ev.Announcement, item: Any) -> bool:  # noqa: ANN401
        """Whether the broker does not follow yet, or announced it before the owner changed.

        A broker that announces itself again after such a change must become ready with what the
        log holds now, so its announcement counts although nothing else changes.
        """
        row = self.rows.get(PartitionKey(*item[:2]))
        claim = None if row is None else row.followers.get(given.broker_id)
        if claim is None or claim.incarnation != given.incarnation:
            return True
        then = self.announced_then.get(given.broker_id)
        return then is not None and (claim.incarnation, claim.announcement) <= then

    def _hosts(self, broker_id: int, item: Any) -> bool:  # noqa: ANN401
        row = self.rows.get(PartitionKey(*item[:2]))
        if row is None:
            return False
        held = [*row.replaced, *([] if row.led is None else [row.led])]
        return broker_id in row.followers or broker_id in {one.claim.broker_id for one in held}

    def in_force(
        self, given: ev.Announcement, denied: AbstractSet[PartitionKey] = frozenset()
    ) -> list[Claim]:
        """The claim in force for each announced partition: leaders first, then followers."""
        found = []
        for item in given.leaders:
            key = PartitionKey(*item[:2])
            row = self.rows.get(key) or Row("")
            claims = [row.led.claim] if row.led else []
            is_led_by_another = row.led is not None and claims[0][:2] != given[:2]
            if key not in denied and not (
                is_led_by_another and not self._is_new_leader(given, item)
            ):
                claims += [one.claim for one in row.replaced]
            own = [one for one in claims if one[:2] == given[:2]]
            found.append(own[0] if own else NO_CLAIM)
        for topic_id, partition, _ in given.followers:
            row = self.rows.get(PartitionKey(topic_id, partition)) or Row("")
            claim = row.followers.get(given.broker_id)
            is_own = claim is not None and claim[:2] == given[:2]
            found.append(claim if claim is not None and is_own else given.claim)
        return found

    def host_started(self, host: str, process: str, address: str) -> list[Any]:
        known = self.hosts.get(host)
        if known is not None and known[0] == process:
            return []
        last = address.rpartition("/")[2]
        number = int(last) if last.isdecimal() else 0
        generation = max(self.generations.get(host, 0) + 1, number)
        started = ev.HostStarted(host, generation, process, address)
        return [started] if known is None else [ev.HostLost(host), started]

    def host_lost(self, host: str, process: str | None) -> list[Any]:
        known = self.hosts.get(host)
        is_its = known is not None and process in (None, known[0])
        return [ev.HostLost(host)] if is_its else []

    def leader_lost(self, key: PartitionKey, number: int, host: str) -> list[Any]:
        row = self.rows.get(key)
        if row is None:
            return []
        last = row.leader_number if row.led is None else row.led.number
        is_that = (row.leader_host, last) == (host, number)
        return [ev.LeaderLost(*key, number)] if is_that else []

    def leader_refused(self, key: PartitionKey, refusal: Any, host: str) -> list[Any]:  # noqa: ANN401
        row = self.rows.get(key)
        if row is not None and row.led is None and not refusal.is_served:
            return self.leader_lost(key, refusal.assignment, host)
        if row is None or row.led is None or row.leader_host != host:
            return []
        if row.led.number != refusal.assignment:
            return []
        if refusal.is_served and row.led.claim == refusal.holder:
            return []
        stops = [one for one in row.stops.values() if refusal.holder is not None]
        if any(refusal.holder[0] == one[0] and refusal.holder < one for one in stops):
            refusal = refusal._replace(holder=None)
        return [ev.LeaderRefused(*key, *refusal)]

    def standing(self, host: str) -> list[Placement]:
        """All placements that a host has to serve, in no particular order."""
        found = [
            self._to_lead(key)
            for key, row in self.rows.items()
            if row.leader_host == host and row.led is not None and row.led.number
        ]
        for key, row in self.rows.items():
            if row.follower_host == host:
                found += [self._to_follow(key, claim) for claim in row.followers.values()]
        return found

    def placed(  # noqa: C901 - One kind of seat after the other.
        self,
        seats: Iterable[tuple[PartitionKey, str]],
        beside: Iterable[PartitionKey],
        room: int,
        behind: Collection[PartitionKey],
        closed: tuple[Collection[str], Collection[str]] = ((), ()),
    ) -> list[Any]:
        """Events that place `seats`, in order, and move followers away from `beside` leaders.

        One call places at most about `ev.ITEMS_MAX`; the rest waits for the next call.

        `closed`: hosts that get nothing, and those of them that are emptied.
        """
        shut, emptied = closed
        loads = {host: self.load(host) for host in self.hosts if host not in shut}
        led: dict[str, list[tuple[bytes, int, int]]] = {}
        followed: dict[str, list[tuple[bytes, int]]] = {}
        homes, number = dict[PartitionKey, str](), self.number

        def is_full() -> bool:
            return number - self.number + sum(map(len, followed.values())) >= ev.ITEMS_MAX

        def least(avoid: str | None, *, strictly: bool = False) -> str | None:
            free = sorted((load, host) for host, load in loads.items() if load < room)
            others = [host for _, host in free if host != avoid]
            if others or strictly:
                return others[0] if others else None
            return free[0][1] if free else None

        for key, role in seats:
            row = self.rows[key]
            if role != LEADER or is_full():
                continue
            home = row.leader_host
            if home is None or home in emptied:
                to = row.follower_host if key not in behind else None
                if to is None or to in shut:
                    to = least(None)
                if to is not None:
                    home = to
                    loads[to] += 1
                elif home is None or (row.led is not None and row.led.number):
                    continue
            number += 1
            homes[key] = home
            led.setdefault(home, []).append((*key, number))
        for key, role in seats:
            if role == LEADER or is_full():
                continue
            host = least(homes.get(key, self.rows[key].leader_host))
            if host is not None:
                loads[host] += 1
                followed.setdefault(host, []).append(key)
        for key in dict.fromkeys([*beside, *homes]) if len(self.hosts) > 1 else ():
            row = self.rows[key]
            home = homes.get(key, row.leader_host)
            if row.follower_host is None or row.follower_host != home or is_full():
                continue
            if any(key in some for some in followed.values()):
                continue
            host = least(home, strictly=True)
            if host is not None:
                if row.follower_host in loads:
                    loads[row.follower_host] -= 1
                loads[host] += 1
                followed.setdefault(host, []).append(key)
        return [
            *(ev.LeadersPlaced(host, tuple(led[host])) for host in sorted(led)),
            *(ev.FollowersPlaced(host, tuple(followed[host])) for host in sorted(followed)),
        ]

    def hosts_wanted(
        self, least: int, room: int, starting: Collection[str], emptied: Collection[str] = ()
    ) -> list[str]:
        """Names of hosts to start, so that `least` run and all seats have `room`.

        `emptied`: hosts that clients do not reach.
        """
        free = [f"host-{at}" for at in range(least + len(self.hosts) + len(starting) + 99)]
        taken = {*self.hosts, *starting}
        wanted = [host for host in free[:least] if host not in taken]
        crowded = sum(max(0, self.load(host) - room) for host in self.hosts)
        unused = sum(
            max(0, room - self.load(host)) for host in self.hosts if host not in emptied
        )
        crowded = max(0, crowded - unused)
        homeless = self.unplaced() | self.stranded(emptied)
        lacking = len(homeless) + crowded - (len(wanted) + len(starting)) * room
        more = 0
        while lacking > 0:
            more, lacking = more + 1, lacking - room
        return wanted + [host for host in free[least:] if host not in taken][:more]


def _may_follow(ours: int | None, theirs: int | None) -> bool:
    return ours is None or theirs is None or ours > theirs


def _host_work(host: str, *placements: Placement) -> HostWork:
    return HostWork(host, placements)
