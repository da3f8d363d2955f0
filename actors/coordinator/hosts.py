"""The hosts as processes: started, found, sent their work, pinged, and given up when gone.

A part of the coordinator's machine. What it believes about processes is a hint: which process
serves as which host is an event of the coordinator's log, and each partition's own log decides
who may write to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from itertools import count

from tierledger.actors.calls import CloseCall, HostLoad, HostPing, PartitionKey, Placement
from tierledger.actors.conditions import Condition
from tierledger.actors.coordinator import evolve, placement
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.doors import KNOCK_AGAIN_S, KNOCK_INTERVAL_S, Doors
from tierledger.actors.coordinator.events import ITEMS_MAX
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.state import CoordinatorState, Seat, SetAside
from tierledger.events.errors import RemoteStorageError

WATCH_INTERVAL_S = 0.2
"""Pause between two pings of a host; longer if there are many hosts."""

PINGS_PER_S = 100
"""Pings of all hosts together, at most; knocks at their doors likewise."""

PINGS_MISSED = 3
"""Unanswered pings in a row after which a silent host is given up."""

PING_TIMEOUT_S = 0.6

PING_TIMEOUT_MAX_S = 4.0
PING_PATIENCE = 4.0
"""A ping's timeout is so many times as long as the host's recent answers took. On a slow node
silence proves less, and to give a living host up costs the start of another."""

PING_FADES = 0.9
"""Factor by which the recent answer time shrinks at each faster answer."""

LATE_S = 0.25
"""If a ping's timeout fires so much too late, this process was too busy, and not the host."""

LAUNCH_TIMEOUT_S = 30.0
"""How long a process may take to start and open its store before another node is tried."""

WRITER_LAUNCH_TIMEOUT_S = 120.0
"""The same for the host that writes for all, which can start on the store's node only."""

LAUNCHES_AT_ONCE = 8
"""Processes that start side by side; more would only make each slower."""

BACKOFF_MIN_S = 0.2
BACKOFF_MAX_S = 10.0
"""Shortest and longest pause before a host that died early starts again; it doubles."""

EARLY_S = 1.0
"""A host that lived for less than this died early: its start may be the cause."""

SETTLED_S = 60.0
"""A host that has served for so long, and has taken all its work, may get others' leaders."""

RESERVE_AFTER_S = 5.0
"""The writing host's successor starts when the writer has served for so long."""

RESERVE_AGAIN_S = 60.0
"""Its start is asked for again after so long: the successor itself may have died."""

CATCH_UP_S = 30.0
"""How long leaders that are to move elsewhere stay until their followers have caught up."""

RELIEF_S = 10.0
"""A host whose replacement nobody has asked for that long is used as others are again."""

PREPARED_S = 3.0
"""How long the process that follows in a replacement has to start before the former ends."""

NOT_STARTED = "host-not-started"
"""The code of the condition that a host cannot be started."""

OVERDUE_S = 15.0
"""A host that has been starting for so long is a condition; most need a second."""

FREE_DEATHS = 20
"""Early deaths in a row without a pause: in drills hosts are also killed quickly."""

PLACEMENTS_PER_CALL = 500


def patience(took: float) -> float:
    """The timeout (s) of a ping to a host whose recent answers took `took` (s)."""
    return min(max(PING_TIMEOUT_S, PING_PATIENCE * took), PING_TIMEOUT_MAX_S)


class HostRecord:
    """A process that serves as a host, and the work that it has still to be sent."""

    def __init__(self, name: str, address: str, ping: HostPing, watch: int, s: float) -> None:
        self.name = name
        self.address = address
        self.process = ping.process
        self.door = ping.door
        """Where clients reach it (HOST:PORT); None if it does not listen."""
        self.behind = ping.behind
        self.done_s = s
        """When it got the last piece of its work."""
        self.is_told = False
        """Whether `behind` was told after it had got all its work."""
        self.load: HostLoad | None = None
        """What its leaders were asked lately; None: not known (any more)."""
        self.watch = watch
        self.since_s = s
        self.asked_s = s
        """When the last ping was sent."""
        self.took_s = 0.0
        """How long its recent answers took."""
        self.missed = 0
        self.reserve_s = s + RESERVE_AFTER_S
        """When the start of its successor is to be prepared, if it writes for all."""
        self.has_reserve = False
        """Whether that was asked for."""
        self.unsent: deque[HostWork | tuple[Seat, ...]] = deque()
        """Work to be sent, in order; seats become placements when they are sent."""
        self.sending: deque[HostWork] = deque()
        """Pieces of work that are being sent, each of placements or closes alone; the first is
        on its way, or waits for a retry."""
        self.is_sending = False
        self.set_aside: dict[tuple[PartitionKey, str], SetAside] = {}
        """Work that this living host failed at, by partition and role, until it succeeds."""


