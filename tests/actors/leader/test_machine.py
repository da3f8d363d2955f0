"""The rules of a leader, one at a time; the simulator mixes them."""

import pytest

from tests.models.actors.harness import (
    OTHER,
    Harness,
    SlotStore,
    added,
    claiming,
    finished,
    kinds,
    leading,
    new_leader,
)
from tests.models.events.driven_partition import CLAIM
from tierledger.actors import messages as msg
from tierledger.actors.leader.batch import EVENTS_PER_BATCH
from tierledger.actors.leader.machine import INBOX_MAX
from tierledger.events.errors import (
    CustomMetadataSizeLimitExceeded,
    Fenced,
    InvalidStateTransition,
    NotLeader,
    NotReady,
    StorageUnavailable,
)
from tierledger.simulation.checkers.slow.model import DELETE_STARTED, Update

# Claiming.


def test_nothing_is_served_before_the_session_is_durable(store: SlotStore) -> None:
    harness = new_leader(store)
    early_read, early_write = harness.ask(), harness.write(added(1))
    harness.load()
    harness.step()  # The log is empty; now the claim is on its way.
    read = harness.ask()

    assert isinstance(harness.error_for(early_read), NotReady)
    assert isinstance(harness.error_for(read), NotReady)
    assert harness.heard(early_write) is None
    assert not harness.leader.holds(CLAIM)

    harness.settle()

    assert harness.leader.holds(CLAIM)
    assert harness.position_for(early_write) == 1
    assert kinds(store.events()) == ["SessionOpened", "SegmentAdded"]


def test_a_leader_replays_the_whole_log_before_it_claims(store: SlotStore) -> None:
    first = leading(store)
    for number in range(10):
        first.write(added(number))
        first.settle()

    second = leading(store, 2, OTHER)

    assert second.leader.position == 11
    assert second.leader.state is not None
    second_read = second.ask()
    second.settle()
    assert second.answered_at[second_read] == 11


def test_a_claim_that_meets_a_former_leader_reads_on_and_claims_behind_it(
    store: SlotStore,
) -> None:
    former = leading(store)
    harness = new_leader(store, 2, OTHER)
    waiting = [harness.write(added(number), OTHER) for number in (2, 3)]
    harness.load()
    harness.step()
    harness.step()
    write = former.write(added(1))  # While the other has read to the end, and not claimed.
    former.settle()

    harness.settle()

    assert harness.leader.holds(OTHER)
    assert former.position_for(write) == 1
    assert [harness.position_for(caller) for caller in waiting] == [3, 4]
    assert kinds(store.events())[:3] == ["SessionOpened", "SegmentAdded", "SessionOpened"]


def test_a_claim_below_the_leader_epoch_in_force_is_refused_and_serves_nothing(
    store: SlotStore,
) -> None:
    claiming(store, 1, CLAIM, leader_epoch=5)
    late = claiming(store, 2, OTHER, leader_epoch=5)

    assert [gone.reason for gone in late.gone] == ["another session leads"]
    assert [alarm.kind for alarm in late.alarms] == ["Fenced"]
    assert isinstance(late.error_for(late.ask()), NotLeader)
    assert kinds(store.events()) == ["SessionOpened"]


def test_a_claim_that_the_store_refuses_leaves_the_partition_to_the_coordinator(
    store: SlotStore,
) -> None:
    harness = new_leader(store)
    waiting = harness.write(added(1))
    harness.load()
    harness.step()
    harness.refuse_append()

    assert harness.gone[0].reason == "the claim could not be stored"
    assert isinstance(harness.error_for(waiting), StorageUnavailable)


def test_a_newer_claim_reaches_a_leader_in_office_however_long_its_queue_is(
    harness: Harness,
) -> None:
    for number in range(INBOX_MAX + 1):
        harness.write(added(number % 250))
    harness.assign(2, OTHER)
    harness.settle()

    assert harness.leader.holds(OTHER)
    late = harness.write(added(251))
    harness.settle()
    assert isinstance(harness.error_for(late), Fenced)


# Order and durability.


