"""Claims that wait for the leader oracle; events/partition/sessions.py decides, this waits."""

import pytest

from tests.models.actors.harness import (
    NOW_MS,
    OTHER,
    SERDE,
    Harness,
    SlotStore,
    added,
    assigned,
    claiming,
    kinds,
    leading,
    new_leader,
)
from tests.models.events.driven_partition import CLAIM, GENESIS, TIP
from tierledger.actors import messages as msg
from tierledger.actors.leader.machine import Leader, LeaderPhase
from tierledger.events import commands as cmd
from tierledger.events.commands import LeaderVerdict
from tierledger.events.errors import (
    CorruptLog,
    Fenced,
    NotLeader,
    NotReady,
    Quarantined,
    StorageUnavailable,
)
from tierledger.events.log_events import SessionDisputed, SessionOpened
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState

THIRD = cmd.Claim(broker_id=3, incarnation=1, announcement=1)
KNOWS = LeaderVerdict


def waiting_in_office(store: SlotStore) -> tuple[Harness, int]:
    """A leader for `CLAIM`, and the caller of `OTHER`'s claim, which waits for the oracle."""
    harness = leading(store)
    caller = harness.assign(2, OTHER, leader_epoch=5)
    harness.settle()
    assert [one.claim for one in harness.questions] == [OTHER]
    assert harness.heard(caller) is None
    return harness, caller


def waiting_elsewhere(store: SlotStore) -> tuple[Harness, Harness]:
    """A leader for `CLAIM`, and one on another host whose claim waits for the oracle."""
    holder = leading(store)
    harness = claiming(store, 2, OTHER, leader_epoch=5)
    assert [one.claim for one in harness.questions] == [OTHER]
    return holder, harness


# In office.


def test_who_leads_serves_on_while_another_brokers_claim_waits(store: SlotStore) -> None:
    harness, _ = waiting_in_office(store)
    write, read = harness.write(added(1)), harness.ask()
    early = harness.write(added(2), OTHER)
    harness.settle()

    assert harness.position_for(write) == 1
    assert harness.answered_at[read] == 1
    assert isinstance(harness.error_for(early), Fenced)
    assert harness.leader.holds(CLAIM)
    assert not harness.leader.holds(OTHER)


def test_a_claim_that_the_oracle_confirms_opens_behind_what_was_written_meanwhile(
    store: SlotStore,
) -> None:
    harness, caller = waiting_in_office(store)
    harness.write(added(1))
    harness.settle()
    harness.oracle_decides(KNOWS(2, 6))

    assert harness.leader.holds(OTHER)
    assert harness.position_for(caller) == 2
    assert harness.refused == []
    assert harness.alarms == []
    body = store.events()[-1].body
    assert isinstance(body, SessionOpened)
    assert body.leader_epoch == 6


def test_a_claim_that_the_oracle_contradicts_is_refused_with_an_alarm_and_reported(
    store: SlotStore,
) -> None:
    harness, caller = waiting_in_office(store)
    harness.oracle_says(KNOWS(1))
    assert harness.heard(caller) is None  # It appends nothing, so it is a read.
    harness.settle()

    assert isinstance(harness.error_for(caller), Fenced)
    assert [alarm.kind for alarm in harness.alarms] == ["Fenced"]
    state = harness.leader.state
    assert state is not None
    assert harness.refused == [msg.ClaimRefused(2, state.session, True, NOW_MS)]
    assert harness.leader.holds(CLAIM)
    assert kinds(store.events()) == ["SessionOpened"]


def test_without_an_answer_it_opens_and_the_next_dispute_is_held_back(store: SlotStore) -> None:
    harness, _ = waiting_in_office(store)
    harness.oracle_decides(None)
    assert harness.leader.holds(OTHER)
    assert kinds(store.events()) == ["SessionOpened", "SessionOpened", "SessionDisputed"]

    back = harness.assign(3, CLAIM._replace(announcement=2))
    harness.settle()
    harness.oracle_decides(None, now_ms=NOW_MS + 300)
    assert [one.delay_ms for one in harness.questions] == [700]
    assert harness.heard(back) is None
    harness.oracle_decides(None, now_ms=NOW_MS)  # This clock has stepped back meanwhile.
    assert [one.delay_ms for one in harness.questions] == [300]
    harness.oracle_decides(None, now_ms=NOW_MS - 10**9)

    assert harness.position_for(back) == 4
    last = store.events()[-1].body
    assert isinstance(last, SessionDisputed)
    assert last.in_a_row == 2