class Step(Enum):
    """How far the start of a process is."""

    PAUSING = "pausing"
    ENDING = "waiting for the end of its predecessor"
    QUEUED = "waiting for others that start"
    STARTING = "starting"


class Start:
    """A process that is being started, until one serves."""

    def __init__(self, former: tuple[str, str] | None, now: msg.Moment, skipped: int) -> None:
        """A start that begins at `now`.

        `former`: address and name of the process that must end before this one starts.
        `skipped`: how many addresses it passes over.
        """
        self.former = former
        self.since = now
        self.error: RemoteStorageError | None = None
        """Why the last attempt failed."""
        self.skipped = skipped
        self.step = Step.PAUSING
        self.address = ""

    def awaits(self, address: str) -> bool:
        """Whether this start waits for the end of the process at `address`."""
        former = self.former
        return self.step is Step.ENDING and former is not None and former[0] == address


class ProcessSearch:
    """A search for a process that the log names, and that this coordinator did not start."""

    def __init__(self, address: str, process: str, watch: int) -> None:
        self.address = address
        self.process = process
        self.watch = watch
        self.missed = 0
        self.asked_s = 0.0
        """When the last ping was sent."""

    @property
    def timeout_s(self) -> float:
        """The timeout of the next ping. How long its answers take is not known yet."""
        return PING_TIMEOUT_S * (1 << self.missed)


class Relief:
    """The replacement of a host's process that a client wants, until that process ends."""

    def __init__(self, s: float, skipped: int) -> None:
        self.since_s = s
        self.asked_s = s
        """When somebody wanted it last."""
        self.skipped = skipped
        """How many addresses the next process passes over."""
        self.is_retiring = False
        """Whether the process was told to end."""


