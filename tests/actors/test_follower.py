"""The rules of a follower, one at a time."""

import pytest

from tests.models.actors.harness import (
    NOW_MS,
    SERDE,
    Harness,
    SlotStore,
    added,
    assigned,
    following,
    leading,
)
from tests.models.events.driven_partition import CLAIM, GENESIS, TIP
from tests.models.storage.flipped_bits import flipped
from tierledger.actors import messages as msg
from tierledger.actors.follower import RETRY_DELAY_MS, WAITING_MAX, Follower, FollowerPhase
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    CorruptLog,
    NotLeader,
    NotReady,
    Overloaded,
    Quarantined,
    StorageUnavailable,
)
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.service.left_over import left_over

FOLLOWS = cmd.Claim(broker_id=2, incarnation=1, announcement=1)


@pytest.fixture
def store() -> SlotStore:
    """A log of a session and four segments, one batch each."""
    store = SlotStore()
    harness = leading(store)
    for number in range(4):
        harness.write(added(number))
        harness.settle()
    return store


@pytest.fixture
def harness(store: SlotStore) -> Harness:
    """Of a follower that has read all there is."""
    return following(store)


def grow(store: SlotStore, number: int) -> None:
    """One more event, by the present leader."""
    leading(store, number, CLAIM._replace(announcement=number))


# Reading.


def test_a_follower_reads_the_log_to_its_end(harness: Harness) -> None:
    assert harness.follower.phase is FollowerPhase.FOLLOWING
    assert harness.follower.position == 4
    assert harness.answered_at[harness.ask()] == 4


def test_nothing_is_answered_before_the_log_was_read(store: SlotStore) -> None:
    harness = Harness(Follower(SERDE), store)
    before = harness.ask()
    harness.load()
    while_reading = harness.ask()

    assert isinstance(harness.error_for(before), NotReady)
    assert isinstance(harness.error_for(while_reading), NotReady)


def test_a_log_that_grows_all_the_time_is_followed_all_the_same(store: SlotStore) -> None:
    harness = Harness(Follower(SERDE), store)
    harness.load()
    harness.asked.clear()
    everything = tuple(batch for number in (0, 3) for batch in store.read_from(number))
    harness.feed(msg.LogRead(0, everything, is_end=True))

    assert harness.follower.phase is FollowerPhase.FOLLOWING


def test_a_hint_makes_a_follower_read_on_and_an_old_one_does_not(harness: Harness) -> None:
    grow(harness.store, 2)
    harness.feed(msg.HintArrived(4))
    assert not harness.asked

    harness.feed(msg.HintArrived(5))
    harness.settle()
    assert harness.follower.position == 5


def test_hints_during_a_read_do_not_start_another(harness: Harness, store: SlotStore) -> None:
    grow(store, 2)
    harness.feed(msg.HintArrived(5))
    harness.feed(msg.HintArrived(6))

    assert len(harness.asked) == 1


def test_what_is_told_of_during_a_read_that_misses_it_is_read_behind_that(
    harness: Harness,
) -> None:
    harness.feed(msg.HintArrived(5))
    number = harness.follower.next_batch
    grow(harness.store, 2)
    harness.feed(msg.HintArrived(5))
    harness.asked.clear()
    harness.feed(msg.LogRead(number, (), is_end=True))
    harness.settle()

    assert harness.follower.position == 5


def test_what_is_told_and_is_not_so_costs_two_reads(harness: Harness) -> None:
    harness.feed(msg.HintArrived(1 << 40))
    harness.settle()

    assert harness.follower.position == 4
    assert not harness.asked
    assert harness.follower.phase is FollowerPhase.FOLLOWING


def test_a_late_read_changes_nothing(harness: Harness, store: SlotStore) -> None:
    harness.feed(msg.LogRead(0, store.read_from(0)))

    assert harness.follower.position == 4


# Answers.


