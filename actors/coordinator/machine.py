"""The coordinator's life, as a pure state machine.

Rule 1: any number of coordinators may append to the log. Each decides on all of it. If its
append finds the slot taken, it reads on and decides again. So two coordinators cost time, but
never do harm.
Rule 2: an answer that appended nothing is a read: it is given only after a read of the next
slot has found it free, which proves that no other coordinator had appended.
Rule 3: requests that wait together are decided together and appended as one batch, one batch at
a time. An append without an answer is in doubt: the slot is read, and the same bytes are
appended again if it is empty, until the outcome is known or `DOUBT_S` is over.

The coordinator proposes; the partitions' logs decide who leads. It may die at any line: the
next one reads the log, pings the hosts, and sends them all their placements again. No I/O,
clock or Ray here: the shells carry effects out, one on asyncio and one in the simulator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

from tierledger.actors import messages as store
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import decide, evolve, placement
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.hosts import BACKOFF_MIN_S, Hosts
from tierledger.actors.coordinator.ownership import give_up
from tierledger.actors.coordinator.presence import Presence
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.messages import AppendOutcome, ReplyTo
from tierledger.actors.sent_batch import NextStep, SentBatch
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
from tierledger.storage.backend import FORMER_BYTES
from tierledger.storage.partition.event_log import StoredBatch

START_WAIT_S = 10.0
"""How long a coordinator that starts waits for all of its hosts before it is ready anyway."""

LOG_INTERVAL_S = 2.0
"""How often a coordinator checks whether another one has appended; one read of the store."""

DOUBT_S = 5.0
"""How long an append may stay in doubt before its callers get `OutcomeUnknown`."""

DOUBT_PAUSE_MS = 50

GIVE_UP_AGAIN_S = 1.0
"""Pause between two attempts to end a move whose time is over."""

WAITING_MAX = 20_000
"""Requests that may wait; the next is refused at once."""

REQUESTS_PER_BATCH = 1000
"""Requests that are decided together, or partitions that these are about."""

ITEMS_PER_STEP = 200
"""Partitions decided on, or events applied, before other tasks get to run: 2 ms."""


class CoordinatorPhase(StrEnum):
    """What the coordinator is doing about its log."""

    NEW = "new"
    IDLE = "idle"
    DECIDING = "deciding"
    """Requests are being decided on, piece by piece."""
    APPENDING = "appending"
    DOUBTING = "doubting"
    """An append was not answered; its slot is being read."""
    READING = "reading"
    LOOKING = "looking"
    """The next slot is being read: if it is free, the log ends there."""
    FOLDING = "folding"
    """Durable events are being applied, piece by piece."""
    STOPPED = "stopped"


_HOSTS = frozenset(
    {
        msg.PingAnswered,
        msg.PingMissed,
        msg.HostEnded,
        msg.ReplaceAsked,
        msg.Knocked,
        msg.ProcessStarted,
        msg.StartFailed,
        msg.ProcessEnded,
        msg.WorkDone,
        msg.WorkInDoubt,
        msg.WorkFailed,
    }
)
_ALWAYS = _HOSTS | {msg.Requested, msg.Reported, msg.TimerFired, msg.Stopped}

HEARS: dict[CoordinatorPhase, frozenset[type[Any]]] = {
    CoordinatorPhase.NEW: frozenset({msg.Started, msg.Requested, msg.Reported, msg.Stopped}),
    CoordinatorPhase.IDLE: _ALWAYS,
    CoordinatorPhase.DECIDING: _ALWAYS | {msg.Resumed},
    CoordinatorPhase.APPENDING: _ALWAYS | {store.AppendAnswered, msg.AppendFailed},
    CoordinatorPhase.DOUBTING: _ALWAYS | {store.SlotRead, store.ProbeFailed},
    CoordinatorPhase.READING: _ALWAYS | {store.LogRead, store.LoadFailed},
    CoordinatorPhase.LOOKING: _ALWAYS | {store.SlotRead, store.ProbeFailed},
    CoordinatorPhase.FOLDING: _ALWAYS | {msg.Resumed},
}
"""Stimuli that may arrive in each phase. A stopped coordinator accepts all and does nothing."""


class Waiting:
    """A request, and the outcome of the last decision on it."""

    def __init__(self, request: msg.Decidable, reply_to: ReplyTo) -> None:
        self.request = request
        self.reply_to = reply_to
        self.answer: object = None
        self.refusal: RemoteStorageError | None = None
        self.is_hopeless = False
        """The decision raised an unforeseen error; it is not tried again."""
        self.is_new = True
        """Whether it was never decided on: a repeat of the decision raises no alarm again."""


class Batch(NamedTuple):
    """Decisions in the form in which the next slot is to hold them."""

    events: tuple[Event, ...]
    sent: SentBatch
    chain_hash: bytes


CHECKS: list[Callable[[Coordinator, bool], None]] = []
"""Called after each step, with whether it changed the state: for tests."""


class Coordinator:
    """Owns the fold of the coordinator's log. Talk to it through `handle` only."""

    def __init__(
        self,
        fold: Fold,
        *,
        began_ms: int,
        hosts: int,
        partitions_per_host: int = placement.PARTITIONS_PER_HOST,
        writer: str | None = None,
    ) -> None:
        """A coordinator that has read nothing yet.

        Args:
            fold: The fold of its log, still empty.
            began_ms: Now, by `Moment.running_ms`.
            hosts: How many hosts are started at least, however little there is to serve.
            partitions_per_host: Leaders and followers that one host may run.
            writer: The host that writes for all, where the store has one writer.
        """
        self.fold = fold
        self.phase = CoordinatorPhase.NEW
        self.is_started = False
        """Whether the log was read to its end and its hosts are being pinged."""
        self.hosts = Hosts(fold.state, hosts, partitions_per_host, writer)
        self.presence = Presence(began_ms)
        self.story = Story()
        self.waiting: deque[Waiting] = deque()
        self.taken: list[Waiting] | None = None
        """The requests of the present round, decided on together; None between two rounds."""
        self.batch: Batch | None = None
        """The batch that is being appended, or is in doubt."""
        self.doubt_until_s: float | None = None
        """When to give up on an append that is in doubt."""
        self._partitions_per_host = partitions_per_host
        self._draft: CoordinatorState | None = None
        self._decided: list[bytes] = []
        self._decided_events: list[Event] = []
        self._decided_at = -1
        """The next position of the log when the round was decided on."""
        self._at = 0
        """How many of `taken` are decided on."""
        self._is_placing = False
        """Whether the round's decisions are durable, and what runs nowhere is being placed."""
        self._unread: deque[StoredBatch] = deque()
        """Batches that were read and are not folded yet."""
        self._folding: deque[Event] = deque()
        """The durable events that are applied next, of one batch."""
        self.beginning = b""
        """The first bytes of the newest batch that was read or appended."""
        self._folded_hash = b""
        """The chain hash behind the batch that is being folded; empty between two batches."""
        self._is_own = False
        """Whether this coordinator appended the batch that is being folded."""
        self._is_end = False
        """Whether the log ended behind the batches being folded, by a list, which may lag."""
        self._works: list[HostWork] = []
        """What hosts have to be sent once the batch that is being folded is applied."""
        self._is_ready = False
        self._retries = False
        """Whether a timer is set that begins another round."""
        self._watched_move = 0
        """The owner epoch of the move for which a timer was set last."""
        self._now = msg.Moment(0.0, 0)

    @property
    def state(self) -> CoordinatorState:
        """The fold of the log. Only this machine changes it."""
        return self.fold.state

    def handle(self, stimulus: msg.Stimulus, now: msg.Moment) -> list[msg.Effect]:
        """The effects that `stimulus` calls for, to be carried out in order."""
        self._now = self.hosts.now = now
        if self.phase is CoordinatorPhase.STOPPED:
            return self._when_stopped(stimulus)
        assert type(stimulus) in HEARS[self.phase], (
            f"{type(stimulus).__name__} while {self.phase.value}; before: {self.story}"
        )
        before = self.state.next_position
        effects = self._handled(stimulus)
        if not self._is_ready:
            effects += self._ready()
        effects += self._watch_move()
        if self.phase is CoordinatorPhase.IDLE:
            effects += self._wake()
        if not isinstance(stimulus, msg.Reported):  # The story would tell of little else.
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
            case msg.Reported():
                return self._reported(stimulus)
            case msg.Resumed():
                return (
                    self._fold() if self.phase is CoordinatorPhase.FOLDING else self._decide()
                )
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
                return self._slot_read(stimulus)
            case store.ProbeFailed(error=error):
                return self._failed(error) if self.batch is None else self._doubt(error)
            case msg.TimerFired(timer=timer):
                return self._time_is_up(timer)
            case msg.Stopped():
                return self._stop(NotReady("the coordinator is being closed"))
            case _:
                return self._pass_to_hosts(stimulus)

    def _when_stopped(self, stimulus: msg.Stimulus) -> list[msg.Effect]:
        if isinstance(stimulus, msg.Requested | msg.Reported):
            closed = NotReady("the coordinator is being closed")
            return [store.ReplyError(stimulus.reply_to, closed)]
        return []

    # Starting and stopping.

    def _pass_to_hosts(self, stimulus: msg.Stimulus) -> list[msg.Effect]:
        error = None if self.is_started else getattr(stimulus, "error", None)
        if error is not None:
            return self._give_up(error)
        effects = self.hosts.handle(stimulus)
        if not self.is_started and self.phase is CoordinatorPhase.IDLE and self._has_writer():
            effects += self._read()  # Until now the writer's predecessor may have written.
        return effects

    def _has_writer(self) -> bool:
        return self.hosts.writer is None or self.hosts.writer in self.hosts.running

    def _take_up(self) -> list[msg.Effect]:
        """The log was read: find the writer, then send all hosts their placements again."""
        self.phase = CoordinatorPhase.IDLE
        self._works.clear()  # `take_up` sends all that the log holds.
        if not self._has_writer():
            return self.hosts.seek_writer()
        self.is_started = True
        self.hosts.is_news = True  # Partitions may need a place, and hosts a start.
        timers = [
            msg.SetTimer(msg.Timer("look"), LOG_INTERVAL_S),
            msg.SetTimer(msg.Timer("ready"), START_WAIT_S),
        ]
        return [*self.hosts.take_up(), *timers]

    def _ready(self, *, waited: bool = False) -> list[msg.Effect]:
        """Report once that hosts serve. The log alone may name hosts that are gone by now."""
        if not self.is_started or self.phase is CoordinatorPhase.STOPPED:
            return []
        if not waited and self.hosts.serving < self.hosts.wanted:
            return []
        self._is_ready = True
        return [msg.Ready()]

    def _give_up(self, error: RemoteStorageError) -> list[msg.Effect]:
        return [*self._stop(error), msg.GiveUp(error)]

    def _stop(self, error: RemoteStorageError) -> list[msg.Effect]:
        self.phase = CoordinatorPhase.STOPPED
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
                if self.phase is not CoordinatorPhase.IDLE:
                    return [again]
                self._balance()
                return [again, *self._look()]
            case "ready":
                return [] if self._is_ready else self._ready(waited=True)
            case "retry":
                self._retries, self.hosts.is_news = False, True
                return []
            case "give up":
                return self._give_up_move(timer)
            case _:
                return self.hosts.handle(msg.TimerFired(timer))

    def _balance(self) -> None:
        """Move one leader, if hosts are too unequal, and nothing is more urgent."""
        state = self.state
        is_moving = state.ownership.owner == Owner.MOVING
        if self.waiting or state.unplaced or state.together or is_moving:
            return
        hosts = self.hosts
        found = placement.balanced(
            state, hosts.settled(), self._partitions_per_host, hosts.behind(), hosts.loads()
        )
        if found is not None:
            hosts.forget_loads()
            self.waiting.append(Waiting(msg.Balance(found), None))

    # A move of the cluster's metadata.

    def _watch_move(self) -> list[msg.Effect]:
        """Set the timer that ends a move, also for a move that another coordinator began."""
        ownership = self.state.ownership
        is_new = ownership.owner == Owner.MOVING and ownership.epoch != self._watched_move
        if not is_new or not self.is_started:
            return []
        self._watched_move = ownership.epoch
        timer = msg.Timer("give up", watch=ownership.epoch)
        return [msg.SetTimer(timer, ownership.give_up_after_ms / 1000)]

    def _give_up_move(self, timer: msg.Timer) -> list[msg.Effect]:
        ownership = self.state.ownership
        if (ownership.owner, ownership.epoch) != (Owner.MOVING, timer.watch):
            return []
        self.waiting.append(Waiting(msg.HandOver(give_up(ownership)), None))
        return [msg.SetTimer(timer, GIVE_UP_AGAIN_S)]  # The append may fail.

    # Deciding.

    def _requested(self, requested: msg.Requested) -> list[msg.Effect]:
        if len(self.waiting) >= WAITING_MAX:
            error = Overloaded(f"{WAITING_MAX} requests wait for the coordinator; try later")
            return [store.ReplyError(requested.reply_to, error)]
        self.waiting.append(Waiting(requested.request, requested.reply_to))
        return []

    def _reported(self, reported: msg.Reported) -> list[msg.Effect]:
        """Answer a report at once: what it is told may be old, like a follower's reads."""
        try:
            answer, follows = self.presence.take(reported.report, self.state, self._now)
        except RemoteStorageError as error:
            return [store.ReplyError(reported.reply_to, error)]
        except Exception as error:  # noqa: BLE001 - One bad report must not end the coordinator.
            bad = RejectedError(f"the coordinator cannot take this report: {error!r}")
            return [store.ReplyError(reported.reply_to, bad)]
        effects: list[msg.Effect] = [msg.ReplyToRequest(reported.reply_to, answer)]
        for one in follows:
            effects += self._requested(msg.Requested(None, one))
        return effects

    def _wake(self) -> list[msg.Effect]:
        """Begin a round after other tasks have run, so that more requests may join it."""
        if not self.is_started or not (self.waiting or self.hosts.is_news):
            return []
        self.phase = CoordinatorPhase.DECIDING
        return [msg.Resume()]

    def _take(self) -> list[Waiting]:
        """Up to a batch of the requests that wait, behind the facts about hosts."""
        self.hosts.is_news = False
        taken = [Waiting(fact, None) for fact in self.hosts.decided_on()]
        items = 0
        while self.waiting and items < REQUESTS_PER_BATCH:
            taken.append(self.waiting.popleft())
            items += max(1, taken[-1].request.items)
        return taken

    def _decide(self) -> list[msg.Effect]:
        """Decide on a piece of the round, each request on the state after those before it."""
        self.phase = CoordinatorPhase.DECIDING
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
            self._place_decided()
            return effects + self._append(self._decided_events, self._decided)
        if any(one.reply_to is not None for one in self.taken):
            return effects + self._look()
        return effects + self._place()

    def _begin(self) -> None:
        """Begin to decide on the whole round (again), on the log as it is now."""
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
                evolve.evolve_strictly(draft, event)
            # On the draft, before the requests behind it: these may replace what it is told.
            one.answer = one.request.answer(draft)
        except RemoteStorageError as error:
            one.refusal = error
            return effects
        except Exception as error:  # noqa: BLE001
            # An unforeseen error counts against this request alone. It may have spoiled the
            # draft on which the others were decided, so those are decided on again.
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

    def _place_decided(self) -> None:
        """Add the placements that follow from the decisions to the same append.

        So a claim costs one append, not two. Left to `_place`, once the decisions are durable:
        what is lost with a host, which a draft does not know, and what has waited for room,
        which could be all partitions.
        """
        draft = self._draft
        assert draft is not None, "a round has one"
        if self.state.unplaced or not self.state.hosts.items() <= draft.hosts.items():
            return
        with suppress(Exception):  # `_place` will meet it, and report it.
            events, stored = self._placements(draft)
            self._decided += stored
            self._decided_events += events

    # Placing, and the end of a round.

    def _placements(self, state: CoordinatorState) -> tuple[list[Event], list[bytes]]:
        hosts = self.hosts
        bodies = placement.place(state, self._partitions_per_host, hosts.behind(), hosts.closed)
        return self.fold.events_of(bodies, state, self._now.ms)

    def _place(self) -> list[msg.Effect]:
        """Place what runs nowhere; once there is nothing to place, end the round."""
        self._is_placing = True
        try:
            events, stored = self._placements(self.state)
            if events:
                return self._append(events, stored)
            return self._settle(self.hosts.supply())
        except Exception as error:  # noqa: BLE001 - Requests must be answered all the same.
            return self._nothing_placed(error, error)

    def _nothing_placed(
        self, error: Exception, unforeseen: Exception | None = None
    ) -> list[msg.Effect]:
        details = {"error": repr(error)}
        note = msg.Note("warning", "nothing was placed", details, unforeseen)
        return self._settle([note, *self._retry()])

    def _retry(self) -> list[msg.Effect]:
        """Have another round begin after a pause, unless one is to begin already."""
        if self._retries:
            return []
        self._retries = True
        return [msg.SetTimer(msg.Timer("retry"), BACKOFF_MIN_S)]

    def _settle(self, effects: list[msg.Effect]) -> list[msg.Effect]:
        """End the round: answer all callers."""
        for one in self.taken or ():
            if one.reply_to is None:
                continue
            if one.refusal is not None:
                effects.append(store.ReplyError(one.reply_to, one.refusal))
            else:
                if isinstance(one.request, msg.Announce):
                    decide.hear(self.state, one.request.given)
                if isinstance(one.request, msg.HandOver):
                    self.presence.handed_over(one.request.wish, self.state.ownership)
                effects.append(msg.ReplyToRequest(one.reply_to, one.answer))
        self.taken, self._draft, self._is_placing = None, None, False
        self.phase = CoordinatorPhase.IDLE
        return effects

    def _failed(self, error: RemoteStorageError) -> list[msg.Effect]:
        """The log cannot be read or written now: all callers of the round get the error."""
        self.batch = self.doubt_until_s = None
        self._unread.clear()
        if not self.is_started:
            return self._give_up(error)
        if self._is_placing:
            return self._nothing_placed(error)
        # The round's own append may be in the log, though its answer was lost, or another
        # coordinator's: what follows from it has still to be placed, and hosts to be started.
        has_moved = self.taken is not None and self._decided_at != self.state.next_position
        for one in self.taken or ():
            if not one.is_hopeless:
                one.refusal = error
        effects = self._settle([])
        if (has_moved or self.hosts.decided_on()) and (retry := self._retry()):
            what = "nothing was placed" if has_moved else "a host's report is not noted yet"
            effects += [msg.Note("warning", what, {"error": str(error)}), *retry]
        return effects

    # Appending.

    def _append(self, events: list[Event], stored: list[bytes]) -> list[msg.Effect]:
        sent = SentBatch(self.fold.next_batch, self.fold.batch_of(stored))
        self.batch = Batch(tuple(events), sent, chain(stored[-1]))
        return self._send()

    def _send(self) -> list[msg.Effect]:
        assert self.batch is not None, "something is to be appended"
        self.phase = CoordinatorPhase.APPENDING
        return [store.Append(self.batch.sent.number, self.batch.sent.value, self.beginning)]

    def _append_answered(self, outcome: AppendOutcome) -> list[msg.Effect]:
        assert self.batch is not None, "something is appended"
        return self._go_on(self.batch.sent.answered(outcome))

    def _append_failed(self, error: RemoteStorageError) -> list[msg.Effect]:
        batch = self.batch
        assert batch is not None, "something is appended"
        if isinstance(error, OutcomeUnknown):
            self.batch = batch._replace(sent=batch.sent.in_doubt())
        elif batch.sent.refused() is NextStep.GIVE_UP:
            return self._failed(error)
        return self._doubt(error)

    def _go_on(self, step: NextStep, found: bytes | None = None) -> list[msg.Effect]:
        """Go on with the append; `found`: the batch of another coordinator in its slot."""
        match step:
            case NextStep.SETTLE:
                return self._stored()
            case NextStep.SEND:
                return self._send()
            case NextStep.LOOK:
                self.phase = CoordinatorPhase.DOUBTING
                return [store.ReadSlot(self.fold.next_batch)]
            case NextStep.YIELD:
                # It may have died since: do its work, too.
                self.batch = self.doubt_until_s = None
                return self._looked(found)
            case _:
                # This log is never forgotten, and `_doubt` and `_append_failed` do the rest.
                raise AssertionError(f"{step} does not follow from an answer or a look")

    def _doubt(self, error: RemoteStorageError) -> list[msg.Effect]:
        if self.doubt_until_s is None:
            self.doubt_until_s = self._now.s + DOUBT_S
        may_end = isinstance(error, OutcomeUnknown | RetryableError)
        if not may_end or self._now.s > self.doubt_until_s:
            return self._failed(
                OutcomeUnknown(f"{self.fold.key(self.fold.next_batch)}: {error}")
            )
        self.phase = CoordinatorPhase.DOUBTING
        return [store.ReadSlot(self.fold.next_batch, delay_ms=DOUBT_PAUSE_MS)]

    def _slot_read(self, read: store.SlotRead) -> list[msg.Effect]:
        if self.batch is None:
            return self._looked(read.value)
        return self._go_on(self.batch.sent.seen(read), read.value)

    def _stored(self) -> list[msg.Effect]:
        batch, self.batch, self.doubt_until_s = self.batch, None, None
        assert batch is not None, "something was appended"
        self.beginning = batch.sent.value[:FORMER_BYTES]
        self._folding.extend(batch.events)
        self._folded_hash = batch.chain_hash
        self._is_own = self._is_placing = True  # The decisions are durable; placing is next.
        return self._fold()

    # Reading and folding.

    def _read(self) -> list[msg.Effect]:
        self.phase = CoordinatorPhase.READING
        return [store.ReadLog(self.fold.next_batch)]

    def _look(self) -> list[msg.Effect]:
        self.phase = CoordinatorPhase.LOOKING
        return [store.ReadSlot(self.fold.next_batch)]

    def _looked(self, value: bytes | None) -> list[msg.Effect]:
        if value is None:
            return self._at_end()
        self._unread.append(StoredBatch(self.fold.next_batch, value))
        self._is_end = False
        return self._fold()

    def _fold(self) -> list[msg.Effect]:
        """Apply a piece of the durable events; go on with the round when all are applied."""
        self.phase = CoordinatorPhase.FOLDING
        effects: list[msg.Effect] = []
        items = 0
        while self._folding or self._unread or self._folded_hash:
            if self._folding:
                if items >= ITEMS_PER_STEP:
                    return [*effects, msg.Resume()]
                event = self._folding.popleft()
                items += _items_of(event)
                self._works += self.fold.apply(event)
            elif self._folded_hash:
                self.fold.passed(self._folded_hash)
                self._folded_hash = b""
                effects += self._send_works()
            else:
                batch = self._unread.popleft()
                self.beginning = batch.value[:FORMER_BYTES]
                try:
                    events, self._folded_hash = self.fold.decoded(batch)
                except DataError as error:
                    return effects + self._failed(error)
                self._folding.extend(events)
        if self._is_own:
            self._is_own = False
            return effects + self._place()
        # A list of the log's keys may lag. Only a free next slot proves that the log ends.
        return effects + (self._look() if self._is_end else self._read())

    def _send_works(self) -> list[msg.Effect]:
        if not self.is_started:
            return []
        works, self._works = self._works, []
        return [*self.hosts.follow(), *self.hosts.send(works)]

    def _at_end(self) -> list[msg.Effect]:
        """The log was read to its end."""
        if not self.is_started:
            return self._take_up()
        if self.taken is None:
            self.phase = CoordinatorPhase.IDLE
            return []
        if self._is_placing:
            return self._place()
        if self._decided or self._decided_at != self.state.next_position:
            self._begin()
            return self._decide()
        return self._place()


def _alarms(state: CoordinatorState, request: msg.Decidable) -> list[msg.Effect]:
    """Alarms for claims to lead in `request` that a newer leader epoch outranks."""
    if not isinstance(request, msg.Announce):
        return []
    given = request.given
    refused = decide.not_taken(state, given, request.denied)
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
    """How much work an event is, in items of `ITEMS_PER_STEP`."""
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
