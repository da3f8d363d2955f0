"""Leaders that do not know of each other, on one log, over a store that is not to be trusted.

The store may take its time, lose an answer, say "exists" of one's own write, refuse, or carry
out an append long after its sender gave up. Leaders may crash in the middle of anything. What
callers were told is compared with the log: nobody may have been told what is not so.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from tests.models.actor_harness import (
    CREATED,
    EXISTS,
    NOW_MS,
    SERDE,
    UNKNOWN,
    Harness,
    SlotStore,
    added,
    assigned,
    new_leader,
)
from tests.models.driven_partition import command_of
from tests.models.slow_model import COPY_FINISHED, DELETE_FINISHED, DELETE_STARTED, Update
from tierledger.actors import messages as msg
from tierledger.actors.leader.machine import Leader
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    OutcomeUnknown,
    RejectedError,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.events.log_events import Event, Origin, SessionOpened

LEADERS_AT_ONCE = 3
WHICH = st.integers(0, LEADERS_AT_ONCE - 1)
BROKER = st.integers(1, 2)
EPOCH = st.none() | st.integers(1, 9)
STATES = st.sampled_from([None, None, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED])

APPEND_FAULTS = ("none", "own-exists", "reply-lost", "append-lost", "delayed", "refused")


@dataclass
class Call:
    """One call, and how long the log was when it arrived."""

    caller: int
    slots_before: int
    request: bytes | None = None
    """Of a write; none of a read."""
    heard: msg.Reply | msg.ReplyError | msg.Answer | None = None


@dataclass
class Contender:
    """A leader with its calls."""

    harness: Harness
    claims: list[cmd.Claim]
    calls: dict[int, Call] = field(default_factory=dict)
    said: int = 0
    """How much of what the leader said was looked at."""

    @property
    def leader(self) -> Leader:
        assert isinstance(self.harness.machine, Leader)
        return self.harness.machine


class LeaderMachine(RuleBasedStateMachine):
    """Up to three leaders, each sure that it is the one."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SlotStore()
        self.running: list[Contender] = []
        self.all: list[Contender] = []
        self.writers: dict[int, Contender] = {}
        """Who wrote which slot."""
        self.on_their_way: list[tuple[Contender, msg.Append]] = []
        self.assignment = 0
        self.announcements = {1: 0, 2: 0}
        self.requests: dict[bytes, cmd.Command] = {}

    # The coordinator.

    def claim(self, broker: int) -> cmd.Claim:
        self.assignment += 1
        self.announcements[broker] += 1
        return cmd.Claim(broker, 1, self.announcements[broker])

    @precondition(lambda self: len(self.running) < LEADERS_AT_ONCE)
    @rule(broker=BROKER, epoch=EPOCH)
    def a_leader_starts(self, broker: int, epoch: int | None) -> None:
        claim = self.claim(broker)
        harness = new_leader(self.store, self.assignment, claim, leader_epoch=epoch)
        contender = Contender(harness, [claim])
        self.running.append(contender)
        self.all.append(contender)
        contender.harness.load()

    @precondition(lambda self: self.running)
    @rule(which=WHICH, broker=BROKER, epoch=EPOCH)
    def a_leader_is_assigned_anew(self, which: int, broker: int, epoch: int | None) -> None:
        contender, claim = self.pick(which), self.claim(broker)
        contender.claims.append(claim)
        contender.harness.feed(assigned(self.assignment, claim, epoch))

    @precondition(lambda self: any(one.harness.questions for one in self.running))
    @rule(which=WHICH, named=st.none() | BROKER, late_ms=st.integers(0, 10_000))
    def the_oracle_answers(self, which: int, named: int | None, late_ms: int) -> None:
        asking = [one for one in self.running if one.harness.questions]
        verdict = None if named is None else cmd.LeaderVerdict(named)
        harness = asking[which % len(asking)].harness
        harness.oracle_says(verdict, now_ms=NOW_MS + late_ms)

    @precondition(lambda self: self.running)
    @rule(which=WHICH, is_released=st.booleans())
    def a_leader_is_stopped(self, which: int, is_released: bool) -> None:
        contender = self.pick(which)
        contender.harness.feed(msg.StopArrived(None, NOW_MS, is_released))

    @precondition(lambda self: self.running)
    @rule(which=WHICH)
    def a_leader_crashes(self, which: int) -> None:
        self.running.remove(self.pick(which))

    # Callers.

    @precondition(lambda self: self.running)
    @rule(which=WHICH, segment=st.integers(0, 4), state=STATES)
    def somebody_writes(self, which: int, segment: int, state: int | None) -> None:
        contender = self.pick(which)
        claim = contender.claims[-1]
        request = len(self.requests).to_bytes(2, "big")
        record = (
            added(segment) if state is None else Update(bytes([segment]) * 16, state, claim[0])
        )
        command = command_of(record, claim, Origin(claim.broker_id, request))
        self.requests[request] = command
        self.send(contender, request)

    @precondition(lambda self: self.running and self.requests)
    @rule(which=WHICH, back=st.integers(0, 5))
    def somebody_repeats_a_write(self, which: int, back: int) -> None:
        requests = list(self.requests)
        self.send(self.pick(which), requests[-1 - back % len(requests)])

    def send(self, contender: Contender, request: bytes) -> None:
        before = len(self.store.slots)
        caller = contender.harness.command(self.requests[request])
        contender.calls[caller] = Call(caller, before, request)

    @precondition(lambda self: self.running)
    @rule(which=WHICH)
    def somebody_reads(self, which: int) -> None:
        contender = self.pick(which)
        before = len(self.store.slots)
        caller = contender.harness.ask()
        contender.calls[caller] = Call(caller, before)

    # The store.

    @precondition(lambda self: self.running)
    @rule(
        which=WHICH,
        fault=st.sampled_from(("none", "none", *APPEND_FAULTS)),
        is_end=st.booleans(),
    )
    def the_store_acts(self, which: int, fault: str, is_end: bool) -> None:
        contender = self.pick(which)
        if not contender.harness.asked:
            return
        effect = contender.harness.asked[0]
        if isinstance(effect, msg.Append):
            contender.harness.asked.popleft()
            self.append(contender, effect, fault)
        elif isinstance(effect, msg.ReadSlot) and fault == "refused":
            contender.harness.asked.popleft()
            away = StorageUnavailable("away")
            contender.harness.feed(msg.ProbeFailed(effect.number, away))
        elif isinstance(effect, msg.ReadLog) and is_end:
            contender.harness.asked.popleft()
            rest = self.store.read_from(effect.number)
            ends = not rest or rest[-1].number + 1 == len(self.store.slots)
            contender.harness.feed(msg.LogRead(effect.number, rest, is_end=ends))
        else:
            contender.harness.step()

    @precondition(lambda self: self.running)
    @rule(which=WHICH, faults=st.lists(st.sampled_from(APPEND_FAULTS), max_size=4))
    def the_store_acts_for_a_while(self, which: int, faults: list[str]) -> None:
        for fault in faults:
            self.the_store_acts(which, fault, is_end=True)

    @precondition(lambda self: self.running)
    @rule(which=WHICH)
    def the_store_keeps_up(self, which: int) -> None:
        for _ in range(20):
            self.the_store_acts(which, "none", is_end=True)

    def append(self, contender: Contender, effect: msg.Append, fault: str) -> None:
        number = effect.number
        if fault == "refused":
            contender.harness.feed(msg.AppendRefused(number, StorageUnavailable("full")))
            return
        outcome = UNKNOWN
        if fault == "delayed":
            self.on_their_way.append((contender, effect))
        elif fault != "append-lost":
            outcome = self.create(contender, effect)
        if fault == "reply-lost":
            outcome = UNKNOWN
        elif fault == "own-exists" and outcome is CREATED:
            outcome = EXISTS
        contender.harness.feed(msg.AppendAnswered(number, outcome))

    def create(self, contender: Contender, effect: msg.Append) -> msg.AppendOutcome:
        outcome = self.store.create(effect.number, effect.value)
        if outcome is CREATED:
            self.writers[effect.number] = contender
        return outcome

    @precondition(lambda self: self.on_their_way)
    @rule(which=st.integers(0, 9))
    def an_append_arrives_late(self, which: int) -> None:
        late = self.on_their_way.pop(which % len(self.on_their_way))
        self.create(*late)

    # What must hold at any time.

    @invariant()
    def nobody_was_told_what_is_not_so(self) -> None:
        events = self.store.events()
        for contender in self.all:
            said = contender.harness.said
            for heard in said[contender.said :]:
                assert heard.reply_to is not None
                call = contender.calls[heard.reply_to]
                assert call.heard is None, "a call is answered once"
                call.heard = heard
                self.check_told(contender, call, events)
            contender.said = len(said)

    def check_told(self, contender: Contender, call: Call, events: list[Event]) -> None:
        match call.heard:
            case msg.Reply(position=position):
                assert position < len(events), "acknowledged means durable"
                applied = {event.request_id: event.position for event in events}
                # Before it, if there was nothing to do then, and a repeat found something.
                assert position <= applied.get(call.request, position)
                self.check_not_stale(contender, call)
            case msg.Answer(stale=stale):
                assert not stale
                self.check_not_stale(contender, call)
            case msg.ReplyError(error=error) if isinstance(error, RejectedError):
                self.check_not_stale(contender, call)

    def check_not_stale(self, contender: Contender, call: Call) -> None:
        """What was in the log when the call arrived was applied when it was answered."""
        assert contender.leader.next_batch >= call.slots_before

    @invariant()
    def what_was_refused_did_not_happen(self) -> None:
        applied = {event.request_id for event in self.store.events()}
        told: dict[bytes, list[RemoteStorageError | None]] = {}
        for contender in self.all:
            for call in contender.calls.values():
                if call.request is not None:
                    error = getattr(call.heard, "error", None)
                    told.setdefault(call.request, []).append(error)
        for request, errors in told.items():
            if None not in errors and not any(isinstance(e, OutcomeUnknown) for e in errors):
                assert request not in applied, errors

    @invariant()
    def a_request_is_applied_once(self) -> None:
        applied = [event.request_id for event in self.store.events() if event.request_id]

        assert len(applied) == len(set(applied))

    @invariant()
    def under_a_session_writes_only_who_opened_it(self) -> None:
        writers = {}
        events = iter(self.store.events())
        for number, value in enumerate(self.store.slots):
            for _ in range(len(self.decoded(value))):
                event = next(events)
                if isinstance(event.body, SessionOpened):
                    assert event.session not in writers, "session numbers are not used twice"
                    writers[event.session] = self.writers[number]
                assert writers[event.session] is self.writers[number]

    @staticmethod
    def decoded(value: bytes) -> list[bytes]:
        _, _, stored = SERDE.deserialize("batch", value)
        events: list[bytes] = stored
        return events

    @invariant()
    def writes_are_acknowledged_in_their_order(self) -> None:
        for contender in self.all:
            callers = [
                one.reply_to for one in contender.harness.said if isinstance(one, msg.Reply)
            ]
            written = [one for one in callers if one and contender.calls[one].request]
            assert written == sorted(written)

    def pick(self, which: int) -> Contender:
        return self.running[which % len(self.running)]

    @override
    def teardown(self) -> None:
        """Once faults end, every call to a leader that runs, or left in order, is answered."""
        for contender in self.running:
            while contender.harness.asked:
                if isinstance(contender.harness.asked[0], msg.Append):
                    effect = contender.harness.expect_append()
                    self.append(contender, effect, "none")
                else:
                    contender.harness.step()
        self.nobody_was_told_what_is_not_so()
        self.what_was_refused_did_not_happen()
        for contender in self.running:
            waiting = [call for call in contender.calls.values() if call.heard is None]
            assert not waiting


TestLeaders = LeaderMachine.TestCase
TestLeaders.settings = settings(stateful_step_count=60)
