"""A leader whose store fails, whose log does not verify, or that is stopped."""

from itertools import pairwise

import pytest

from tests.models.actors.harness import (
    BATCHES_PER_READ,
    CREATED,
    EXISTS,
    NOW_MS,
    OTHER,
    SERDE,
    UNKNOWN,
    Harness,
    SlotStore,
    added,
    claiming,
    kinds,
    leading,
    new_leader,
)
from tests.models.events.driven_partition import CLAIM, GENESIS, TIP
from tests.models.storage.flipped_bits import flipped
from tierledger.actors import messages as msg
from tierledger.actors.leader import machine as leader_rules
from tierledger.actors.leader.machine import CHECKPOINT_EVENTS, INBOX_MAX, Leader, LeaderPhase
from tierledger.events.errors import (
    Fenced,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    PartitionDeleted,
    Quarantined,
    StorageUnavailable,
)
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.slow.model import PartitionDelete
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.checkpoint import CheckpointStore

# Outcomes that are not what one hopes for.


def test_a_lost_reply_is_resolved_by_reading_the_slot(harness: Harness) -> None:
    write = harness.write(added(1))
    append = harness.expect_append()
    harness.store.create(append.number, append.value)
    harness.feed(msg.AppendAnswered(append.number, UNKNOWN))
    look = harness.expect_probe()

    assert look.delay_ms > 0
    assert harness.heard(write) is None
    harness.feed(msg.SlotRead(look.number, harness.store.read(look.number)))
    assert harness.position_for(write) == 1


def test_a_lost_append_is_repeated_as_it_was(harness: Harness) -> None:
    write, append = harness.write_in_doubt(added(1))
    harness.write(added(2))
    harness.step()

    assert harness.asked[0] == append
    harness.settle()
    assert harness.position_for(write) == 1


def test_ones_own_batch_in_the_slot_is_ones_own(harness: Harness, store: SlotStore) -> None:
    write = harness.write(added(1))
    append = harness.expect_append()
    store.create(append.number, append.value)
    harness.feed(msg.AppendAnswered(append.number, EXISTS))
    harness.settle()

    assert harness.position_for(write) == 1


def test_a_refused_append_leaves_nothing_and_the_next_may_succeed(harness: Harness) -> None:
    first = harness.write(added(1))
    harness.refuse_append()
    second = harness.write(added(2))
    harness.settle()

    assert isinstance(harness.error_for(first), StorageUnavailable)
    assert harness.position_for(second) == 1
    assert harness.leader.state is not None


def test_a_claim_that_the_store_refused_is_tried_again(harness: Harness) -> None:
    """Nobody would repeat it: brokers announce a claim once, and it is placed once."""
    harness.assign(2, OTHER)
    write = harness.write(added(1))
    harness.refuse_append()

    look = harness.expect_probe()
    assert look.delay_ms > 0
    assert not harness.leader.holds(OTHER)
    harness.feed(msg.SlotRead(look.number, harness.store.read(look.number)))
    harness.settle()
    assert harness.leader.holds(OTHER)
    assert isinstance(harness.error_for(write), Fenced)


def test_claims_of_one_batch_that_the_store_refused_keep_their_order(harness: Harness) -> None:
    harness.write(added(1))
    harness.assign(2, OTHER)
    harness.assign(3, OTHER._replace(announcement=2))
    harness.step()  # The write; behind it both claims are one batch.
    harness.refuse_append()
    harness.settle()

    assert harness.leader.holds(OTHER._replace(announcement=2))
    assert harness.refused == []


def test_a_refusal_after_a_lost_reply_is_not_taken_for_an_answer(harness: Harness) -> None:
    first, append = harness.write_in_doubt(added(1))
    harness.step()
    harness.refuse_append()

    assert harness.heard(first) is None
    harness.store.create(append.number, append.value)  # The first attempt arrives after all.
    harness.settle()
    assert harness.position_for(first) == 1


def test_a_look_at_the_slot_is_repeated_until_the_store_answers(harness: Harness) -> None:
    write, _ = harness.write_in_doubt(added(1))
    for _ in range(3):
        look = harness.expect_probe()
        harness.feed(msg.ProbeFailed(look.number, StorageUnavailable("away")))
    harness.settle()

    assert harness.position_for(write) == 1


