"""The coordinator's life, as a pure state machine.

Rule 1: any number of coordinators may append to the log. Each decides on all of it, and an
append that finds its slot taken is decided anew: so two of them are a nuisance, never a danger.
Rule 2: an answer that appended nothing is a read: it is given only after a look at the next
slot, which was free.
Rule 3: what waits together is decided together and appended in one step, one step at a time. An
append without an answer is in doubt: its slot is looked at and the same content tried again,
until it is known what became of it, or for `DOUBT_S`.

It proposes; the partitions' logs decide. It may die at any line: the next one reads the log,
asks which hosts live, and repeats the standing work. No I/O, clock or Ray here: the shells
carry effects out, one on asyncio and one in the simulator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from tierledger.actors import messages as store
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator import placement, rules
from tierledger.actors.coordinator.events import CoordinatorBody, Owner
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.hosts import BACKOFF_MIN_S, Hosts
from tierledger.actors.coordinator.ownership import give_up
from tierledger.actors.coordinator.rules import HostWork
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.messages import AppendOutcome, ReplyTo
from tierledger.actors.story import Story
from tierledger.events.errors import (
    CorruptLog,
    DataError,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RejectedError,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.event_codec import chain
from tierledger.events.log_events import Event
from tierledger.storage.partition.event_log import StoredBatch

START_WAIT_S = 10.0
"""How long a coordinator that starts waits for all of its hosts; one of them is enough."""

LOG_INTERVAL_S = 2.0
"""How often a coordinator looks for what another one has appended; one read of the store."""

DOUBT_S = 5.0
"""How long the slot of an append without an answer is looked at before its caller hears so."""

DOUBT_PAUSE_MS = 50

GIVE_UP_AGAIN_S = 1.0
"""Between two attempts to end a move that has had its time."""

WAITING_MAX = 20_000
"""Requests that may wait; the next is refused at once."""

REQUESTS_PER_BATCH = 1000
"""Requests that are decided together, or the partitions that they are about."""

ITEMS_PER_STEP = 200
"""Partitions that are decided on, or events applied, before others run: 2 ms."""


class Phase(StrEnum):
    """What the coordinator is doing about its log."""

    NEW = "new"
    IDLE = "idle"
    DECIDING = "deciding"
    """Something waits or is decided on, piece by piece."""
    APPENDING = "appending"
    DOUBTING = "doubting"
    """An append was not answered; its slot is being looked at."""
    READING = "reading"
    LOOKING = "looking"
    """At the next slot: if it is free, the log ends there."""
    FOLDING = "folding"
    """Durable events are applied, piece by piece."""
    STOPPED = "stopped"


_HOSTS = frozenset(
    {
        msg.PingAnswered,
        msg.PingMissed,
        msg.HostEnded,
        msg.ProcessStarted,
        msg.StartFailed,
        msg.ProcessEnded,
        msg.Told,
        msg.NotTold,
        msg.TellFailed,
    }
)
_ALWAYS = _HOSTS | {msg.Requested, msg.TimerFired, msg.Stopped}

HEARS: dict[Phase, frozenset[type[Any]]] = {
    Phase.NEW: frozenset({msg.Started, msg.Requested, msg.Stopped}),
    Phase.IDLE: _ALWAYS,
    Phase.DECIDING: _ALWAYS | {msg.Resumed},
    Phase.APPENDING: _ALWAYS | {store.AppendAnswered, msg.AppendFailed},
    Phase.DOUBTING: _ALWAYS | {store.SlotRead, store.ProbeFailed},
    Phase.READING: _ALWAYS | {store.LogRead, store.LoadFailed},
    Phase.LOOKING: _ALWAYS | {store.SlotRead, store.ProbeFailed},
    Phase.FOLDING: _ALWAYS | {msg.Resumed},
}
"""What may be heard in each phase; one that is stopped hears everything, and does nothing."""


class Waiting:
    """A request, and what it came to when it was decided on last."""

    def __init__(self, request: msg.Request, reply_to: ReplyTo) -> None:
        self.request = request
        self.reply_to = reply_to
        self.refusal: RemoteStorageError | None = None
        self.is_hopeless = False
        """Deciding on it failed in a way that nobody foresaw; it is not tried again."""
        self.is_new = True


class Batch(NamedTuple):
    """Decisions as they are to stand in the next slot."""

    events: tuple[Event, ...]
    value: bytes
    chain_hash: bytes


CHECKS: list[Callable[[Coordinator, bool], None]] = []
"""Called after each step, and told whether that changed the state: for tests."""


class Coordinator:
    """Owns the fold of the coordinator's log. Talk to it through `handle` only."""

    def __init__(
        self,
        fold: Fold,
        *,
        hosts: int,
        partitions_per_host: int = placement.PARTITIONS_PER_HOST,
        writer: str | None = None,
    ) -> None:
        """A coordinator that has read nothing yet.

        Args:
            fold: Of its log, still empty.
            hosts: How many are started, whatever they have to serve.
            partitions_per_host: Room of each.
            writer: The host that writes for all, where the store has one writer.
        """
        self.fold = fold
        self.phase = Phase.NEW
        self.is_started = False
        """Whether the log was read to its end, and hosts were looked for."""
        self.hosts = Hosts(fold.state, hosts, partitions_per_host, writer)
        self.story = Story()
        self.waiting: deque[Waiting] = deque()
        self.taken: list[Waiting] | None = None
        """What is being decided on and carried out together; none between two rounds."""
        self.batch: Batch | None = None
        """What is being appended."""
        self.doubt_until_s: float | None = None
        """When to give up on an append that was not answered."""
        self._partitions_per_host = partitions_per_host
        self._draft: CoordinatorState | None = None
        self._decided: list[bytes] = []
        self._decided_events: list[Event] = []
        self._decided_at = -1
        """The position up to which the log was read when that was decided."""
        self._at = 0
        """How many of `taken` are decided on."""
        self._is_placing = False
        self._unread: deque[StoredBatch] = deque()
        self._folding: deque[Event] = deque()
        self._folded_hash = b""
        """The hash behind the batch that is being folded; empty between two."""
        self._is_own = False
        """Whether what is being folded was appended here."""
        self._is_end = False
        """Whether the log ended behind what is being folded, by the word of a list."""
        self._works: list[HostWork] = []
        self._is_ready = False
        self._retries = False
        self._watched_move = 0
        """The number of the last word that said that the metadata is moving."""
        self._now = msg.Moment(0.0, 0)

    @property
    def state(self) -> CoordinatorState:
        """What its log says. Nobody else changes it."""
        return self.fold.state

    def handle(self, stimulus: msg.Stimulus, now: msg.Moment) -> list[msg.Effect]:
        """What `stimulus` calls for. Effects are to be carried out in order."""
        self._now = now
        if self.phase is Phase.STOPPED:
            return self._when_stopped(stimulus)
        assert type(stimulus) in HEARS[self.phase], (
            f"{type(stimulus).__name__} while {self.phase.value}; before: {self.story}"
        )
        before = self.state.next_position
        effects = self._handled(stimulus)
        if not self._is_ready:
            effects += self._ready()
        effects += self._watch_move()
        if self.phase is Phase.IDLE:
            effects += self._wake()
        self.story.note(stimulus, _about(stimulus), effects)
        for check in CHECKS:
            check(self, self.state.next_position != before)
        return effects

    def _handled(self, stimulus: msg.Stimulus) -> list[msg.Effect]:  # noqa: C901, PLR0911
        match stimulus:  # However many cases: each is one line.
            case msg.Started():
                return self._read()
            case msg.Requested():
                return self._requested(stimulus)
            case msg.Resumed():
                return self._fold() if self.phase is Phase.FOLDING else self._decide()
            case store.AppendAnswered():
                return self._append_answered(stimulus.outcome)
            case msg.AppendFailed():
                return self._append_failed(stimulus.error)
            case store.LogRead():
                self._unread.extend(stimulus.batches)
                self._is_end = stimulus.is_end
                return self._fold()
            case store.LoadFailed(error=error):
                if isinstance(error, CorruptLog):
                    error = self.fold.damaged(error)
                return self._failed(error)
            case store.SlotRead():
                return self._slot_read(stimulus.value)
            case store.ProbeFailed(error=error):
                return self._failed(error) if self.batch is None else self._doubt(error)
            case msg.TimerFired(timer=timer):
                return self._time_is_up(timer)
            case msg.Stopped():
                return self._stop(NotReady("the coordinator is being closed"))
            case _:
                return self._host_heard(stimulus)

    def _when_stopped(self, stimulus: msg.Stimulus) -> list[msg.Effect]:
        if isinstance(stimulus, msg.Requested):
            closed = NotReady("the coordinator is being closed")
            return [store.ReplyError(stimulus.reply_to, closed)]
        return []

    # Starting and stopping.

    def _host_heard(self, stimulus: msg.Stimulus) -> list[msg.Effect]:
        error = None if self.is_started else getattr(stimulus, "error", None)
        if error is not None:
            return self._give_up(error)
        effects = self.hosts.handle(stimulus, self._now)
        if not self.is_started and self.phase is Phase.IDLE and self._has_writer():
            effects += self._read()  # Its predecessor may have written until now.
        return effects

    def _has_writer(self) -> bool:
        return self.hosts.writer is None or self.hosts.writer in self.hosts.running

    def _take_up(self) -> list[msg.Effect]:
        """The log was read: find who writes, then let everybody take up what they had."""
        self.phase = Phase.IDLE
        self._works.clear()  # What was read is repeated as standing work.
        if not self._has_writer():
            return self.hosts.seek_writer()
        self.is_started = True
        self.hosts.is_news = True  # To place what finds its hosts gone, and to start others.
        timers = [
            msg.SetTimer(msg.Timer("look"), LOG_INTERVAL_S),
            msg.SetTimer(msg.Timer("ready"), START_WAIT_S),
        ]
        return [*self.hosts.take_up(), *timers]

    def _ready(self, *, waited: bool = False) -> list[msg.Effect]:
        """Tell once that hosts serve; the log alone may still name those of an earlier life."""
        if not self.is_started or self.phase is Phase.STOPPED:
            return []
        if not waited and self.hosts.serving < self.hosts.wanted:
            return []
        self._is_ready = True
        return [msg.Ready()]

    def _give_up(self, error: RemoteStorageError) -> list[msg.Effect]:
        return [*self._stop(error), msg.GiveUp(error)]

    def _stop(self, error: RemoteStorageError) -> list[msg.Effect]:
        self.phase = Phase.STOPPED
        waiting = [*(self.taken or ()), *self.waiting]
        self.taken, self.batch = None, None
        self.waiting.clear()
        return [
            store.ReplyError(one.reply_to, error) for one in waiting if one.reply_to is not None
        ]

    def _time_is_up(self, timer: msg.Timer) -> list[msg.Effect]:
        match timer.kind:
            case "look":
                again = msg.SetTimer(timer, LOG_INTERVAL_S)
                return [again, *self._look()] if self.phase is Phase.IDLE else [again]
            case "ready":
                return [] if self._is_ready else self._ready(waited=True)
            case "retry":
                self._retries, self.hosts.is_news = False, True
                return []
            case "give up":
                return self._give_up_move(timer)
            case _:
                return self.hosts.handle(msg.TimerFired(timer), self._now)

    # A move of the cluster's metadata.

    def _watch_move(self) -> list[msg.Effect]:
        """See to it that a move ends, also one that another coordinator let begin."""
        word = self.state.word
        is_new = word.owner == Owner.MOVING and word.number != self._watched_move
        if not is_new or not self.is_started:
            return []
        self._watched_move = word.number
        timer = msg.Timer("give up", watch=word.number)
        return [msg.SetTimer(timer, word.give_up_after_ms / 1000)]

    def _give_up_move(self, timer: msg.Timer) -> list[msg.Effect]:
        word = self.state.word
        if (word.owner, word.number) != (Owner.MOVING, timer.watch):
            return []
        self.waiting.append(Waiting(msg.HandOver(give_up(word)), None))
        return [msg.SetTimer(timer, GIVE_UP_AGAIN_S)]  # That may fail.

    # Deciding.

    def _requested(self, requested: msg.Requested) -> list[msg.Effect]:
        if len(self.waiting) >= WAITING_MAX:
            error = Overloaded(f"{WAITING_MAX} requests wait for the coordinator; try later")
            return [store.ReplyError(requested.reply_to, error)]
        self.waiting.append(Waiting(requested.request, requested.reply_to))
        return []

    def _wake(self) -> list[msg.Effect]:
        """Begin a round once others have run, so that more may join it."""
        if not self.is_started or not (self.waiting or self.hosts.is_news):
            return []
        self.phase = Phase.DECIDING
        return [msg.Resume()]

    def _take(self) -> list[Waiting]:
        """All that waits now, up to a batch, behind what was found out about hosts."""
        self.hosts.is_news = False
        taken = [Waiting(fact, None) for fact in self.hosts.decided_on()]
        items = 0
        while self.waiting and items < REQUESTS_PER_BATCH:
            taken.append(self.waiting.popleft())
            items += max(1, taken[-1].request.items)
        return taken

    def _decide(self) -> list[msg.Effect]:
        """Decide on a piece of what was taken, each on all before it."""
        self.phase = Phase.DECIDING
        if self.taken is None:
            self.taken = self._take()
            self._begin()
        effects: list[msg.Effect] = []
        items = 0
        while self._at < len(self.taken):
            if items >= ITEMS_PER_STEP:
                return [*effects, msg.Resume()]
            one = self.taken[self._at]
            self._at += 1
            items += max(1, one.request.items)
            if not one.is_hopeless:
                effects += self._decide_on(one)
        if self._decided:
            return effects + self._append(self._decided_events, self._decided)
        if any(one.reply_to is not None for one in self.taken):
            return effects + self._look()
        return effects + self._place()

    def _begin(self) -> None:
        """Decide on everything from the start, on the log as it is now."""
        self._draft = self.state.draft()
        self._decided, self._decided_events = [], []
        self._decided_at = self.state.next_position
        self._at = 0
        self._is_placing = False

    def _decide_on(self, one: Waiting) -> list[msg.Effect]:
        draft = self._draft
        assert draft is not None, "a round has one"
        is_new, one.is_new, one.refusal = one.is_new, False, None
        effects: list[msg.Effect] = []
        try:
            if is_new:
                effects = _alarms(draft, one.request)
            bodies = one.request.decide(draft)
            events, stored = self.fold.events_of(bodies, draft, self._now.ms)
            for event in events:
                rules.evolve_strictly(draft, event)
        except RemoteStorageError as error:
            one.refusal = error
            return effects
        except Exception as error:  # noqa: BLE001
            # Nobody foresaw it, so it is this request's fault, and ends nothing else. It
            # spoiled the draft on which the others were decided.
            one.refusal = RejectedError(f"the coordinator cannot do this: {error!r}")
            one.is_hopeless = True
            if isinstance(one.request, msg.Fact):
                self.hosts.facts.pop(one.request, None)
            self._begin()
            what = "a request to the coordinator cannot be decided on"
            return [msg.Note("error", what, {}, error)]
        if stored:
            draft.chain_hash = chain(stored[-1])
        self._decided += stored
        self._decided_events += events
        return effects

    # Placing, and the end of a round.

    def _place(self) -> list[msg.Effect]:
        """Give places to what has none; then tell who waits."""
        self._is_placing = True
        try:
            bodies = placement.place(self.state, self._partitions_per_host, self.hosts.behind())
            if bodies:
                return self._append(*self._encoded(bodies))
            return self._settle(self.hosts.supply())
        except Exception as error:  # noqa: BLE001 - Requests must be answered all the same.
            return self._nothing_placed(error, error)

    def _encoded(self, bodies: list[CoordinatorBody]) -> tuple[list[Event], list[bytes]]:
        return self.fold.events_of(bodies, self.state, self._now.ms)

    def _nothing_placed(
        self, error: Exception, unforeseen: Exception | None = None
    ) -> list[msg.Effect]:
        # The next ping of any host comes back to it.
        details = {"error": repr(error)}
        return self._settle([msg.Note("warning", "nothing was placed", details, unforeseen)])

    def _settle(self, effects: list[msg.Effect]) -> list[msg.Effect]:
        """End the round: tell each who waits what became of it."""
        for one in self.taken or ():
            if one.reply_to is None:
                continue
            if one.refusal is not None:
                effects.append(store.ReplyError(one.reply_to, one.refusal))
            else:
                effects.append(msg.Reply(one.reply_to, one.request.answer(self.state)))
        self.taken, self._draft, self._is_placing = None, None, False
        self.phase = Phase.IDLE
        return effects

    def _failed(self, error: RemoteStorageError) -> list[msg.Effect]:
        """The log cannot be read or written now: all who wait for it hear so."""
        self.batch = self.doubt_until_s = None
        self._unread.clear()
        if not self.is_started:
            return self._give_up(error)
        if self._is_placing:
            return self._nothing_placed(error)
        for one in self.taken or ():
            if not one.is_hopeless:
                one.refusal = error
        effects = self._settle([])
        if not self._retries and self.hosts.decided_on():
            self._retries = True
            details = {"error": str(error)}
            effects.append(msg.Note("warning", "a host's word is not noted yet", details))
            effects.append(msg.SetTimer(msg.Timer("retry"), BACKOFF_MIN_S))
        return effects

    # Appending.

    def _append(self, events: list[Event], stored: list[bytes]) -> list[msg.Effect]:
        self.batch = Batch(tuple(events), self.fold.batch_of(stored), chain(stored[-1]))
        return self._send()

    def _send(self) -> list[msg.Effect]:
        assert self.batch is not None, "something is to be appended"
        self.phase = Phase.APPENDING
        return [store.Append(self.fold.next_batch, self.batch.value)]

    def _append_answered(self, outcome: AppendOutcome) -> list[msg.Effect]:
        if outcome is AppendOutcome.CREATED:
            return self._stored()
        if outcome is AppendOutcome.EXISTS and self.doubt_until_s is not None:
            self.phase = Phase.DOUBTING  # What stands there may be ours.
            return [store.ReadSlot(self.fold.next_batch)]
        return self._overtaken()  # Where others have passed nothing of ours stands.

    def _append_failed(self, error: RemoteStorageError) -> list[msg.Effect]:
        if self.doubt_until_s is None and not isinstance(error, OutcomeUnknown):
            return self._failed(error)  # It was the first attempt, and kept nothing.
        return self._doubt(error)

    def _doubt(self, error: RemoteStorageError) -> list[msg.Effect]:
        if self.doubt_until_s is None:
            self.doubt_until_s = self._now.s + DOUBT_S
        may_end = isinstance(error, OutcomeUnknown | RetryableError)
        if not may_end or self._now.s > self.doubt_until_s:
            return self._failed(
                OutcomeUnknown(f"{self.fold.key(self.fold.next_batch)}: {error}")
            )
        self.phase = Phase.DOUBTING
        return [store.ReadSlot(self.fold.next_batch, delay_ms=DOUBT_PAUSE_MS)]

    def _slot_read(self, value: bytes | None) -> list[msg.Effect]:
        if self.batch is None:
            return self._looked(value)
        if value is None:
            return self._send()  # Still on its way, or lost: the same content, the same slot.
        if value == self.batch.value:
            return self._stored()
        return self._overtaken()

    def _stored(self) -> list[msg.Effect]:
        batch, self.batch, self.doubt_until_s = self.batch, None, None
        assert batch is not None, "something was appended"
        self._folding.extend(batch.events)
        self._folded_hash = batch.chain_hash
        self._is_own = self._is_placing = True  # What was asked for is durable.
        return self._fold()

    def _overtaken(self) -> list[msg.Effect]:
        """Another coordinator wrote there: it may have died before telling anybody."""
        self.batch = self.doubt_until_s = None
        return self._read()

    # Reading and folding.

    def _read(self) -> list[msg.Effect]:
        self.phase = Phase.READING
        return [store.ReadLog(self.fold.next_batch)]

    def _look(self) -> list[msg.Effect]:
        self.phase = Phase.LOOKING
        return [store.ReadSlot(self.fold.next_batch)]

    def _looked(self, value: bytes | None) -> list[msg.Effect]:
        if value is None:
            return self._at_end()
        self._unread.append(StoredBatch(self.fold.next_batch, value))
        self._is_end = False
        return self._fold()

    def _fold(self) -> list[msg.Effect]:
        """Apply a piece of what is durable; when all of that is done, go on."""
        self.phase = Phase.FOLDING
        effects: list[msg.Effect] = []
        items = 0
        while self._folding or self._unread or self._folded_hash:
            if self._folding:
                if items >= ITEMS_PER_STEP:
                    return [*effects, msg.Resume()]
                event = self._folding.popleft()
                items += _items_of(event)
                self._works += self.apply(event)
            elif self._folded_hash:
                self.fold.passed(self._folded_hash)
                self._folded_hash = b""
                effects += self._tell()
            else:
                try:
                    events, self._folded_hash = self.fold.decoded(self._unread.popleft())
                except DataError as error:
                    return effects + self._failed(error)
                self._folding.extend(events)
        if self._is_own:
            self._is_own = False
            return effects + self._place()
        # A list may be behind. Who says "nothing new" has to have seen the end.
        return effects + (self._look() if self._is_end else self._read())

    def apply(self, event: Event) -> list[HostWork]:
        """Carry the state on by a durable event; what hosts have to be told of it."""
        return self.fold.apply(event)

    def _tell(self) -> list[msg.Effect]:
        if not self.is_started:
            return []
        works, self._works = self._works, []
        return [*self.hosts.follow(), *self.hosts.tell(works)]

    def _at_end(self) -> list[msg.Effect]:
        """All of the log is read."""
        if not self.is_started:
            return self._take_up()
        if self.taken is None:
            self.phase = Phase.IDLE
            return []
        if self._is_placing:
            return self._place()
        if self._decided or self._decided_at != self.state.next_position:
            self._begin()
            return self._decide()
        return self._place()


def _alarms(state: CoordinatorState, request: msg.Request) -> list[msg.Effect]:
    """What a person should hear of a request, whatever it comes to."""
    if not isinstance(request, msg.Announce):
        return []
    given = request.given
    refused = rules.not_taken(state, given, request.denied)
    tips = (PartitionKey(*item[:2]).named(item[2]) for item in refused)
    return [
        msg.Note(
            "warning",
            "alarm",
            {"kind": "Fenced", "partition": str(tip), "broker": given.broker_id},
        )
        for tip in tips
    ]


def _items_of(event: Event) -> int:
    """How much work an event is."""
    body: Any = event.body
    return 1 + sum(len(field) for field in body if type(field) is tuple)


def _about(stimulus: msg.Stimulus) -> object:
    match stimulus:
        case msg.Requested():
            return type(stimulus.request).__name__
        case msg.TimerFired():
            return stimulus.timer.kind
        case _:
            host = getattr(stimulus, "host", None)
            return getattr(stimulus, "number", None) if host is None else host