def test_a_read_is_never_answered_behind_what_its_caller_has_seen(harness: Harness) -> None:
    ahead = harness.ask(position_min=5)

    assert harness.heard(ahead) is None
    harness.settle()
    assert harness.heard(ahead) is None
    grow(harness.store, 2)
    harness.feed(msg.HintArrived(5))
    harness.settle()
    assert harness.answered_at[ahead] == 5


def test_a_read_that_waits_too_long_hears_how_far_the_log_is(harness: Harness) -> None:
    ahead, other = harness.ask(position_min=9), harness.ask(position_min=9)
    harness.feed(msg.QueryExpired(ahead))

    assert "position 9 is not here yet (4 is)" in str(harness.error_for(ahead))
    assert harness.heard(other) is None


def test_reads_that_wait_are_bounded(harness: Harness) -> None:
    for _ in range(WAITING_MAX):
        harness.ask(position_min=9)

    assert isinstance(harness.error_for(harness.ask(position_min=9)), Overloaded)
    assert harness.answered_at[harness.ask()] == 4


def test_a_follower_takes_no_writes(harness: Harness) -> None:
    assert isinstance(harness.error_for(harness.write(added(9))), NotLeader)


@pytest.mark.parametrize(
    "foreign",
    [
        msg.AppendAnswered(5, msg.AppendOutcome.CREATED),
        msg.AppendRefused(5, NotReady("x")),
        msg.SlotRead(5, None),
        msg.ProbeFailed(5, NotReady("x")),
        msg.CheckpointDone(stored=True),
    ],
    ids=lambda foreign: type(foreign).__name__,
)
def test_what_concerns_leaders_is_ignored(store: SlotStore, foreign: msg.Stimulus) -> None:
    assert following(store).machine.handle(foreign) == []


# Readiness.


def test_a_follower_is_ready_after_a_read_that_began_after_the_announcement(
    harness: Harness,
) -> None:
    harness.feed(msg.HintArrived(9))  # A read is under way, and has begun too early.
    harness.feed(assigned(0, FOLLOWS))
    grow(harness.store, 2)

    harness.step()
    assert not harness.follower.is_ready_for(FOLLOWS)
    harness.settle()
    assert harness.follower.is_ready_for(FOLLOWS)
    assert harness.follower.position == 5


def test_a_list_that_is_behind_makes_nobody_ready() -> None:
    """Only a free slot is the end of the log: a store may list less than it holds."""
    machine = Follower(SERDE)
    machine.handle(msg.StateLoaded(PartitionState(TIP, GENESIS), 0))
    machine.handle(msg.LogRead(0, (), is_end=True))
    machine.handle(assigned(0, FOLLOWS))

    looks = machine.handle(msg.LogRead(0, (), is_end=True))
    was_ready = machine.is_ready_for(FOLLOWS)
    reads = machine.handle(msg.SlotRead(0, b"a batch that the list did not have"))

    assert (looks, reads) == ([msg.ReadSlot(0)], [msg.ReadLog(0)])
    assert (was_ready, machine.is_ready_for(FOLLOWS)) == (False, False)
    (again,) = machine.handle(msg.LogRead(0, (), is_end=True))
    (failed,) = machine.handle(msg.ProbeFailed(0, StorageUnavailable("away")))
    assert (again, failed) == (msg.ReadSlot(0), msg.ReadSlot(0, RETRY_DELAY_MS))
    assert machine.handle(msg.SlotRead(0, None)) == []
    assert machine.is_ready_for(FOLLOWS)


def test_who_is_announced_during_a_look_waits_for_the_next() -> None:
    machine, other = Follower(SERDE), FOLLOWS._replace(broker_id=8)
    machine.handle(msg.StateLoaded(PartitionState(TIP, GENESIS), 0))
    machine.handle(assigned(0, FOLLOWS))
    machine.handle(msg.LogRead(0, (), is_end=True))
    machine.handle(msg.LogRead(0, (), is_end=True))
    machine.handle(assigned(0, other))
    machine.handle(msg.LogRead(0, (), is_end=True))

    looks = machine.handle(msg.SlotRead(0, None))

    assert looks == [msg.ReadSlot(0)]
    assert (machine.is_ready_for(FOLLOWS), machine.is_ready_for(other)) == (True, False)
    machine.handle(msg.SlotRead(0, None))
    assert machine.is_ready_for(other)