def test_a_failed_probe_answers_nobody_with_a_guess(harness: Harness) -> None:
    read = harness.ask()
    harness.expect_probe()
    harness.feed(msg.ProbeFailed(1, StorageUnavailable("away")))

    assert isinstance(harness.error_for(read), StorageUnavailable)
    assert harness.leader.phase is LeaderPhase.LEADING


@pytest.mark.parametrize(
    "late",
    [
        msg.AppendAnswered(0, CREATED),
        msg.AppendRefused(0, StorageUnavailable("late")),
        msg.SlotRead(0, b"other"),
        msg.ProbeFailed(0, StorageUnavailable("late")),
        msg.LogRead(0, ()),
        msg.QueryExpired(7),
        msg.HintArrived(9),
    ],
    ids=lambda late: type(late).__name__,
)
def test_a_late_answer_changes_nothing(harness: Harness, late: msg.Stimulus) -> None:
    write = harness.write(added(1))
    harness.feed(late)

    assert harness.heard(write) is None
    harness.settle()
    assert harness.position_for(write) == 1


# Bounds.


def test_a_full_inbox_is_said_at_once(harness: Harness) -> None:
    harness.write(added(0))
    for _ in range(INBOX_MAX):
        harness.write(added(1))
        harness.ask()
    write, read = harness.write(added(2)), harness.ask()

    assert isinstance(harness.error_for(write), Overloaded)
    assert isinstance(harness.error_for(read), Overloaded)


def test_an_expired_read_is_forgotten(harness: Harness) -> None:
    harness.write(added(1))
    read = harness.ask()
    harness.feed(msg.QueryExpired(read))
    harness.settle()

    assert harness.heard(read) is None


# Quarantine.


def test_an_unreadable_event_leaves_the_last_good_state_to_read(store: SlotStore) -> None:
    first = leading(store)
    for number in (1, 2):
        first.write(added(number))
        first.settle()
    store.slots[2] = flipped(store.slots[2])
    harness = new_leader(store, 2, OTHER)
    waiting = harness.write(added(3), OTHER)
    harness.load()
    harness.settle()
    read, write = harness.ask(position_min=1), harness.write(added(4), OTHER)
    ahead = harness.ask(position_min=2)

    answer = harness.heard(read)
    assert isinstance(answer, msg.Answer)
    assert answer.stale
    assert harness.answered_at[read] == 1
    # Who has seen more than there is left is not led back.
    assert isinstance(harness.error_for(ahead), Quarantined)
    assert isinstance(harness.error_for(waiting), Quarantined)
    assert isinstance(harness.error_for(write), Quarantined)
    assert [alarm.kind for alarm in harness.alarms] == ["quarantined"]
    assert not harness.gone


def test_a_batch_that_rots_before_it_is_seen_again_leaves_its_writers_in_doubt(
    harness: Harness,
) -> None:
    write, read = harness.write(added(1)), harness.ask()
    append = harness.expect_append()
    harness.store.create(append.number, flipped(append.value))
    harness.feed(msg.AppendAnswered(append.number, UNKNOWN))
    late = harness.write(added(2))
    harness.settle()

    assert isinstance(harness.error_for(write), OutcomeUnknown)
    assert isinstance(harness.error_for(late), Quarantined)
    assert harness.heard(read) is not None
    assert [alarm.kind for alarm in harness.alarms] == ["quarantined"]
    assert not harness.gone


def test_a_leader_that_is_to_stop_is_gone_though_its_last_batch_rots(harness: Harness) -> None:
    write = harness.write(added(1))
    append = harness.expect_append()
    harness.stop()
    assert not harness.gone, "its writer waits for the outcome"
    harness.store.create(append.number, flipped(append.value))
    harness.feed(msg.AppendAnswered(append.number, UNKNOWN))
    harness.settle()

    assert isinstance(harness.error_for(write), OutcomeUnknown)
    assert [gone.reason for gone in harness.gone] == [msg.STOPPED]