def test_what_the_oracle_said_of_one_session_says_nothing_of_the_next(harness: Harness) -> None:
    caller = harness.assign(3, OTHER, leader_epoch=5)
    harness.settle()
    harness.assign(2, THIRD)  # Both epochs are unknown: it opens, and is on its way.
    harness.oracle_decides(KNOWS(2, 5))

    assert harness.leader.holds(THIRD)
    assert harness.heard(caller) is None
    assert [one.claim for one in harness.questions] == [OTHER]  # Once more.


def test_an_older_announcement_behind_the_newer_one_of_its_batch_is_refused(
    store: SlotStore,
) -> None:
    newer = OTHER._replace(announcement=2)
    harness = leading(store)
    harness.write(added(1))
    harness.assign(2, newer)
    caller = harness.assign(3, OTHER)
    harness.settle()

    assert harness.leader.holds(newer)
    assert isinstance(harness.error_for(caller), Fenced)


def test_a_closed_session_holds_nothing_against_a_claim_that_is_refused(
    harness: Harness,
) -> None:
    harness.command(cmd.CloseSession(CLAIM, "it leads no more"))
    harness.assign(2, CLAIM)  # Who gave a claim up has to announce another.
    harness.settle()

    assert [one.session for one in harness.refused] == [None]


def test_of_one_broker_the_newest_claim_waits_and_a_late_answer_finds_nobody(
    store: SlotStore,
) -> None:
    harness, older = waiting_in_office(store)
    newer_claim = OTHER._replace(announcement=2)
    newer = harness.assign(3, newer_claim, leader_epoch=6)
    harness.settle()
    assert isinstance(harness.error_for(older), Fenced)
    oldest = harness.assign(4, OTHER, leader_epoch=5)
    harness.settle()
    assert isinstance(harness.error_for(oldest), Fenced)

    assert [one.claim for one in harness.questions] == [OTHER, newer_claim]
    harness.oracle_decides(KNOWS(2), question=0)  # About the claim that was replaced.
    assert harness.heard(newer) is None
    harness.oracle_decides(KNOWS(2))
    assert harness.leader.holds(newer_claim)
    assert len(kinds(store.events())) == 2


def test_a_claim_that_waits_is_gone_with_a_newer_one_of_its_broker_that_is_refused(
    store: SlotStore,
) -> None:
    harness = claiming(store, 1, CLAIM, leader_epoch=6)
    older = harness.assign(2, OTHER)
    harness.settle()
    newer = harness.assign(3, OTHER._replace(announcement=2), leader_epoch=3)
    harness.settle()
    assert isinstance(harness.error_for(newer), Fenced)
    assert isinstance(harness.error_for(older), Fenced)

    harness.oracle_decides(None)
    assert harness.leader.holds(CLAIM)
    assert kinds(store.events()) == ["SessionOpened"]


def test_a_third_brokers_claim_is_decided_on_its_own(store: SlotStore) -> None:
    harness, caller = waiting_in_office(store)
    third = harness.assign(3, THIRD)
    harness.settle()

    assert harness.position_for(third) == 1
    assert harness.leader.holds(THIRD)
    # The assignment that waits is older than the one in force now: it cannot open any more.
    assert isinstance(harness.error_for(caller), Fenced)


def test_two_claims_wait_side_by_side(harness: Harness) -> None:
    second = harness.assign(2, OTHER, leader_epoch=5)
    third = harness.assign(3, THIRD, leader_epoch=6)
    harness.settle()
    assert [one.claim for one in harness.questions] == [OTHER, THIRD]

    harness.oracle_decides(KNOWS(3, 6), question=1)

    assert harness.position_for(third) == 1
    assert isinstance(harness.error_for(second), Fenced)


