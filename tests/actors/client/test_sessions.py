"""Several brokers claim and write; what they send arrives late, twice, out of order or never.

Two models stand beside the partition: what each announcement is worth, and what each request
led to. Both are told only what a client could see.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from tests.models.driven_partition import DrivenPartition, command_of, open_session
from tests.models.slow_model import COPY_FINISHED, DELETE_FINISHED, DELETE_STARTED, Add, Update
from tierledger.events import commands as cmd
from tierledger.events.errors import Fenced, NotLeader
from tierledger.events.log_events import (
    Event,
    Origin,
    SessionClosed,
    SessionDisputed,
    SessionOpened,
)
from tierledger.events.partition.decide import Accepted, Rejected, Undecided
from tierledger.events.partition.invariants import check

BROKERS = st.integers(1, 3)
EPOCHS_KNOWN = st.none() | st.integers(1, 4)


@dataclass
class Client:
    """A broker's process: a new incarnation counts its announcements from the beginning."""

    broker_id: int
    incarnation: int = 1
    announcement: int = 0
    requests: int = 0

    def announce(self) -> cmd.Claim:
        self.announcement += 1
        return self.claim

    @property
    def claim(self) -> cmd.Claim:
        return cmd.Claim(self.broker_id, self.incarnation, self.announcement)

    def request(self) -> Origin:
        self.requests += 1
        name = (self.incarnation, self.requests)
        return Origin(self.broker_id, b"".join(part.to_bytes(4, "big") for part in name))


@dataclass
class Wire:
    """What was sent, in the order of sending; anything may arrive at any time, repeatedly."""

    opens: list[cmd.OpenSession] = field(default_factory=list)
    closes: list[cmd.CloseSession] = field(default_factory=list)
    writes: list[cmd.AddSegment | cmd.UpdateSegment | cmd.PutPartitionDelete] = field(
        default_factory=list
    )


