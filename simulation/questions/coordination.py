"""A checker of the coordinator's rules, on the log of a run and on events behind it.

The service's rules and the slow ones fold the log of a run, and both tell what hosts are sent.
Then come events that the run did not have: announcements, losses, refusals and placements,
most of which fit the state, while some just miss it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any

from tierledger.actors.calls import PartitionKey, Refusal
from tierledger.actors.coordinator import decide, evolve, placement
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
from tierledger.actors.coordinator.messages import ChangeHold
from tierledger.actors.coordinator.ownership import Handover, PluginMode, hand_over
from tierledger.actors.coordinator.refusals import leader_refused
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.holds import Hold
from tierledger.events.commands import Claim
from tierledger.events.errors import RemoteStorageError
from tierledger.events.log_events import Event
from tierledger.simulation.checkers.content import content, first_difference
from tierledger.simulation.checkers.slow.coordinator import SlowCoordinator
from tierledger.simulation.checkers.violation import ASKED, Violation

ROOM = (1, 2, 3, 64)
"""Numbers of partitions that a host has room for, to draw from."""

BROKERS = (1, 2, 3)

COMPARED = 4
"""After so many questions the two states are compared as a whole."""


def miscoordinated(
    bodies: Iterable[object], keys: Sequence[PartitionKey], count: int, seed: int = 0
) -> Iterator[Violation]:
    """The coordinator's rules make something else of its log than the slow ones.

    Or of one of `count` questions behind it, about the partitions in `keys`; `seed` decides
    which questions these are.
    """
    asking = _Asking(keys, seed)
    try:
        for body in bodies:
            at = asking.slow.end
            why = asking.take(body)
            if why is not None:
                message = f"position {at} of the coordinator's log: {why}"
                yield Violation("miscoordinated", None, message)
                return
        for _ in range(count):
            at = asking.slow.end
            why = asking.ask()
            if why is not None:
                message = f"{ASKED}, behind event {at - 1}: {why}"
                yield Violation("miscoordinated", None, message)
                return
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        yield Violation("miscoordinated", None, f"behind {asking.slow.end} events: {error!r}")


class _Asking:
    """Two coordinators that get the same events: by the service's rules, and by slow ones."""

    def __init__(self, keys: Sequence[PartitionKey], seed: int) -> None:
        self.state, self.slow = CoordinatorState(b""), SlowCoordinator()
        self._keys = keys
        self._random = Random(f"{seed}:coordination")
        self._processes = self._asked = 0
        self._kinds: tuple[Callable[[], str | None], ...] = (
            *[self._announce] * 8, self._register, self._registers, self._start,
            self._lose, self._leader_lost, *[self._refuse] * 3, *[self._place] * 5,
            self._forget, self._hand_overs, self._hold,
        )  # fmt: skip

    def take(self, body: Any) -> str | None:  # noqa: ANN401 - An event's body.
        """Fold an event into both; returns how they then differ, none if they agree."""
        event = Event(self.slow.end, 0, 0, -1, None, body)
        works = evolve.evolve_strictly(self.state, event)
        expected = self.slow.take(body)
        if works != expected:
            return f"{content((body,))} sends hosts {first_difference(works, expected)}"
        return None

    def ask(self) -> str | None:
        """Ask one question of both; returns how they differ, none if they agree."""
        self._asked += 1
        why: str | None = self._pick(self._kinds)()
        if why is None and self._asked % COMPARED == 0:
            why = self._standing() or self.slow.differs_from(self.state)
        return why

    def _pick(self, among: Any) -> Any:  # noqa: ANN401
        return among[int(self._random.random() * len(among))]

    def _decided(self, what: str, found: Any, expected: Any) -> str | None:  # noqa: ANN401
        """Compare two decisions and fold in what was decided; returns how they differ."""
        if found != expected:
            return f"{what:.300} leads to {first_difference(found, expected)}"
        for body in found if isinstance(found, list) else ():
            why = self.take(body)
            if why is not None:
                return why
        return None

    # Brokers.

    def _register(self) -> str | None:
        broker_id = self._pick(BROKERS)
        newest = self.slow.incarnations.get(broker_id, 0)
        after = max(0, newest - self._pick((0, 0, 0, 1)))
        made = [request for request, _ in self.slow.registrations.get(broker_id, ())]
        request = self._pick((*made[:1], *made[-1:], b"asked %d" % self.slow.end))
        mode = self._pick((None, *PluginMode))
        found: Any
        try:
            found = decide.register(self._drafted(), broker_id, request, after, mode)
        except RemoteStorageError as error:
            found = type(error).__name__
        expected = self.slow.register(broker_id, request, after, mode)
        why = self._decided(f"registration {broker_id, request, after}", found, expected)
        given = dict(self.slow.registrations.get(broker_id, ())).get(request)
        newest = self.slow.incarnations.get(broker_id, 0)
        answer = ev.Registered(newest if given is None else given, is_given=given is not None)
        if why is None and decide.registered(self.state, broker_id, request) != answer:
            return f"registration {broker_id, request, after} is not answered with {answer}"
        return why

    def _hand_overs(self) -> str | None:
        """Several attempts to hand over, since most do not fit the present owner."""
        whys = (self._hand_over() for _ in range(8))
        return next((why for why in whys if why is not None), None)

    def _hand_over(self) -> str | None:
        pick, owners = self._pick, list(ev.Owner)
        owner, source, heading, _ = self.slow.owned
        of = pick((*[ev.Owner(owner)] * 4, *owners))
        follows = [ev.Owner(one) for one in (source, heading) if one] or [ev.Owner.MOVING]
        to = pick((*follows * 2, *owners))
        towards = pick((None, *owners, *[ev.Owner.TIERLEDGER, ev.Owner.KAFKA] * 2))
        owner_epoch = max(0, len(self.slow.changes) + pick((0, 0, 0, 0, -1, 1)))
        wish = Handover(to, of, towards, owner_epoch, pick((1000, 20_000)))
        found: Any
        try:
            found = hand_over(self._drafted().ownership, wish)
        except RemoteStorageError as error:
            found = type(error).__name__
        return self._decided(f"handover {wish}", found, self.slow.hand_over(wish))

    def _hold(self) -> str | None:
        """A hold is placed, placed again, or released."""
        pick, now_ms = self._pick, self.slow.end
        name = f"hold-{pick(range(4))}"
        wish: PlaceHold | ReleaseHold = PlaceHold(
            Hold(name, until_ms=pick((None, None, now_ms, now_ms + 9)), reason=pick("ab"))
        )
        if pick((False, False, True)):
            wish = ReleaseHold(name, "somebody", "it is over")
        placed = [one for one in self.slow.holds if one.name == name]
        if placed and pick((True, False)):
            wish = PlaceHold(placed[0])
        found: Any
        try:
            found = ChangeHold(wish, now_ms).decide(self._drafted())
        except RemoteStorageError as error:
            found = type(error).__name__
        if isinstance(wish, PlaceHold):
            return self._decided(f"{wish}", found, self.slow.hold(wish.hold, now_ms))
        return self._decided(f"{wish}", found, self.slow.let_go(*wish))

    def _registers(self) -> str | None:
        """Several registrations, so that the earliest are forgotten."""
        whys = (self._register() for _ in range(4))
        return next((why for why in whys if why is not None), None)

    def _drafted(self) -> CoordinatorState:
        """The state to decide on: the present one, or a draft on top of it."""
        return self.state.draft() if self._pick((True, False)) else self.state

    def _announce(self) -> str | None:
        pick, slow = self._pick, self.slow
        broker_id = pick(BROKERS)
        newest = slow.incarnations.get(broker_id, 0)
        if not newest:
            return self._register()
        incarnation = max(0, newest + pick((0,) * 12 + (-1, 1)))
        last = self.state.announced.get(broker_id, (0, 0))
        number = max(0, last[1] if last[0] == incarnation else 0) + pick((1,) * 8 + (0, 2))
        named: tuple[list[Any], ...] = ([], [], [])
        for key in self._keys:
            row = slow.rows.get(key)
            role = pick((0, 0, 1, 1, 2, None))
            epochs = [one.leader_epoch or 0 for one in (row and row.led,) if one] or [0]
            epoch = pick((None, max(0, epochs[0] + pick((-1, 0, 1, 1)))))
            if role is not None:
                item = (*key, "orders")
                named[role].append((*item, epoch, None) if role == 0 else item)
        cluster = pick((None,) * 9 + ("asked",))
        leaders, followers, stopped = map(tuple, named)
        given = ev.Announcement(
            broker_id, incarnation, number, leaders, followers, stopped, cluster
        )
        denied = {key for key in self._keys if pick((False,) * 7 + (True,))}
        heard = self.state.heard.get(broker_id, (0, 0))
        found: Any
        try:
            found = decide.announce(self._drafted(), given, denied)
        except RemoteStorageError as error:
            found = type(error).__name__
        expected = slow.announce(given, heard, denied)
        why = self._decided(content((given,)), found, expected)
        if why is None and isinstance(found, list):
            decide.hear(self.state, given)
            claims = decide.in_force(self.state, given, denied)
            by_the_slow = slow.in_force(given, denied)
            if claims != by_the_slow:
                apart = first_difference(claims, by_the_slow)
                return f"{content((given,))} gets {apart}"
            given_now = (given.incarnation, given.number)
            if self.state.heard.get(broker_id) != max(heard, given_now):
                return f"{content((given,))} is not its newest announcement"
        return why

    # Hosts.

    def _start(self) -> str | None:
        self._processes += 1
        host = f"host-{self._pick(range(4))}"
        known = self.slow.hosts.get(host)
        process = self._pick((known[0] if known else "", f"asked-{self._processes}"))
        number = self.slow.generations.get(host, 0) + self._pick((1, 1, 2, 0))
        address = self._pick((f"{host}/{number}", host))
        found = decide.host_started(self.state, host, process, address)
        expected = self.slow.host_started(host, process, address)
        return self._decided(f"start of {host} as {process}, {address}", found, expected)

    def _lose(self) -> str | None:
        host = f"host-{self._pick(range(4))}"
        known = self.slow.hosts.get(host)
        process = self._pick((None, known[0] if known else "", "another"))
        found = decide.host_lost(self.state, host, process)
        expected = self.slow.host_lost(host, process)
        return self._decided(f"loss of {host} as {process}", found, expected)

    def _placement(self) -> tuple[PartitionKey, int, str]:
        """The placement of a leader, or one that nearly fits it."""
        key = self._pick(self._keys)
        row = self.slow.rows.get(key)
        number = 0 if row is None else row.leader_number
        if row is not None and row.led is not None:
            number = row.led.number
        home = (row and row.leader_host) or "host-0"
        off = self._pick((0, 0, 0, 0, 0, 1, -1))
        return key, number + off, self._pick((home, home, home, home, "host-1"))

    def _leader_lost(self) -> str | None:
        key, number, host = self._placement()
        found = decide.leader_lost(self.state, key, number, host)
        expected = self.slow.leader_lost(key, number, host)
        return self._decided(f"end of leader {number} on {host}", found, expected)

    def _refuse(self) -> str | None:
        pick, (key, number, host) = self._pick, self._placement()
        row = self.slow.rows.get(key)
        claims = [] if row is None else [*row.replaced, *([row.led] if row.led else [])]
        holder = pick((None, Claim(pick(BROKERS), 1, 1)))
        epoch = pick((None, 0, 1))
        if claims and pick((True, True, False)):
            one = pick(claims)
            holder, epoch = one.claim, one.leader_epoch
            holder = holder._replace(announcement=max(0, holder.announcement - pick((0, 0, 1))))
        refusal = Refusal(number, None, None, None, None, pick((True, False)))
        if holder is not None:
            cluster = pick((None, None, "asked"))
            refusal = Refusal(number, holder, epoch, cluster, 7, refusal.is_served)
        found = leader_refused(self.state, key, refusal, host)
        expected = self.slow.leader_refused(key, refusal, host)
        return self._decided(f"{content((refusal,))} by {host}", found, expected)

    def _place(self) -> str | None:
        slow, room = self.slow, self._pick(ROOM)
        behind = {key for key in self._keys if self._random.random() < 0.3}
        closed = self._closed()
        found = placement.place(self.state, room, behind, closed)
        stranded = placement.stranded(self.state, closed)
        if set(stranded) != slow.stranded(closed.emptied):
            return f"{stranded} are cut off; by the slow rules {slow.stranded(closed.emptied)}"
        seats = dict.fromkeys([*self.state.unplaced, *stranded])
        expected = slow.placed(seats, self.state.together, room, behind, closed)
        why = self._decided(f"placing with room for {room}, {closed}", found, expected)
        if why is not None:
            return why
        starting = {f"host-{self._pick(range(5))}"} - slow.hosts.keys()
        starting = self._pick((set(), starting))
        least = self._pick(range(4))
        wanted = placement.hosts_wanted(self.state, least, room, starting, closed)
        expected_hosts = slow.hosts_wanted(least, room, starting, closed.emptied)
        if wanted != expected_hosts:
            return f"hosts {wanted} are wanted; by the slow rules {expected_hosts}"
        return None

    def _closed(self) -> placement.ClosedHosts:
        """Hosts whose doors are shut or unproven; mostly none."""
        chance = self._pick((0.0, 0.0, 0.3))
        hosts = [host for host in sorted(self.slow.hosts) if self._random.random() < chance]
        emptied = [host for host in hosts if self._pick((True, True, False))]
        return placement.ClosedHosts(frozenset(hosts), frozenset(emptied))

    def _forget(self) -> str | None:
        """An operator removes a partition that nobody hosts."""
        key = self._pick(self._keys)
        row = self.slow.rows.get(key)
        if row is None or row.led is not None or row.followers or row.leader_host is not None:
            return None
        return self.take(ev.PartitionForgotten(*key))

    def _standing(self) -> str | None:
        """Compare the placements of each host, and where each partition is found."""
        slow, state = self.slow, self.state
        for host in state.hosts:
            work = evolve.standing_work(state, host)
            found, expected = (
                sorted(map(repr, some)) for some in (work.placements, slow.standing(host))
            )
            if found != expected:
                return f"{host} serves {first_difference(found, expected)}"
        for key in self._keys:
            row, route = slow.rows.get(key), state.route(key)
            seats = (None, None) if row is None else (row.leader_host, row.follower_host)
            found_at = (route.leader_host, route.follower_host)
            if found_at != tuple(slow.hosts[host][1] if host else None for host in seats):
                return f"{key} is found at {found_at}, and is served by {seats}"
            leads = row.led.claim if row is not None and row.led is not None else None
            followers = () if row is None else tuple(row.followers.values())
            if (route.known, route.leader, route.followers) != (
                row is not None,
                leads,
                followers,
            ):
                return (
                    f"{key} has a route to leader {route.leader}, followers {route.followers}"
                )
        return None