def test_a_leader_that_resigns_makes_way_for_the_claim_that_waits(store: SlotStore) -> None:
    harness, caller = waiting_in_office(store)
    harness.command(cmd.CloseSession(CLAIM, "the broker leads no more"))
    harness.settle()

    assert harness.leader.holds(OTHER)
    assert harness.position_for(caller) == 2
    assert kinds(store.events()) == ["SessionOpened", "SessionClosed", "SessionOpened"]
    harness.oracle_decides(KNOWS(1))  # Too late to matter.
    assert harness.leader.holds(OTHER)


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_claim_that_its_broker_gives_up_opens_no_more(
    harness: Harness, is_waiting: bool
) -> None:
    read = harness.ask()  # What comes while its probe is under way is decided together.
    caller = harness.assign(2, OTHER, leader_epoch=5)
    if is_waiting:
        harness.settle()
    harness.command(cmd.CloseSession(OTHER, "the broker leads no more"))
    harness.settle()

    assert isinstance(harness.error_for(caller), Fenced)
    harness.oracle_decides(None)
    assert harness.answered_at[read] == 0
    assert harness.leader.holds(CLAIM)
    assert kinds(harness.store.events()) == ["SessionOpened"]


def test_a_claim_given_up_behind_a_change_of_sessions_opens_no_more(store: SlotStore) -> None:
    harness, caller = waiting_in_office(store)
    harness.command(cmd.CloseSession(CLAIM, "the broker leads no more"))
    harness.command(cmd.CloseSession(OTHER, "the broker leads no more"))
    harness.settle()

    assert isinstance(harness.error_for(caller), Fenced)
    assert kinds(store.events()) == ["SessionOpened", "SessionClosed"]


def test_a_leader_that_moves_between_hosts_asks_nobody(store: SlotStore) -> None:
    leading(store)
    moved = claiming(store, 2, CLAIM, leader_epoch=4)

    assert moved.leader.holds(CLAIM)
    assert moved.questions == []


# A leader that has not claimed yet.


def test_a_leader_serves_nothing_while_its_own_claim_waits(store: SlotStore) -> None:
    holder, harness = waiting_elsewhere(store)
    write, read = harness.write(added(1), OTHER), harness.ask()
    close = harness.command(cmd.CloseSession(CLAIM, "the broker leads no more"))

    for caller in (write, read, close):
        assert isinstance(harness.error_for(caller), NotReady)
    assert not harness.asked
    assert harness.leader.phase is LeaderPhase.LEADING  # It is not gone.
    assert not harness.leader.holds(OTHER)
    still = holder.write(added(2))
    holder.settle()
    assert holder.position_for(still) == 1


def test_calls_that_came_before_the_claim_was_looked_at_are_told_to_come_again(
    store: SlotStore,
) -> None:
    leading(store)
    harness = new_leader(store, 2, OTHER, leader_epoch=5)
    early = harness.write(added(1), OTHER)
    harness.load()
    harness.settle()

    assert isinstance(harness.error_for(early), NotReady)
    harness.oracle_decides(KNOWS(2))
    late = harness.write(added(1), OTHER)
    harness.settle()
    assert harness.position_for(late) == 2


def test_it_claims_behind_what_the_other_wrote_while_it_waited(store: SlotStore) -> None:
    holder, harness = waiting_elsewhere(store)
    for number in range(5):
        holder.write(added(number))
        holder.settle()
    harness.oracle_decides(KNOWS(2))

    assert harness.leader.holds(OTHER)
    assert harness.questions == []
    assert harness.leader.position == 6
    late = holder.write(added(9))
    holder.settle()
    assert isinstance(holder.error_for(late), NotLeader)


def test_it_is_gone_once_the_oracle_contradicts_it_and_says_who_leads(store: SlotStore) -> None:
    _, harness = waiting_elsewhere(store)
    harness.oracle_decides(KNOWS(1))

    assert [gone.reason for gone in harness.gone] == [msg.REFUSED]
    (refused,) = harness.refused
    assert (refused.assignment, refused.is_served) == (2, False)
    assert refused.session is not None
    assert refused.session.broker_id == 1
    assert isinstance(harness.error_for(harness.ask()), NotLeader)