@pytest.mark.parametrize("is_certain", [True, False])
def test_a_batch_whose_slot_is_forgotten_was_written_by_nobody_or_nobody_knows(
    harness: Harness, is_certain: bool
) -> None:
    write = harness.write(added(1))
    append = harness.expect_append()
    if not is_certain:
        harness.feed(msg.AppendAnswered(append.number, UNKNOWN))
        assert harness.expect_probe().number == append.number
    harness.feed(msg.AppendAnswered(append.number, msg.AppendOutcome.PASSED))

    assert isinstance(harness.error_for(write), NotLeader if is_certain else OutcomeUnknown)
    assert [gone.reason for gone in harness.gone] == ["fenced"]


def test_a_leader_that_slept_through_forgetting_answers_no_read(harness: Harness) -> None:
    read = harness.ask()
    probe = harness.expect_probe()
    harness.feed(msg.SlotRead(probe.number, None, is_passed=True))

    assert isinstance(harness.error_for(read), NotLeader)
    assert [gone.reason for gone in harness.gone] == ["fenced"]


def test_a_leader_whose_next_slot_holds_a_boundary_is_overtaken(harness: Harness) -> None:
    state, next_batch = harness.leader.state, harness.leader.next_batch
    assert state is not None
    checkpoints = CheckpointStore(MemoryBackend(), DefaultMetadataKeyFactory("c"), SERDE, TIP)
    harness.store.slots.append(checkpoints.plan(state, next_batch + 1, None).partition_value)

    write = harness.write(added(1))
    harness.settle()

    assert isinstance(harness.error_for(write), NotLeader)
    assert [gone.reason for gone in harness.gone] == ["fenced"]
    assert harness.alarms == []


def test_a_log_that_cannot_be_read_at_all_answers_nothing(store: SlotStore) -> None:
    harness = new_leader(store)
    harness.feed(msg.LoadFailed(Quarantined("broken")))

    assert isinstance(harness.error_for(harness.ask()), Quarantined)
    assert isinstance(harness.error_for(harness.write(added(1))), Quarantined)


# A partition whose deletion is finished.


def finish_partition(harness: Harness) -> None:
    for state in range(3):
        harness.write(PartitionDelete(state))
        harness.settle()


def test_a_finished_deletion_is_served_without_a_session(store: SlotStore) -> None:
    finish_partition(leading(store))
    before = len(store.slots)
    harness = claiming(store, 2, OTHER)
    read, write = harness.ask(), harness.write(added(1), OTHER)
    harness.settle()

    assert not harness.gone
    assert isinstance(harness.heard(read), msg.Answer)  # From which a host says "deleted".
    assert harness.leader.state is not None
    assert isinstance(harness.error_for(write), PartitionDeleted | Fenced)
    assert len(store.slots) == before


# Checkpoints.


def fill(harness: Harness, count: int, first: int = 0) -> None:
    """So many segments added, a hundred at a time; what is asked of checkpoints waits."""
    for number in range(first, first + count):
        harness.write(added(0)._replace(segment_id=number.to_bytes(16, "big")))
        if number % 100 == 99:
            while harness.asked and not isinstance(harness.asked[0], msg.WriteCheckpoint):
                harness.step()
            harness.asked.rotate(-1)


def test_a_checkpoint_is_due_after_so_many_events_and_one_at_a_time(harness: Harness) -> None:
    harness.ask()
    fill(harness, 2 * CHECKPOINT_EVENTS)
    plans = [one for one in harness.asked if isinstance(one, msg.WriteCheckpoint)]

    assert len(plans) == 1
    assert plans[0].next_batch <= len(harness.store.slots)


def test_a_leader_that_stops_asks_for_no_other_checkpoint_than_the_one_refused(
    harness: Harness,
) -> None:
    harness.stop(is_released=False)
    assert isinstance(harness.asked[0], msg.WriteCheckpoint)
    harness.asked.clear()
    harness.feed(msg.CheckpointDone(stored=False))

    assert [gone.reason for gone in harness.gone] == ["stopped"]
    assert not harness.asked


