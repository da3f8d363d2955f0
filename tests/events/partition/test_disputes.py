"""Two brokers claim to lead and only one says in which leader epoch: who decides, and when."""

import pytest

from tests.models.events.driven_partition import CLAIM, DrivenPartition, open_session
from tierledger.events import commands as cmd
from tierledger.events.commands import NOBODY_KNOWS, LeaderVerdict
from tierledger.events.errors import Fenced
from tierledger.events.log_events import SessionDisputed, SessionOpened
from tierledger.events.partition.decide import Undecided, decide
from tierledger.events.partition.invariants import check
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.sessions import BACK_OFF_FIRST_MS, BACK_OFF_MAX_MS
from tierledger.events.partition.state import Session

OTHER = cmd.Claim(2, 1, 1)
HOUR_MS = 3_600_000


def led(epoch: int | None, now_ms: int = 0) -> DrivenPartition:
    """A partition that `CLAIM` leads."""
    partition = DrivenPartition()
    partition.accept(open_session(CLAIM, 1, epoch), now_ms)
    return partition


def claim_of(epoch: int | None, verdict: LeaderVerdict | None = None) -> cmd.OpenSession:
    return open_session(OTHER, 2, epoch)._replace(verdict=verdict)


def session_of(partition: DrivenPartition) -> Session:
    assert partition.state.session is not None
    return partition.state.session


class Rivals:
    """Two brokers that contradict each other, one of them without a leader epoch."""

    def __init__(self) -> None:
        self.partition = led(7)
        self.assignment = 1

    def next_claim(self) -> cmd.OpenSession:
        self.assignment += 1
        broker = 1 if self.assignment % 2 else 2
        claim = cmd.Claim(broker, 1, self.assignment)
        epoch = 7 if broker == 1 else None
        command = open_session(claim, self.assignment, epoch)
        return command._replace(verdict=NOBODY_KNOWS)

    def dispute(self, now_ms: int) -> SessionDisputed:
        """The next dispute, opened at `now_ms` at the latest."""
        body = self.partition.accept(self.next_claim(), now_ms).events[1].body
        assert isinstance(body, SessionDisputed)
        return body

    def held_back(self, now_ms: int, waited_ms: int = 0) -> int:
        """For how long the next claim is held back still."""
        command = self.next_claim()._replace(waited_ms=waited_ms)
        self.assignment -= 1
        view = Overlay(self.partition.state)
        decision = decide(view, command, now_ms, self.partition.limits)
        return decision.delay_ms if isinstance(decision, Undecided) else 0


@pytest.mark.parametrize(("theirs", "ours"), [(None, 5), (5, None)])
def test_a_claim_that_cannot_be_compared_is_undecided_and_asks_at_once(
    theirs: int | None, ours: int | None
) -> None:
    partition = led(theirs)

    assert partition.apply(claim_of(ours)) == Undecided(0)
    assert session_of(partition).broker_id == CLAIM.broker_id


@pytest.mark.parametrize(
    ("theirs", "ours", "expected", "opened_with"),
    [
        (None, 5, 5, 5),
        (None, 5, None, 5),
        (5, None, 6, 6),
        (5, None, None, None),
        (None, 5, 8, 8),  # It has led on since it announced.
    ],
)
def test_a_claim_that_the_oracle_confirms_opens_without_a_dispute(
    theirs: int | None, ours: int | None, expected: int | None, opened_with: int | None
) -> None:
    partition = led(theirs)

    (event,) = partition.accept(claim_of(ours, LeaderVerdict(2, expected))).events

    assert isinstance(event.body, SessionOpened)
    assert (event.body.broker_id, event.body.leader_epoch) == (2, opened_with)
    assert partition.state.disputes == 0
    assert partition.state.dispute_run is None


