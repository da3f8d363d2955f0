"""Elections, zombies and an oracle that is truthful, silent or late: who leads in the end.

The truth is a sequence of leaders, each in a higher leader epoch. Brokers announce themselves
with their epoch or without; former leaders announce themselves again. Claims reach leaders on
two hosts in any order of the oracle's answers.
"""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from typing_extensions import override

from tests.models.actor_harness import NOW_MS, Harness, SlotStore, assigned, new_leader
from tierledger.actors import messages as msg
from tierledger.actors.leader.machine import Leader, Phase
from tierledger.events import commands as cmd
from tierledger.events.commands import LeaderVerdict
from tierledger.events.log_events import SessionDisputed, SessionOpened
from tierledger.events.partition.sessions import BACK_OFF_MAX_MS
from tierledger.events.partition.state import Session

BROKERS = st.integers(1, 4)
ANNOUNCEMENTS_MAX = 2
"""How often a true leader that nobody disturbs has to announce itself at most."""


class DisputeMachine(RuleBasedStateMachine):
    """One partition, one broker that leads it in truth, and others that believe they do."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SlotStore()
        self.hosts: list[Harness] = []
        self.announcements = dict.fromkeys(range(1, 5), 0)
        self.last_epoch: dict[int, int] = {}
        """Broker to the leader epoch in which it led last, in truth."""
        self.truth = LeaderVerdict(1, 1)
        self.past = [self.truth]
        self.last_epoch[1] = 1
        self.assignment = 0
        self.now_ms = NOW_MS

    # The brokers.

    @rule(broker=BROKERS, knows_epoch=st.booleans(), host=st.integers(0, 1))
    def another_broker_is_elected(self, broker: int, knows_epoch: bool, host: int) -> None:
        epoch = len(self.past) + 1
        self.truth = LeaderVerdict(broker, epoch)
        self.past.append(self.truth)
        self.last_epoch[broker] = epoch
        self.announce(broker, knows_epoch, host)

    @rule(broker=BROKERS, knows_epoch=st.booleans(), host=st.integers(0, 1))
    def a_broker_that_led_once_believes_it_still_does(
        self, broker: int, knows_epoch: bool, host: int
    ) -> None:
        if broker in self.last_epoch:
            self.announce(broker, knows_epoch, host)

    def announce(self, broker: int, knows_epoch: bool, host: int) -> None:
        self.announcements[broker] += 1
        self.assignment += 1
        claim = cmd.Claim(broker, 1, self.announcements[broker])
        epoch = self.last_epoch[broker] if knows_epoch else None
        self.serve(claim, epoch, host)

    def serve(self, claim: cmd.Claim, epoch: int | None, host: int) -> None:
        """The coordinator's part: the claim goes to a leader that runs, or to a new one."""
        running = [one for one in self.hosts if self.phase(one) is not Phase.GONE]
        if host < len(running):
            running[host].feed(assigned(self.assignment, claim, epoch))
            running[host].settle()
            return
        started = new_leader(self.store, self.assignment, claim, leader_epoch=epoch)
        self.hosts.append(started)
        started.load()
        started.settle()

    @staticmethod
    def phase(harness: Harness) -> Phase:
        assert isinstance(harness.machine, Leader)
        return harness.machine.phase

    # The oracle.

    def asked(self) -> list[Harness]:
        return [one for one in self.hosts if one.questions]

    @precondition(lambda self: self.asked())
    @rule(which=st.integers(0, 5), has_epoch=st.booleans())
    def the_oracle_tells_the_truth(self, which: int, has_epoch: bool) -> None:
        harness = self.asked()[which % len(self.asked())]
        claim = harness.questions[0].claim
        before = self.session()
        verdict = self.truth if has_epoch else LeaderVerdict(self.truth.broker_id)
        self.answer(harness, verdict)
        after = self.session()
        won = after != before and after is not None and after.broker_id == claim.broker_id
        # A claim that became decidable without the oracle may win whatever it says.
        if won and before is not None and before.is_open:
            decidable = self.is_decidable(after, before)
            assert decidable or claim.broker_id == self.truth.broker_id, "a zombie won"

    @staticmethod
    def is_decidable(after: Session | None, before: Session) -> bool:
        """Whether two sessions follow each other by their epochs alone."""
        assert after is not None
        if after.broker_id == before.broker_id:
            return True
        return (after.leader_epoch is None) == (before.leader_epoch is None)

    @precondition(lambda self: self.asked())
    @rule(which=st.integers(0, 5), back=st.integers(0, 3))
    def the_oracle_is_late_with_what_was_true(self, which: int, back: int) -> None:
        harness = self.asked()[which % len(self.asked())]
        self.answer(harness, self.past[max(0, len(self.past) - 1 - back)])

    @precondition(lambda self: self.asked())
    @rule(which=st.integers(0, 5))
    def the_oracle_does_not_know(self, which: int) -> None:
        harness = self.asked()[which % len(self.asked())]
        self.answer(harness, None)

    @rule(step_ms=st.integers(-10 * BACK_OFF_MAX_MS, BACK_OFF_MAX_MS))
    def a_clock_is_wrong(self, step_ms: int) -> None:
        self.now_ms += step_ms

    def answer(self, harness: Harness, verdict: LeaderVerdict | None) -> None:
        asked = harness.questions.pop(0)
        assert 0 <= asked.delay_ms <= BACK_OFF_MAX_MS
        harness.feed(msg.OracleAnswered(asked.claim, verdict, self.now_ms, asked.number))
        harness.settle()

    # What must hold.

    def session(self) -> Session | None:
        """Of the last leader to have written: it has read the log to its end."""
        opened = [e.body for e in self.store.events() if isinstance(e.body, SessionOpened)]
        if not opened:
            return None
        last = opened[-1]
        pair = (last.incarnation, last.announcement)
        return Session(
            last.number, last.broker_id, *pair, last.assignment, last.leader_epoch, None, True
        )

    def answer_all(self, verdict: LeaderVerdict | None) -> None:
        """Until nobody asks: bounded, since each claim is decided after one back-off."""
        for _ in range(10 * (len(self.hosts) + 1) * 5):
            if not self.asked():
                return
            self.answer(self.asked()[0], verdict)
        raise AssertionError("some claim is never decided")

    @override
    def teardown(self) -> None:
        """Once elections and zombies end, the true leader gets to lead, whatever is known."""
        oracle_knows, knows_epoch = len(self.past) % 2 == 0, len(self.past) % 4 < 2
        self.answer_all(self.truth if oracle_knows else None)
        for count in range(ANNOUNCEMENTS_MAX + 1):
            session = self.session()
            if session is not None and session.broker_id == self.truth.broker_id:
                break
            assert count < ANNOUNCEMENTS_MAX, "the true leader is locked out"
            self.announce(self.truth.broker_id, knows_epoch, count)
            self.answer_all(self.truth if oracle_knows else None)
        events = self.store.events()
        times = [event.log_time_ms for event in events]
        assert times == sorted(times)
        for before, event in pairwise(events):
            if isinstance(event.body, SessionDisputed):
                assert isinstance(before.body, SessionOpened)


TestDisputes = DisputeMachine.TestCase
TestDisputes.settings = settings(stateful_step_count=40)