class Hosts:
    """All processes that serve, by host.

    Rules: a host is either running, starting or being looked for. Nothing that arrives from a
    process that was dropped counts any more.
    """

    def __init__(
        self, state: CoordinatorState, wanted: int, partitions_per_host: int, writer: str | None
    ) -> None:
        """`writer`: the host whose process must have ended before its successor starts."""
        self.running: dict[str, HostRecord] = {}
        self.starting: dict[str, Start] = {}
        self.looking: dict[str, ProcessSearch] = {}
        self.doors = Doors()
        """Which of the running hosts clients can reach."""
        self.heard_ms: dict[str, int] = {}
        """By host: when it last answered a ping."""
        self.facts: dict[msg.Fact, None] = {}
        """Facts that hosts reported about their partitions, until in the log or void."""
        self.is_news = False
        """Whether there is a fact to decide on, a partition to place, or a host to start."""
        self.writer = writer
        self.wanted = wanted
        self._state = state
        self._partitions_per_host = partitions_per_host
        self._given_up: dict[str, str] = {}
        """By host: the last process that was found to be gone."""
        self._deaths: dict[str, int] = {}
        """By host: its early deaths and failed starts in a row."""
        self._reliefs: dict[str, Relief] = {}
        """By host: the process that runs, if it is to be replaced."""
        self._has_room = True
        """Whether further hosts were allowed at the last look; the alarm comes once."""
        self._is_open = False
        """Whether hosts are sent work yet."""
        self._watches = count(1)
        self.now = msg.Moment(0.0, 0)
        """When the present stimulus came."""

    def handle(self, stimulus: msg.Stimulus) -> list[msg.Effect]:
        """The effects that a stimulus about a host calls for."""
        match stimulus:
            case msg.PingAnswered() | msg.PingMissed() | msg.HostEnded():
                look = self.looking.get(stimulus.host)
                if look is not None and look.watch == stimulus.watch:
                    return self._looked(stimulus, look)
                host = self._watched(stimulus.host, stimulus.watch)
                return [] if host is None else self._pinged(host, stimulus)
            case msg.Knocked():
                host = self._watched(stimulus.host, stimulus.watch)
                return [] if host is None else self._knocked(host, opens=stimulus.opens)
            case msg.WorkDone() | msg.WorkInDoubt() | msg.WorkFailed():
                host = self._watched(stimulus.host, stimulus.watch)
                return [] if host is None else self._work_ended(host, stimulus)
            case msg.ReplaceAsked():
                host = self.running.get(stimulus.host)
                is_running = host is not None and host.process == stimulus.process
                return self._relieve(host, stimulus) if host and is_running else []
            case msg.ProcessStarted():
                return self._serves(stimulus)
            case msg.StartFailed():
                return self._not_started(stimulus)
            case msg.ProcessEnded():
                return self._ended(stimulus)
            case msg.TimerFired(timer=timer):
                return self._time_is_up(timer)
            case _:
                raise AssertionError(f"no host is concerned by {stimulus!r}")

    def _watched(self, name: str, watch: int) -> HostRecord | None:
        host = self.running.get(name)
        return host if host is not None and host.watch == watch else None

    def _time_is_up(self, timer: msg.Timer) -> list[msg.Effect]:
        if timer.kind == "start":
            start = self.starting.get(timer.host)
            is_due = start is not None and start.step is Step.PAUSING
            return self._go(timer.host) if is_due else []
        host = self._watched(timer.host, timer.watch)
        if host is None:
            return []
        match timer.kind:
            case "ping":
                return [self._ping(host)]
            case "knock":
                return self._knock(host)
            case _:
                return [self._send_effect(host)]

    # What the coordinator's machine calls.

    def decided_on(self) -> list[msg.Fact]:
        """Facts about hosts and from hosts that are not in the log yet, and still hold."""
        state = self._state
        self.facts = {fact: None for fact in self.facts if fact.decide(state)}
        found = [
            msg.Fact("started", host.name, (host.process, host.address))
            for host in self.running.values()
            if state.hosts.get(host.name) != host.process and not self._is_older(host)
        ]
        found += [
            msg.Fact("lost", name, (process,))
            for name, process in self._given_up.items()
            if state.hosts.get(name) == process and name not in self.running
        ]
        return [*found, *self.facts]

    @property
    def closed(self) -> placement.ClosedHosts:
        """The hosts that get nothing new: by their doors, or as they are to be replaced."""
        closed = self.doors.closed
        relieved = {
            name
            for name, one in self._reliefs.items()
            if one.is_retiring or self.now.s - one.asked_s < RELIEF_S
        }
        return closed._replace(hosts=closed.hosts | relieved) if relieved else closed

    def behind(self) -> set[PartitionKey]:
        """Partitions whose followers have reported that they have not caught up."""
        return {key for host in self.running.values() for key in host.behind}

    def patient(self, name: str) -> bool:
        """Whether leaders of a host that is to be relieved still wait for their followers."""
        relief = self._reliefs.get(name)
        return relief is not None and self.now.s - relief.since_s < CATCH_UP_S

    def untold(self) -> set[str]:
        """Hosts that have not told yet which of their followers have caught up."""
        known = {name for name, host in self.running.items() if host.is_told}
        return self._state.hosts.keys() - known

    @property
    def serving(self) -> int:
        """How many hosts run under a process that the log names, and were knocked at."""
        hosts = self._state.hosts
        return sum(
            hosts.get(name) == host.process and not self.doors.waits_for(name)
            for name, host in self.running.items()
        )

    def settled(self) -> list[str]:
        """Hosts that have been well for a while, and have taken all their work."""
        return [
            name
            for name, host in self.running.items()
            if self.now.s - host.since_s >= SETTLED_S
            and name not in self.closed.hosts
            and not (host.missed or host.unsent or host.sending or host.set_aside)
        ]

    def loads(self) -> dict[str, HostLoad]:
        """What the leaders of each host are asked; empty unless all hosts have told."""
        loads = {name: host.load for name, host in self.running.items()}
        known = {name: load for name, load in loads.items() if load is not None}
        return known if known.keys() == self._state.hosts.keys() else {}

    def forget_loads(self) -> None:
        """A leader moves: what its hosts told is out of date."""
        for host in self.running.values():
            host.load = None

    def addresses(self) -> list[str]:
        """All processes that run, start or are looked for."""
        known = (self.running, self.looking, self.starting)
        return [one.address for each in known for one in each.values()]

    @property
    def can_serve(self) -> bool:
        """Whether a host runs that can accept writes: any, or the one that writes for all."""
        return bool(self.running) if self.writer is None else self.writer in self.running

    def not_started(self, now: msg.Moment) -> list[Condition]:
        """Hosts whose start has failed, or takes too long; each a condition until it serves."""
        found = []
        for name, start in list(self.starting.items()):
            took_s = now.s - start.since.s
            if start.error is not None:
                text = f"{name} does not start: {start.error}"
            elif took_s > OVERDUE_S:
                text = f"{name} has not started within {took_s:.0f} s"
            else:
                continue
            found.append(Condition(NOT_STARTED, name, start.since.ms, text))
        return found

    def set_aside(self) -> list[SetAside]:
        """Work that living hosts have failed at."""
        return [one for host in self.running.values() for one in host.set_aside.values()]

    def seek_writer(self) -> list[msg.Effect]:
        """Find or start the host that writes for all: without it nothing can be decided."""
        assert self.writer is not None, "the store has one writer"
        if self.writer in self.starting or self.writer in self.looking:
            return []
        if self.writer in self._state.hosts:
            return self._look_for(self.writer)
        return self._start(self.writer, None)

    def take_up(self) -> list[msg.Effect]:
        """Begin to send work: to running hosts, and to those of the log once found."""
        self._is_open = True
        effects: list[msg.Effect] = []
        for host in list(self.running.values()):
            effects += self._take_on(host)
        for name in self._state.hosts:
            if name not in self.running and name not in self.starting:
                effects += self._look_for(name)
        return effects

    def follow(self) -> list[msg.Effect]:
        """Follow the log, where another coordinator may have replaced a host's process."""
        effects: list[msg.Effect] = []
        for name, process in self._state.hosts.items():
            host = self.running.get(name)
            if host is not None and host.process != process and self._is_older(host):
                effects += self._drop(host)
                host = None
            if host is not None or name in self.starting:
                continue
            if process == self._given_up.get(name):
                self.is_news = True  # Its start came to the log after its end was found.
                continue
            look = self.looking.get(name)
            if look is None or look.process != process:
                effects += self._look_for(name)
        return effects

    def send(self, works: Iterable[HostWork]) -> list[msg.Effect]:
        """Send hosts their work, to each in order; a slow host holds up no other."""
        effects: list[msg.Effect] = []
        for work in works:
            host = self.running.get(work.host)
            if host is not None:
                host.unsent.append(work)
                host.is_told = False
                effects += self._send_next(host)
        return effects

    def supply(self) -> list[msg.Effect]:
        """Start the hosts that are wanted and missing; an alarm if `HOSTS_MAX` forbids more."""
        state, effects = self._state, list[msg.Effect]()
        starting = [name for name in (*self.starting, *self.running) if name not in state.hosts]
        # A host whose door was not reached yet counts as coming: another one might not be
        # reached either. One whose door is shut does not: it may stay so.
        awaited = self.doors.unproven - self.doors.closed.emptied
        coming = [*starting, *sorted(awaited & state.hosts.keys())]
        for name in placement.hosts_wanted(
            state, self.wanted, self._partitions_per_host, coming, self.doors.closed
        ):
            effects += self._start(name, None)
        has_room = len(state.hosts) + len(starting) < placement.HOSTS_MAX
        if self._has_room and not has_room and state.unplaced:
            details = {
                "kind": "NoRoom",
                "hosts": placement.HOSTS_MAX,
                "unplaced": len(state.unplaced),
            }
            effects.append(msg.Note("error", "alarm", details))
        self._has_room = has_room
        return effects

    # Finding.

    def _look_for(self, name: str) -> list[msg.Effect]:
        address, process = self._state.addresses[name], self._state.hosts[name]
        former = self.looking.get(name)
        look = self.looking[name] = ProcessSearch(address, process, next(self._watches))
        forget = [] if former is None else [msg.Forget(former.address)]
        return [*forget, self._seek(name, look)]

    def _seek(self, name: str, look: ProcessSearch) -> msg.Effect:
        look.asked_s = self.now.s
        return msg.Ping(name, look.address, look.watch, look.timeout_s)

    def _looked(
        self, stimulus: msg.PingAnswered | msg.PingMissed | msg.HostEnded, look: ProcessSearch
    ) -> list[msg.Effect]:
        name = stimulus.host
        if isinstance(stimulus, msg.PingMissed):
            # As of a host that is known: this process may have been too busy.
            look.missed += self.now.s - look.asked_s - look.timeout_s < LATE_S
            if look.missed < PINGS_MISSED:
                return [self._seek(name, look)]
        del self.looking[name]
        if self._state.hosts.get(name) != look.process:
            return [msg.Forget(look.address)]  # Another coordinator has logged its end.
        if isinstance(stimulus, msg.PingAnswered) and stimulus.ping.process == look.process:
            host = self._add(name, look.address, stimulus.ping)
            return [*self._take_on(host), self._ping(host), *self._knock(host)]
        forget = msg.Forget(look.address)
        if name == self.writer:
            return [forget, *self._start(name, (look.address, look.process))]
        return [forget, *self._give_up(name, look.address, look.process)]

    def _add(self, name: str, address: str, ping: HostPing) -> HostRecord:
        host = HostRecord(name, address, ping, next(self._watches), self.now.s)
        self.running[name] = host
        if host.door is not None:
            self.doors.add(name, address, host.door)
        return host

    def _take_on(self, host: HostRecord) -> list[msg.Effect]:
        """Queue all placements of a host, in pieces, and begin to send them."""
        if self._state.hosts.get(host.name) != host.process:
            self.is_news = True  # Its start has to be in the log first.
            return []
        if not self._is_open:
            return []
        seats = tuple(self._state.seats.get(host.name, ()))
        host.unsent += [
            seats[first : first + ITEMS_MAX] for first in range(0, len(seats), ITEMS_MAX)
        ]
        return self._send_next(host)

    def _is_older(self, host: HostRecord) -> bool:
        """Whether the log names a later process of that host."""
        address = self._state.addresses.get(host.name)
        return address is not None and _number(address) > _number(host.address)

    # Starting.

    def _start(
        self, name: str, former: tuple[str, str] | None, skipped: int = 0
    ) -> list[msg.Effect]:
        if name in self.starting or name in self.running:
            return []
        look = self.looking.pop(name, None)
        forget = [] if look is None else [msg.Forget(look.address)]
        self.starting[name] = Start(former, self.now, skipped)
        return [*forget, *self._back_off(name)]

    def _back_off(self, name: str) -> list[msg.Effect]:
        deaths = self._deaths.get(name, 0) - FREE_DEATHS
        if deaths <= 0:
            return self._go(name)
        self.starting[name].step = Step.PAUSING
        pause_s = min(BACKOFF_MIN_S * 2 ** (deaths - 1), BACKOFF_MAX_S)
        return [msg.SetTimer(msg.Timer("start", name), pause_s)]

    def _go(self, name: str) -> list[msg.Effect]:
        start = self.starting[name]
        start.address = placement.next_address(self._state, name, start.skipped)
        if start.former is None:
            return self._launch(name, start)
        # One process at a time may have the store open: it would refuse the second one.
        start.step = Step.ENDING
        return [msg.Prepare(start.address), msg.EndProcess(name, *start.former)]

    def _launch(self, name: str, start: Start) -> list[msg.Effect]:
        if self.launching >= LAUNCHES_AT_ONCE:
            start.step = Step.QUEUED
            return []
        start.step = Step.STARTING
        timeout_s = WRITER_LAUNCH_TIMEOUT_S if name == self.writer else LAUNCH_TIMEOUT_S
        return [msg.StartProcess(name, start.address, timeout_s)]

    @property
    def launching(self) -> int:
        """Processes that start at the moment."""
        return sum(start.step is Step.STARTING for start in self.starting.values())

    def _launch_next(self) -> list[msg.Effect]:
        queued = [(name, one) for name, one in self.starting.items() if one.step is Step.QUEUED]
        return self._launch(*queued[0]) if queued else []

    def _ended(self, ended: msg.ProcessEnded) -> list[msg.Effect]:
        start = self.starting.get(ended.host)
        if start is None or not start.awaits(ended.address):
            if ended.error is None:
                return []
            # The process may live on. The log fences whatever it tries to append.
            details = {"address": ended.address, "error": str(ended.error)}
            return [msg.Note("warning", "a process was not ended", details)]
        if ended.error is None:
            return self._launch(ended.host, start)
        return self._try_again(ended.host, start, ended.error)

    def _not_started(self, failed: msg.StartFailed) -> list[msg.Effect]:
        return [
            # A process may run all the same, and nobody would watch or end it later.
            msg.EndProcess(failed.host, failed.address, None),
            *self._try_again(failed.host, self.starting[failed.host], failed.error),
            *self._launch_next(),
        ]

    def _try_again(
        self, name: str, start: Start, error: RemoteStorageError
    ) -> list[msg.Effect]:
        # A start that fails is followed by a pause from the first time on.
        self._deaths[name] = max(self._deaths.get(name, 0), FREE_DEATHS) + 1
        start.skipped += name != self.writer
        start.error = error
        details = {"host": name, "error": str(error)}
        return [msg.Note("warning", "a host does not start", details), *self._back_off(name)]

    def _serves(self, started: msg.ProcessStarted) -> list[msg.Effect]:
        del self.starting[started.host]
        host = self._add(started.host, started.address, started.ping)
        watch = [self._ping(host), *self._knock(host)]
        return [*self._take_on(host), *watch, *self._launch_next()]

    # Watching.

    def _ping(self, host: HostRecord) -> msg.Effect:
        host.asked_s = self.now.s
        has_all = not (host.unsent or host.sending or host.set_aside)
        placed = len(self._state.seats.get(host.name, ())) if has_all else None
        return msg.Ping(host.name, host.address, host.watch, patience(host.took_s), placed)

    def _pinged(
        self, host: HostRecord, stimulus: msg.PingAnswered | msg.PingMissed | msg.HostEnded
    ) -> list[msg.Effect]:
        took_s, effects = self.now.s - host.asked_s, list[msg.Effect]()
        if isinstance(stimulus, msg.HostEnded):
            return self._lose(host)
        if isinstance(stimulus, msg.PingMissed):
            # The ping does not count if this process was too busy to see the answer in time.
            host.missed += took_s - patience(host.took_s) < LATE_S
            if host.missed >= PINGS_MISSED:
                return self._lose(host)
        else:
            host.missed = 0
            host.took_s = max(took_s, host.took_s * PING_FADES)
            host.load = stimulus.load or host.load
            if dropped := self._reported(host, stimulus.ping):
                return dropped
            strays = evolve.strays(self._state, host.name, stimulus.ping.runs)
            effects = [*self.send([strays] if strays.placements else ()), *self._reserve(host)]
        pause_s = max(WATCH_INTERVAL_S, len(self.running) / PINGS_PER_S)
        if host.missed:
            pause_s = max(pause_s - took_s, 0.0)  # It has waited long enough for an answer.
        return [*effects, msg.SetTimer(msg.Timer("ping", host.name, host.watch), pause_s)]

    def _reserve(self, host: HostRecord) -> list[msg.Effect]:
        """Have the successor of the writing host started: nobody else can write meanwhile."""
        is_due = host.name == self.writer and self.now.s >= host.reserve_s
        is_logged = self._state.hosts.get(host.name) == host.process
        if not is_due or not is_logged or host.name in self._reliefs:
            return []
        host.has_reserve = True
        host.reserve_s = self.now.s + RESERVE_AGAIN_S
        return [msg.Prepare(placement.next_address(self._state, host.name))]

    def _knock(self, host: HostRecord) -> list[msg.Effect]:
        return [] if host.door is None else [msg.Knock(host.name, host.door, host.watch)]

    def _knocked(self, host: HostRecord, *, opens: bool) -> list[msg.Effect]:
        before = self.doors.closed
        notes = self.doors.knocked(host.name, self.now, opens=opens)
        if self.doors.closed != before:
            self.is_news = True  # Leaders and followers may have to move, or may now.
            if host.name in before.hosts - self.doors.closed.hosts:
                host.since_s = self.now.s
        pause_s = KNOCK_INTERVAL_S if opens else KNOCK_AGAIN_S
        pause_s = max(pause_s, len(self.running) / PINGS_PER_S)
        return [*notes, msg.SetTimer(msg.Timer("knock", host.name, host.watch), pause_s)]

    def _reported(self, host: HostRecord, ping: HostPing) -> list[msg.Effect]:
        """Take note of a host's report. Effects only if a later process has replaced it."""
        name, state = host.name, self._state
        self.heard_ms[name] = self.now.ms
        host.behind = ping.behind
        host.is_told = host.asked_s >= host.done_s and not (host.unsent or host.sending)
        self.doors.reported(name, ping)
        if state.hosts.get(name) != host.process:
            if self._is_older(host):
                return self._drop(host)
            self.is_news = True
        facts = [msg.Fact("leader lost", name, one) for one in ping.lost]
        facts += [msg.Fact("refused", name, one) for one in ping.refused]
        for fact in facts:
            if fact.decide(state):  # Empty if the log has it: hosts repeat their reports.
                self.facts[fact] = None
                self.is_news = True
        if state.unplaced or (state.together and len(state.hosts) > 1):
            self.is_news = True
        return []

    def _relieve(self, host: HostRecord, asked: msg.ReplaceAsked) -> list[msg.Effect]:
        """Go on with the replacement of a host's process, as far as one wish goes."""
        # First the next process is started, while this one serves; it opens no store yet. With
        # each wish the service moves some leaders and followers to other hosts, and `closed`
        # keeps new ones away. Only when all of that was sent, and the next process has had its
        # time to start, does this one retire. Its end is found as any other's (`_lose`): so a
        # process that dies on the way is replaced no differently.
        #
        # The wish is in nobody's memory but the client's, and in no log, from which it would
        # have to be withdrawn when the client is gone. It names the process that is to end: a
        # repeat after the end, or to another coordinator, does no harm.
        relief, effects = self._reliefs.get(host.name), list[msg.Effect]()
        if relief is None:
            # The reserve runs what was installed when it was started.
            skipped = int(host.has_reserve)
            relief = self._reliefs[host.name] = Relief(self.now.s, skipped)
            if host.has_reserve:
                reserve = placement.next_address(self._state, host.name)
                effects = [msg.EndProcess(host.name, reserve, None)]
            address = placement.next_address(self._state, host.name, skipped)
            effects.append(msg.Prepare(address, is_replacement=not asked.leaves_node))
        relief.asked_s = self.now.s
        has_all = not (host.unsent or host.sending)
        is_prepared = self.now.s - relief.since_s >= PREPARED_S
        if asked.is_relieved and has_all and is_prepared and not relief.is_retiring:
            relief.is_retiring = True
            effects.append(msg.RetireHost(host.name, host.address, host.watch))
        return effects

    def _lose(self, host: HostRecord) -> list[msg.Effect]:
        name = host.name
        is_early = self.now.s - host.since_s < EARLY_S
        self._deaths[name] = self._deaths.get(name, 0) + 1 if is_early else 0
        details = {"host": name, "process": host.process}
        relief = self._reliefs.get(name)
        if relief is not None and relief.is_retiring:
            note = msg.Note("info", "a host's process is replaced", details)
        else:
            note = msg.Note("warning", "host is gone", details)
        effects = [note, *self._drop(host)]
        if name == self.writer:  # Without it no loss could be logged: start its successor.
            skipped = 0 if relief is None else relief.skipped
            return [*effects, *self._start(name, (host.address, host.process), skipped)]
        return [*effects, *self._give_up(name, host.address, host.process)]

    def _give_up(self, name: str, address: str, process: str) -> list[msg.Effect]:
        """End what is left of a process; its loss is a fact to log until the log has it."""
        self._given_up[name] = process
        self.is_news = True
        return [msg.EndProcess(name, address, process)]

    def _drop(self, host: HostRecord) -> list[msg.Effect]:
        """Forget a host's process, and the work that it was not sent yet."""
        del self.running[host.name]
        self._reliefs.pop(host.name, None)
        self.doors.drop(host.name)
        return [msg.Forget(host.address)]

    # Sending work.

    def _send_next(self, host: HostRecord) -> list[msg.Effect]:
        """Send the next piece of work, unless one is on its way."""
        while not host.sending and host.unsent:
            self._take_pieces(host)
        if host.is_sending or not host.sending:
            return []
        return [self._send_effect(host)]

    def _take_pieces(self, host: HostRecord) -> None:
        """Take the next piece of work, with the placements behind it that fit into one call."""
        placements: list[Placement] = []
        while host.unsent and len(placements) < PLACEMENTS_PER_CALL:
            work = host.unsent[0]
            if not isinstance(work, HostWork):
                work = evolve.standing_work(self._state, host.name, work)
            if work.closes and placements:
                break
            host.unsent.popleft()
            if work.closes:
                host.sending.append(HostWork(host.name, (), work.closes))
            placements += work.placements
            if work.closes:
                break
        if placements:
            host.sending.append(HostWork(host.name, tuple(placements)))

    def _send_effect(self, host: HostRecord) -> msg.Effect:
        host.is_sending = True
        return msg.SendWork(host.address, host.watch, host.sending[0])

    def _work_ended(
        self, host: HostRecord, stimulus: msg.WorkDone | msg.WorkInDoubt | msg.WorkFailed
    ) -> list[msg.Effect]:
        if isinstance(stimulus, msg.WorkInDoubt):
            # The host may not have got it. If its pings go on, the same piece is sent again.
            details = {"host": host.name, "error": str(stimulus.error)}
            again = msg.SetTimer(msg.Timer("send", host.name, host.watch), WATCH_INTERVAL_S)
            return [msg.Note("warning", "a host may not have got its work", details), again]
        host.is_sending = False
        host.done_s = self.now.s
        work = host.sending.popleft()
        items: tuple[Placement | CloseCall, ...] = (*work.placements, *work.closes)
        effects: list[msg.Effect] = []
        if isinstance(stimulus, msg.WorkDone):
            for item in items if host.set_aside else ():
                host.set_aside.pop(_seat(item), None)
        elif len(items) == 1:
            effects.append(self._set_aside(host, items[0], stimulus.error))
        else:  # Send each item alone, so that only the failing ones are set aside.
            alone = [HostWork(host.name, (item,)) for item in work.placements]
            alone += [HostWork(host.name, (), (item,)) for item in work.closes]
            host.sending.extendleft(reversed(alone))
        return [*effects, *self._send_next(host)]

    def _set_aside(
        self, host: HostRecord, item: Placement | CloseCall, error: Exception
    ) -> msg.Effect:
        key, role = _seat(item)
        what = f"{key.named('?')}, {role} on {host.name}"
        reason = f"{type(error).__name__}: {error}"
        host.set_aside[key, role] = SetAside(what, reason, self.now.ms)
        details = {"kind": "SetAside", "what": what, "reason": reason}
        return msg.Note("error", "alarm", details)


def _seat(item: Placement | CloseCall) -> tuple[PartitionKey, str]:
    """The partition and role that an item of work is about."""
    return item.key, getattr(item, "role", "session to close")


def _number(address: str) -> int:
    number = address.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0