@pytest.mark.parametrize(("theirs", "ours"), [(None, 5), (5, None)])
@pytest.mark.parametrize("named", [1, 3])
@pytest.mark.parametrize("epoch", [None, 5, 9])
def test_a_claim_that_the_oracle_contradicts_is_refused(
    theirs: int | None, ours: int | None, named: int, epoch: int | None
) -> None:
    partition = led(theirs)

    error = partition.refuse(claim_of(ours, LeaderVerdict(named, epoch)))

    assert isinstance(error, Fenced)
    assert f"broker {named} does" in str(error)


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        (None, 5, NOBODY_KNOWS),
        (5, None, NOBODY_KNOWS),
        (None, 5, LeaderVerdict(-1, 9)),  # Kafka's way to say that nobody leads now.
        (None, 5, LeaderVerdict(1, 4)),
        (5, None, LeaderVerdict(2, 4)),
        (5, None, LeaderVerdict(1, 4)),
    ],
    ids=["unknown", "unknown too", "no leader", "before ours", "before theirs", "before it"],
)
def test_without_an_answer_or_with_an_outdated_one_the_later_claim_opens_with_a_dispute(
    theirs: int | None, ours: int | None, expected: LeaderVerdict
) -> None:
    partition = led(theirs)

    opened, dispute = partition.accept(claim_of(ours, expected)).events

    assert isinstance(opened.body, SessionOpened)
    assert opened.body.leader_epoch == ours
    assert dispute.body == SessionDisputed(2, ours, 1, theirs, in_a_row=1)
    assert dispute.session == 2
    assert partition.state.disputes == 1


def test_the_oracle_is_not_asked_about_what_is_out_of_date_anyway() -> None:
    partition = led(None)
    partition.accept(open_session(CLAIM._replace(announcement=5), 2))

    assert isinstance(partition.refuse(claim_of(9)), Fenced)  # Its assignment.
    older = open_session(CLAIM._replace(announcement=4), 3, 9)
    assert isinstance(partition.refuse(older), Fenced)


def test_a_leader_that_moves_or_speaks_again_needs_no_oracle() -> None:
    partition = led(None)

    partition.accept(open_session(CLAIM, 2, 4))
    partition.accept(open_session(CLAIM._replace(announcement=2), 3))

    assert session_of(partition).number == 3


# The back-off.


def test_each_dispute_in_a_row_doubles_the_back_off_up_to_a_bound() -> None:
    rivals, now_ms, seen = Rivals(), 0, []
    for count in range(1, 13):
        assert rivals.dispute(now_ms).in_a_row == count
        seen.append(rivals.held_back(now_ms))
        now_ms += seen[-1]
        assert rivals.held_back(now_ms - 1) == 1
        assert rivals.held_back(now_ms) == 0
    check(rivals.partition.state)

    doubled = [BACK_OFF_FIRST_MS * 2**count for count in range(12)]
    assert seen == [min(one, BACK_OFF_MAX_MS) for one in doubled]
    assert seen[-1] == BACK_OFF_MAX_MS


def test_a_session_that_opens_undisputed_ends_the_row() -> None:
    rivals = Rivals()
    rivals.dispute(0)
    rivals.dispute(BACK_OFF_FIRST_MS)
    assert rivals.held_back(BACK_OFF_FIRST_MS) == 2 * BACK_OFF_FIRST_MS

    confirmed = rivals.next_claim()
    confirmed = confirmed._replace(verdict=LeaderVerdict(confirmed.claim.broker_id))
    rivals.partition.accept(confirmed, BACK_OFF_FIRST_MS)

    assert rivals.held_back(BACK_OFF_FIRST_MS) == 0


def test_a_clock_that_is_hours_behind_the_log_waits_the_back_off_and_not_for_hours() -> None:
    rivals = Rivals()
    rivals.dispute(10 * HOUR_MS)

    assert rivals.held_back(now_ms=0) == BACK_OFF_FIRST_MS
    assert rivals.held_back(now_ms=0, waited_ms=400) == BACK_OFF_FIRST_MS - 400
    assert rivals.held_back(now_ms=0, waited_ms=BACK_OFF_FIRST_MS) == 0


def test_log_time_does_not_go_back_with_a_dispute() -> None:
    rivals = Rivals()
    rivals.dispute(10 * HOUR_MS)
    command = rivals.next_claim()._replace(waited_ms=BACK_OFF_FIRST_MS)

    events = rivals.partition.accept(command, 0).events

    assert [event.log_time_ms for event in events] == [10 * HOUR_MS] * 2
    run = rivals.partition.state.dispute_run
    assert run is not None
    assert (run.in_a_row, run.log_time_ms) == (2, 10 * HOUR_MS)


def test_whoever_was_held_back_is_refused_if_the_oracle_names_the_other_then() -> None:
    rivals = Rivals()
    rivals.dispute(0)
    command = rivals.next_claim()

    assert isinstance(rivals.partition.apply(command, 0), Undecided)
    error = rivals.partition.refuse(command._replace(verdict=LeaderVerdict(2)), 0)

    assert isinstance(error, Fenced)