def test_it_stays_as_long_as_another_claim_waits(store: SlotStore) -> None:
    _, harness = waiting_elsewhere(store)
    third = harness.assign(3, THIRD, leader_epoch=9)
    harness.oracle_decides(KNOWS(1), question=0)
    assert harness.gone == []

    harness.oracle_decides(KNOWS(3))
    assert harness.position_for(third) == 1
    assert harness.leader.holds(THIRD)


def test_a_refusal_that_the_store_let_nobody_check_still_ends_it(store: SlotStore) -> None:
    _, harness = waiting_elsewhere(store)
    harness.oracle_says(KNOWS(1))
    probe = harness.expect_probe()
    harness.feed(msg.ProbeFailed(probe.number, StorageUnavailable("away")))

    assert [gone.reason for gone in harness.gone] == [msg.REFUSED]
    assert [one.assignment for one in harness.refused] == [2]


# Its end.


@pytest.mark.parametrize("is_released", [True, False])
def test_a_stop_drops_the_claim_that_waits_and_tells_it(
    store: SlotStore, is_released: bool
) -> None:
    harness, caller = waiting_in_office(store)
    harness.stop(is_released=is_released)
    assert isinstance(harness.error_for(caller), NotLeader)
    harness.settle()
    assert [gone.reason for gone in harness.gone] == [msg.STOPPED]

    harness.oracle_decides(KNOWS(2))
    assert kinds(store.events()) == ["SessionOpened"] + ["SessionClosed"] * is_released


def test_a_claim_that_a_stop_overtakes_in_the_queue_does_not_call_the_leader_back(
    harness: Harness,
) -> None:
    harness.write(added(1))
    caller = harness.assign(2, OTHER, leader_epoch=5)
    harness.stop()
    harness.settle()

    assert isinstance(harness.error_for(caller), NotLeader)
    assert harness.questions == []
    assert [gone.reason for gone in harness.gone] == [msg.STOPPED]


def test_a_stop_ends_a_leader_that_still_waits(store: SlotStore) -> None:
    _, harness = waiting_elsewhere(store)
    harness.stop()

    assert [gone.reason for gone in harness.gone] == [msg.STOPPED]


def test_a_quarantine_drops_the_claim_that_waits(store: SlotStore) -> None:
    harness, caller = waiting_in_office(store)
    harness.feed(msg.LoadFailed(CorruptLog("position 3: the checksum is wrong")))

    assert isinstance(harness.error_for(caller), Quarantined)
    harness.oracle_decides(KNOWS(2))
    assert kinds(store.events()) == ["SessionOpened"]


def test_an_import_that_waits_keeps_its_recorded_time(store: SlotStore) -> None:
    claiming(store, 1, CLAIM, leader_epoch=1)
    assignment = msg.Assignment(2, OTHER, None, TIP.topic, "recorded", recorded_time_ms=5)
    harness = Harness(Leader(SERDE, Limits(), msg.Assigned(assignment, None, 9)), store)
    harness.feed(msg.StateLoaded(PartitionState(TIP, GENESIS), 0))
    harness.settle()
    harness.oracle_decides(KNOWS(2), now_ms=10 * NOW_MS)

    assert store.events()[-1].log_time_ms == NOW_MS


@pytest.mark.parametrize(("opener", "leads"), [(b"another", False), (b"this one", True)])
def test_of_two_hosts_that_are_told_the_same_one_leads(
    opener: bytes, leads: bool, store: SlotStore
) -> None:
    """A leader in doubt looks for its own bytes: with one name two would find each other's."""
    told = assigned(1, leader_epoch=1)
    first, second = (
        Harness(Leader(SERDE, Limits(), told._replace(opener=one)), store)
        for one in (b"this one", opener)
    )
    for harness in (first, second):  # Both read a log in which nothing stands.
        harness.load()
        harness.step()
    first.settle()
    append = second.expect_append()
    second.feed(msg.AppendAnswered(append.number, msg.AppendOutcome.UNKNOWN))
    second.settle()

    assert first.leader.phase is LeaderPhase.LEADING
    assert (second.leader.phase is LeaderPhase.LEADING) is leads
    assert kinds(store.events()) == ["SessionOpened"]
