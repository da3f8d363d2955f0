"""A world small enough to be tried in every order, any moment of which can be taken up again.

Two hosts, two brokers, a coordinator that is always there, and a store. A message is a tuple
in its receiver's queue; the first queue that is not empty is next. Nothing has a time: a pause
is over when no message is under way, and callers give up when all else is quiet.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, TypeAlias

from tierledger.simulation.exhaust.brokers import Brokers
from tierledger.simulation.exhaust.hosts import Hosts
from tierledger.simulation.exhaust.machines import NONE, Plain
from tierledger.simulation.exhaust.script import (
    BROKER,
    COORDINATOR,
    HOST,
    QUEUES,
    STORE,
)

if TYPE_CHECKING:
    from tierledger.simulation.exhaust.judge import Judge
    from tierledger.simulation.exhaust.machines import Machines
    from tierledger.simulation.exhaust.script import Script

Frozen: TypeAlias = "tuple[Any, ...]"
"""A world at rest."""

RUN: Plain = ("run",)
"""Let happen what happens next."""


class SmallWorld:
    """One moment of a schedule; `apply` makes it the next one."""

    def __init__(self, script: Script, machines: Machines, judge: Judge) -> None:
        self.script = script
        self.machines = machines
        self.judge = judge
        self.log: dict[int, int] = {}
        self.hosts = Hosts(self)
        self.queues: list[list[Plain]] = [[] for _ in range(QUEUES)]
        self.soon: list[Plain] = []
        """Pauses under way."""
        self.held: list[tuple[int, Plain]] = []
        """Deliveries that are late, and their queues."""
        self.brokers = Brokers(self)
        self.assigned = 0
        """The last assignment's number."""
        self.current = (0, NONE, NONE)
        """Assignment, term and site of the leader to be."""
        self.follower_site = NONE
        self.item = 0
        self.history = 0
        self.crashes = 0
        self.violations: list[Any] = []

    def frozen(self) -> Frozen:
        """All that matters of this moment."""
        return (
            tuple(sorted(self.log.items())),
            self.hosts.frozen(),
            tuple([tuple(queue) for queue in self.queues]),
            tuple(self.soon),
            tuple(self.held),
            self.brokers.frozen(),
            (self.assigned, self.current, self.follower_site, self.item),
            self.history,
            self.crashes,
        )

    def thaw(self, frozen: Frozen) -> None:
        """Be the world at that moment."""
        log, hosts, queues, soon, held, brokers, coordinator, self.history, self.crashes = (
            frozen
        )
        self.log = dict(log)
        self.hosts.thaw(hosts)
        self.queues = [list(queue) for queue in queues]
        self.soon, self.held = list(soon), list(held)
        self.brokers.thaw(brokers)
        self.assigned, self.current, self.follower_site, self.item = coordinator
        self.violations = []

    @staticmethod
    def key(frozen: Frozen) -> bytes:
        """Equal iff two moments are, but for the order in which deliveries became late."""
        held = tuple(sorted(frozen[4], key=repr)) if len(frozen[4]) > 1 else frozen[4]
        # Version 2 knows no references, which would tell equal values apart.
        return marshal.dumps((*frozen[:4], held, *frozen[5:]), 2)

    # What can happen.

    @property
    def is_quiet(self) -> bool:
        """No message is under way, and nobody pauses."""
        return not self.soon and self.head == NONE

    @property
    def is_healed(self) -> bool:
        """The last call is made: nothing is late or crashes any more."""
        return self.item == len(self.script.items)

    @property
    def _is_at_rest(self) -> bool:
        """The script goes on only once nothing is late."""
        return self.script.items[self.item][0] == "rest"

    def settle(self) -> None:
        """Up to the first election everything is in order."""
        while self.script.items[self.item][0] != "lead":
            self.apply(RUN)
            while self.head != NONE:
                self.apply(RUN)

    @property
    def head(self) -> int:
        """The queue whose message is delivered next; `NONE` if no message is under way."""
        for number, queue in enumerate(self.queues):
            if queue:
                return number
        return NONE

    def next(self) -> Plain | None:
        """What happens next if nothing is late and nobody crashes; none if all is over."""
        if self.head != NONE or self.soon:
            return RUN
        if self._can_poll():
            return ("poll",)
        if not self.is_healed and not (self.held and self._is_at_rest):
            return RUN
        if self.held:
            return ("give up",) if self.can_give_up() else ("release", 0)
        return None

    def crash_choices(self) -> list[Plain]:
        """The process whose step is next may crash; what it wrote lands, or does not."""
        head = self.head
        if head == STORE:  # Else it crashes before it hears; the same, if the write lands.
            _, site, life, *_ = self.queues[STORE][0]
            host = self.hosts[site]
            return [("crash", site, True)] if host.is_up and host.life == life else []
        if HOST <= head < BROKER:
            drops = (False, True) if self._creates(head - HOST) else (False,)
            return [("crash", head - HOST, one) for one in drops]
        return []

    def apply(self, choice: Plain) -> int:
        """Make `choice` happen; the queue of which a message was delivered, if one was."""
        touched = NONE
        match choice:
            case ("run",):
                touched = self._run()
            case ("hold",):
                head = self.head
                self.held.append((head, self.queues[head].pop(0)))
            case ("release", int(at)):
                touched, message = self.held.pop(at)
                self.deliver(touched, message)
            case ("crash", int(site), bool(drops)):
                self.hosts.crash(site, drops=drops)
            case ("give up",):
                self._give_up()
            case ("poll",):
                self.hosts.feed(self.follower_site, self._hint(), leads=False)
            case _:
                raise AssertionError(f"no such choice: {choice!r}")
        if self.held:
            self.held = [one for one in self.held if not self._is_stale(*one)]
        return touched

    def push(self, queue: int, message: Plain) -> None:
        """Send `message`, unless nobody would listen."""
        if not self._is_stale(queue, message):
            self.queues[queue].append(message)

    def _is_stale(self, queue: int, message: Plain) -> bool:
        if HOST <= queue < BROKER:
            host = self.hosts[queue - HOST]
            if message[1] != host.life or not host.is_up:
                return True
            what = message[0]
            if what in {"created", "looked"} or (what == "log" and message[3]):
                return host.leader == 0 or message[2] != host.serial
            return False
        if BROKER <= queue < COORDINATOR:
            return not self.brokers.awaits(queue - BROKER, message[1], message[2])
        return False

    def _run(self) -> int:
        head = self.head
        if head != NONE:
            self.deliver(head, self.queues[head].pop(0))
        elif self.soon:
            what, *rest = self.soon.pop(0)
            if what == "retry":
                self.brokers.again(*rest)
            else:
                self.look(*rest)
        else:
            what, number = self.script.items[self.item]
            self.item += 1
            if what == "lead":
                self._lead(number, self.script.terms[number].site)
            elif what == "follow":
                self._follow(number)
            elif what == "call":
                self.brokers.call(number)
        return head

    def deliver(self, queue: int, message: Plain) -> None:
        if queue == STORE:
            self._store(message)
        elif queue < BROKER:
            self.hosts.hear(queue - HOST, message)
        elif queue < COORDINATOR:
            self.brokers.hear(queue - BROKER, message)
        elif message[0] == "ended":
            self._ended(message[1])
        elif message[1] == self.current[0]:  # A leader was lost, and still is the one to be.
            self._lead(*self.current[1:])

    # The store.

    def _store(self, message: Plain) -> None:
        """A batch arrives: the slot is free, or somebody was first."""
        _, site, life, serial, number, value, is_answered = message
        is_free = number not in self.log
        if is_free:
            self.log[number] = value
            self.history = self.judge.noted(self.history, ("durable", number))
        if is_answered:
            outcome = "created" if is_free else "exists"
            self.push(HOST + site, ("created", life, serial, number, outcome))

    def look(self, site: int, life: int, serial: int, number: int) -> None:
        """What is read is as old as the question: a late answer is the worse of the two."""
        self.push(HOST + site, ("looked", life, serial, number, self.log.get(number, NONE)))

    def read(self, site: int, leads: bool, number: int) -> None:
        host, values, at = self.hosts[site], [], number
        while at in self.log:
            values.append(self.log[at])
            at += 1
        message = ("log", host.life, host.serial, leads, number, tuple(values))
        self.push(HOST + site, message)

    def _creates(self, site: int) -> bool:
        """Whether a write of the process at `site` is under way."""
        late = [message for queue, message in self.held if queue == STORE]
        return any(self._is_of(one, site) for one in (*self.queues[STORE], *late))

    def _is_of(self, message: Plain, site: int) -> bool:
        return bool(message[1] == site and message[2] == self.hosts[site].life)

    def drop_creates(self, site: int) -> None:
        """What the process at `site` is writing never lands."""
        self.queues[STORE] = [one for one in self.queues[STORE] if not self._is_of(one, site)]
        self.held = [
            late for late in self.held if late[0] != STORE or not self._is_of(late[1], site)
        ]

    # The coordinator.

    def _lead(self, term: int, site: int) -> None:
        """Give the partition to a host under a new assignment."""
        former = self.current
        if not self.hosts[site].is_up:
            site = 1 - site
        if not self.hosts[site].is_up:
            self.current = (0, term, NONE)  # Placed when one starts.
            return
        self.assigned += 1
        self.current = (self.assigned, term, site)
        placed = ("place", self.hosts[site].life, self.assigned, term)
        self.push(HOST + site, placed)
        if self.script.variant.tells and former[2] not in {NONE, site}:
            stop = ("stop", self.hosts[former[2]].life, self.assigned)
            self.push(HOST + former[2], stop)

    def _follow(self, site: int) -> None:
        self.follower_site = site
        self.push(HOST + site, ("follow", self.hosts[site].life))

    def _ended(self, site: int) -> None:
        """A process is missed: the other host gets what it led, and another replaces it."""
        host = self.hosts[site]
        _, term, led_at = self.current
        if led_at == site:
            self._lead(term, 1 - site)
        host.life += 1
        host.is_up = True
        if self.current[2] == NONE and term != NONE:
            self._lead(term, site)
        if self.follower_site == site:
            self._follow(site)

    # Waiting.

    def _hint(self) -> Plain:
        return ("hint", 1 << 30)

    def _can_poll(self) -> bool:
        """Whether a reader waits for a follower that does not know that there is more."""
        site = self.follower_site
        if site == NONE or not self.hosts[site].follower or not self.brokers.waits_at(site):
            return False
        return bool(self.machines.turn(self.hosts[site].follower, self._hint()).effects)

    def can_give_up(self) -> bool:
        return bool(self.held) and (
            self.brokers.wait()
            or any(
                message[0] == "created" or (message[0] == "create" and message[-1])
                for _, message in self.held
            )
        )

    def _give_up(self) -> None:
        """Connections have waited long enough, or, if none waits any more, callers."""
        unanswered = False
        for at, (queue, message) in enumerate(self.held):
            if queue == STORE and message[-1]:
                _, site, life, serial, number, *_ = message
                self.held[at] = (queue, (*message[:-1], False))  # It may land yet.
            elif message[0] == "created":
                site, (_, life, serial, number, _) = queue - HOST, message
                self.held[at] = (queue, ("created", NONE, NONE, NONE, ""))  # Nobody's, now.
            else:
                continue
            unanswered = True
            self.push(HOST + site, ("created", life, serial, number, "unknown"))
        if not unanswered:
            self.brokers.give_up()