def test_no_refusal_of_a_checkpoint_is_final(harness: Harness) -> None:
    fill(harness, CHECKPOINT_EVENTS)
    assert [type(one) for one in harness.asked] == [msg.WriteCheckpoint]
    harness.asked.clear()
    harness.feed(msg.CheckpointDone(stored=False))
    assert not harness.asked, "the next is due after as many events as ever"

    fill(harness, CHECKPOINT_EVENTS, first=CHECKPOINT_EVENTS)
    assert [type(one) for one in harness.asked] == [msg.WriteCheckpoint]


def test_a_checkpoint_that_an_older_one_came_before_is_written_again(harness: Harness) -> None:
    harness.stop(is_released=False)
    harness.asked.clear()
    harness.feed(msg.CheckpointDone(stored=False, again=True))

    assert harness.asked.popleft() == msg.WriteCheckpoint(len(harness.store.slots))
    assert not harness.gone
    harness.feed(msg.CheckpointDone(stored=True))
    assert [gone.reason for gone in harness.gone] == ["stopped"]


def test_a_long_log_is_read_no_further_than_one_checkpoint_ahead(
    store: SlotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    events_max = 4 * BATCHES_PER_READ
    monkeypatch.setattr(leader_rules, "LOADED_EVENTS", events_max)
    harness = leading(store)
    for number in range(1, 60):
        harness.write(added(number))
        harness.settle()
    loading = new_leader(store, 2, OTHER)
    loading.load()
    written = [0]
    while not isinstance(loading.asked[0], msg.Append):
        effect = loading.asked[0]
        if isinstance(effect, msg.WriteCheckpoint) and len(loading.asked) > 1:
            loading.asked.rotate(-1)  # The store takes as long over it as it may.
            continue
        if isinstance(effect, msg.WriteCheckpoint):
            written.append(effect.next_batch)
        loading.step()

    assert len(written) > 3
    assert max(after - before for before, after in pairwise(written)) <= events_max
    assert loading.leader.next_batch - written[-1] <= 2 * events_max


# Stopping.


def test_a_release_drains_then_closes_the_session_then_checkpoints(harness: Harness) -> None:
    writes = [harness.write(added(number)) for number in (1, 2)]
    harness.stop()
    refused = harness.write(added(3))
    harness.settle()

    assert [harness.position_for(write) for write in writes] == [1, 2]
    assert isinstance(harness.error_for(refused), NotLeader)
    assert kinds(harness.store.events())[-1] == "SessionClosed"
    assert [gone.reason for gone in harness.gone] == ["stopped"]


def test_a_host_that_closes_leaves_the_session_open_for_the_next_host(harness: Harness) -> None:
    waiting = harness.stop(is_released=False, waits=True)
    harness.settle()

    assert kinds(harness.store.events()) == ["SessionOpened"]
    assert harness.gone == [msg.Gone("stopped", waiting)]
    again = leading(harness.store, 2)
    assert again.leader.holds(CLAIM)


def test_a_new_claim_calls_a_partition_back_that_is_being_released(harness: Harness) -> None:
    harness.stop()
    newer = CLAIM._replace(announcement=2)
    harness.assign(2, newer)
    harness.settle()

    assert not harness.gone
    assert harness.leader.holds(newer)


def test_a_release_whose_last_event_the_store_refuses_ends_all_the_same(
    harness: Harness,
) -> None:
    harness.stop()
    harness.refuse_append()

    assert [gone.reason for gone in harness.gone] == ["stopped"]
    assert not harness.asked


def test_a_leader_that_is_stopped_while_it_loads_is_gone_at_once(store: SlotStore) -> None:
    harness = new_leader(store)
    write = harness.write(added(1))
    harness.stop()
    harness.feed(msg.StateLoaded(PartitionState(TIP, GENESIS), 0))
    harness.settle()

    assert isinstance(harness.error_for(write), NotLeader)
    assert harness.gone
    assert not store.slots


def test_an_import_opens_its_session_at_the_recorded_time(store: SlotStore) -> None:
    given = msg.Assignment(1, CLAIM, None, TIP.topic, "recorded", 12_345)
    harness = Harness(Leader(SERDE, Limits(), msg.Assigned(given, None, NOW_MS)), store)
    harness.load()
    harness.settle()

    assert [event.log_time_ms for event in store.events()] == [12_345]