class SessionMachine(RuleBasedStateMachine):
    """Three brokers, one partition, a wire that keeps no order."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = DrivenPartition()
        self.clients = {broker: Client(broker) for broker in range(1, 4)}
        self.wire = Wire()
        self.assignments = 0
        self.holder: cmd.Claim | None = None
        self.sessions = 0
        self.newest: dict[int, tuple[int, int]] = {}
        self.outcomes: dict[Origin, int] = {}
        self.events: list[Event] = []

    # What clients do.

    @rule(broker=BROKERS)
    def restart(self, broker: int) -> None:
        client = self.clients[broker]
        client.incarnation += 1
        client.announcement = 0

    @rule(broker=BROKERS, epoch=EPOCHS_KNOWN)
    def announce(self, broker: int, epoch: int | None) -> None:
        self.assignments += 1
        claim = self.clients[broker].announce()
        self.wire.opens.append(open_session(claim, self.assignments, epoch))

    @rule(broker=BROKERS, epoch=EPOCHS_KNOWN)
    def announce_and_arrive(self, broker: int, epoch: int | None) -> None:
        self.announce(broker, epoch)
        self.deliver_open(len(self.wire.opens) - 1)

    @rule(broker=BROKERS)
    def stop_leading(self, broker: int) -> None:
        self.wire.closes.append(cmd.CloseSession(self.clients[broker].claim, "shutdown"))

    @rule(
        broker=BROKERS,
        one=st.integers(0, 5),
        state=st.sampled_from([None, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED]),
    )
    def write(self, broker: int, one: int, state: int | None) -> None:
        client, segment_id = self.clients[broker], bytes([one]) * 16
        record = (
            Add(segment_id, 10 * one, 10 * one + 9, {0: 10 * one})
            if state is None
            else Update(segment_id, state, broker)
        )
        self.wire.writes.append(command_of(record, client.claim, client.request()))
        self.deliver_write(len(self.wire.writes) - 1)

    # What arrives.

    @precondition(lambda self: self.wire.opens)
    @rule(back=st.integers(0, 30))
    def an_announcement_arrives(self, back: int) -> None:
        self.deliver_open(max(0, len(self.wire.opens) - 1 - back))

    @precondition(lambda self: self.wire.opens)
    @rule(back=st.integers(0, 30))
    def an_announcement_is_assigned_again(self, back: int) -> None:
        """The coordinator moves a broker's leader to another host: same pair, new number."""
        self.assignments += 1
        sent = self.wire.opens[max(0, len(self.wire.opens) - 1 - back)]
        self.wire.opens.append(sent._replace(assignment=self.assignments))
        self.deliver_open(len(self.wire.opens) - 1)

    @precondition(lambda self: self.wire.closes)
    @rule(back=st.integers(0, 10))
    def a_close_arrives(self, back: int) -> None:
        command = self.wire.closes[max(0, len(self.wire.closes) - 1 - back)]

        accepted = self.partition.accept(command)

        held = self.holder == command.claim
        assert [type(event.body) for event in accepted.events] == [SessionClosed] * held
        if held:
            self.holder = None
        self.events += accepted.events

    @precondition(lambda self: self.wire.writes)
    @rule(back=st.integers(0, 30))
    def a_write_arrives_again(self, back: int) -> None:
        self.deliver_write(max(0, len(self.wire.writes) - 1 - back))

    def deliver_open(self, at: int) -> None:
        command = self.wire.opens[at]
        claim, session = command.claim, self.partition.state.session
        decision = self.partition.claim(command)
        if isinstance(decision, Rejected):
            assert isinstance(decision.error, Fenced)
            return
        assert isinstance(decision, Accepted)
        pair = (claim.incarnation, claim.announcement)
        assert pair >= self.newest.get(claim.broker_id, (0, 0)), "an older announcement won"
        assert session is None or command.assignment > session.assignment
        body = decision.events[0].body
        assert isinstance(body, SessionOpened)
        assert body.number == self.sessions + 1
        self.check_rivals(command, decision.events)
        self.newest[claim.broker_id] = pair
        self.sessions, self.holder = body.number, claim
        self.events += decision.events

    def check_rivals(self, command: cmd.OpenSession, events: tuple[Event, ...]) -> None:
        """What a claim over another broker's open session may and must put on record."""
        disputes = [event for event in events if isinstance(event.body, SessionDisputed)]
        rivals = [event.body for event in self.events if isinstance(event.body, SessionOpened)]
        if self.holder is None or self.holder.broker_id == command.claim.broker_id:
            assert disputes == []
            return
        theirs, ours = rivals[-1].leader_epoch, command.leader_epoch
        if ours is not None and theirs is not None:
            assert ours > theirs, "a leader epoch that is known decides"
        assert len(disputes) == ((ours is None) != (theirs is None))

    def deliver_write(self, at: int) -> None:
        command = self.wire.writes[at]
        known = self.outcomes.get(command.origin)
        before = len(self.partition.stored)
        decision = self.partition.apply(command)
        if known is not None:
            assert decision == Accepted((), known), "a repeat has another outcome"
        elif command.claim != self.holder:
            assert isinstance(decision, Rejected), "a write without the session was accepted"
            wanted = NotLeader if self.holder is None else Fenced
            assert isinstance(decision.error, wanted)
        assert not isinstance(decision, Undecided), "only a claim can be"
        if isinstance(decision, Accepted):
            assert len(self.partition.stored) == before + len(decision.events)
            self.remember(command.origin, decision)

    def remember(self, origin: Origin, decision: Accepted) -> None:
        self.events += decision.events
        for event in decision.events:
            assert event.session == self.sessions
            assert (event.broker_id, event.request_id) == origin
            self.outcomes[origin] = event.position

    # What always holds.

    @invariant()
    def the_session_is_the_one_that_was_last_granted(self) -> None:
        session = self.partition.state.session
        if self.holder is None:
            assert session is None or not session.is_open
            return
        assert session is not None
        assert session.is_open
        assert (session.number, (session.broker_id, *session.pair)) == (
            self.sessions,
            self.holder,
        )

    @override
    def teardown(self) -> None:
        check(self.partition.state)
        assert [event.position for event in self.events] == list(range(len(self.events)))
        opened = [event.body for event in self.events if isinstance(event.body, SessionOpened)]
        assert [body.number for body in opened] == list(range(1, self.sessions + 1))
        numbers = [event.session for event in self.events]
        assert numbers == sorted(numbers), "a former session wrote after its successor"


TestSessions = SessionMachine.TestCase
TestSessions.settings = settings(stateful_step_count=60)