def test_what_arrives_while_a_batch_is_in_flight_is_the_next_batch(harness: Harness) -> None:
    first = harness.write(added(1))
    others = [harness.write(added(number)) for number in (2, 3)]
    append = harness.expect_append()

    assert not harness.asked
    assert harness.heard(first) is None

    harness.feed(
        msg.AppendAnswered(append.number, harness.store.create(append.number, append.value))
    )

    assert harness.position_for(first) == 1
    assert [harness.heard(caller) for caller in others] == [None, None]
    harness.settle()
    assert [harness.position_for(caller) for caller in others] == [2, 3]
    assert len(harness.store.slots) == 3


def test_replies_come_in_the_order_of_the_calls(harness: Harness) -> None:
    callers = [harness.write(added(number)) for number in range(5)]
    callers += [harness.write(finished(99)), harness.write(added(7))]
    harness.settle()

    assert [one.reply_to for one in harness.replies] == callers


def test_a_read_during_a_flight_waits_for_an_append_that_began_after_it(
    harness: Harness,
) -> None:
    harness.write(added(1))
    read = harness.ask()
    harness.step()

    assert harness.heard(read) is None
    harness.step()
    assert harness.answered_at[read] == 1


def test_a_read_answers_only_after_the_next_slot_was_found_empty(harness: Harness) -> None:
    reads = [harness.ask(), harness.ask()]
    probe = harness.expect_probe()

    assert probe.number == 1
    assert harness.heard(reads[0]) is None
    harness.feed(msg.SlotRead(probe.number, None))
    assert harness.answered_at[reads[0]] == 0
    assert harness.heard(reads[1]) is None  # It came after the probe had begun.
    harness.settle()
    assert harness.answered_at[reads[1]] == 0


def test_a_batch_is_bounded_and_the_rest_follows(harness: Harness, store: SlotStore) -> None:
    harness.ask()
    for number in range(EVENTS_PER_BATCH + 10):
        segment = number.to_bytes(2, "big") * 8
        harness.write(added(0)._replace(segment_id=segment))
    harness.settle()

    assert len(store.slots) == 3
    assert harness.leader.position == EVENTS_PER_BATCH + 10


def test_large_custom_metadata_ends_a_batch_early(harness: Harness, store: SlotStore) -> None:
    for number in range(12):
        harness.write(added(number))
    harness.settle()
    before = len(store.slots)
    harness.ask()
    for number in range(12):
        custom = bytes(1 << 20)
        harness.write(Update(bytes([number]) * 16, DELETE_STARTED, custom_metadata=custom))
    harness.settle()

    assert len(store.slots) - before == 3
    assert max(map(len, store.slots)) < 6 * 1024 * 1024


# Replies that append nothing.


def test_a_repeat_is_answered_with_its_first_position_after_a_probe(harness: Harness) -> None:
    first = harness.write(added(1), request=b"r1")
    harness.settle()
    harness.write(added(2), request=b"r2")
    harness.settle()
    repeat = harness.write(added(1), request=b"r1")
    probe = harness.expect_probe()

    assert harness.heard(repeat) is None
    harness.feed(msg.SlotRead(probe.number, harness.store.read(probe.number)))
    assert harness.position_for(repeat) == harness.position_for(first) == 1
    assert len(harness.store.slots) == 3


def test_a_stale_leader_never_says_done(store: SlotStore) -> None:
    stale = leading(store)
    done = stale.write(added(1), request=b"r1")
    stale.settle()
    leading(store, 2, OTHER)

    repeat, read, no_op = (
        stale.write(added(1), request=b"r1"),
        stale.ask(),
        stale.write(Update(b"x" * 16, DELETE_STARTED)),
    )
    stale.settle()

    assert stale.position_for(done) == 1
    assert isinstance(stale.error_for(repeat), NotLeader)
    assert isinstance(stale.error_for(read), NotLeader)
    assert isinstance(stale.error_for(no_op), NotLeader)
    assert [gone.reason for gone in stale.gone] == ["fenced"]
    assert isinstance(stale.error_for(stale.write(added(3))), NotLeader)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (added(1)._replace(size=11), InvalidStateTransition),
        (finished(1, custom=bytes(129)), CustomMetadataSizeLimitExceeded),
    ],
)
def test_a_rejection_changes_nothing_and_is_an_alarm(
    harness: Harness, record: Update, error: type[Exception]
) -> None:
    harness.write(added(1))
    harness.settle()
    rejected = harness.write(record)
    harness.settle()

    assert isinstance(harness.error_for(rejected), error)
    assert [alarm.kind for alarm in harness.alarms] == [error.__name__]
    assert len(harness.store.slots) == 2