def test_a_repeated_announcement_is_ready_once_the_first_is(harness: Harness) -> None:
    harness.feed(assigned(0, FOLLOWS))
    harness.settle()
    harness.feed(assigned(0, FOLLOWS))

    harness.settle()
    assert harness.follower.is_ready_for(FOLLOWS)


def test_a_newer_announcement_is_ready_on_its_own_account(harness: Harness) -> None:
    newer = FOLLOWS._replace(announcement=2)
    harness.feed(assigned(0, FOLLOWS))
    harness.settle()
    harness.feed(assigned(0, newer))

    assert not harness.follower.is_ready_for(newer)
    harness.settle()
    assert harness.follower.is_ready_for(newer)
    assert not harness.follower.is_ready_for(FOLLOWS)


def test_an_announcement_that_was_overtaken_changes_nothing(harness: Harness) -> None:
    newer = FOLLOWS._replace(announcement=2)
    harness.feed(assigned(0, newer))
    harness.settle()
    harness.feed(assigned(0, FOLLOWS))
    harness.settle()

    assert harness.follower.is_ready_for(newer)
    assert not harness.follower.is_ready_for(FOLLOWS)


def test_an_announcement_that_comes_while_loading_waits_for_the_end(store: SlotStore) -> None:
    harness = Harness(Follower(SERDE), store)
    harness.feed(assigned(0, FOLLOWS))
    harness.load()
    assert not harness.follower.is_ready_for(FOLLOWS)

    harness.settle()
    assert harness.follower.is_ready_for(FOLLOWS)


# Quarantine and end.


def test_an_unreadable_event_leaves_the_last_good_state_to_read(store: SlotStore) -> None:
    store.slots[3] = flipped(store.slots[3], 0)
    harness = following(store)
    good, ahead = harness.ask(position_min=2), harness.ask(position_min=3)

    answer = harness.heard(good)
    assert isinstance(answer, msg.Answer)
    assert answer.stale
    assert harness.answered_at[good] == 2
    assert isinstance(harness.error_for(ahead), Quarantined)
    assert [alarm.kind for alarm in harness.alarms] == ["quarantined"]


def test_a_quarantine_answers_those_who_waited(harness: Harness) -> None:
    waiting = harness.ask(position_min=9)
    harness.settle()
    harness.feed(msg.LoadFailed(CorruptLog("a batch is missing")))

    assert isinstance(harness.error_for(waiting), Quarantined)
    assert not harness.follower.is_ready_for(FOLLOWS)


def test_no_leader_begins_with_a_state_that_a_failed_step_has_left(harness: Harness) -> None:
    assert harness.follower.standby() is not None

    harness.feed(msg.StepFailed("an error in the middle of a batch", ""))

    assert harness.follower.standby() is None


def test_announcements_wait_for_nothing_in_a_quarantine(store: SlotStore) -> None:
    store.slots[3] = flipped(store.slots[3], 0)
    harness = Harness(Follower(SERDE), store)
    harness.feed(assigned(0, FOLLOWS))
    harness.load()
    harness.settle()
    harness.feed(assigned(1, FOLLOWS._replace(announcement=2)))
    harness.settle()

    assert harness.follower.phase is FollowerPhase.QUARANTINED
    assert not list(left_over("host", harness.follower))


def test_a_stopped_follower_answers_whoever_waited_and_is_gone(harness: Harness) -> None:
    waiting = harness.ask(position_min=9)
    harness.feed(msg.StopArrived(77, NOW_MS))

    assert isinstance(harness.error_for(waiting), NotReady)
    assert harness.gone == [msg.Gone("stopped", 77)]
    assert isinstance(harness.error_for(harness.ask()), NotReady)
    harness.feed(msg.LoadFailed(CorruptLog("late")))
    assert not harness.alarms
