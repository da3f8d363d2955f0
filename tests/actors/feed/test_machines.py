"""Leaders and followers feed what is durable, when it is, and nothing else."""

from __future__ import annotations

import pytest

from tests.models.actors.fed_replicas import Connected
from tests.models.actors.harness import (
    SERDE,
    UNKNOWN,
    Harness,
    SlotStore,
    added,
    following,
    leading,
    new_leader,
)
from tests.models.events.driven_partition import CLAIM, TIP
from tierledger.actors import messages as msg
from tierledger.actors.calls import PartitionKey
from tierledger.actors.feed import source
from tierledger.actors.follower import Follower
from tierledger.actors.leader.machine import Leader
from tierledger.events import log_events as log
from tierledger.events.errors import StorageUnavailable
from tierledger.storage.partition.event_log import StoredBatch, encode_batch

KEY = PartitionKey.of(TIP)


def fed_by(harness: Harness) -> Connected:
    return Connected(harness.machine.open_feed(), KEY, CLAIM)


def load_anew(harness: Harness, other: Harness) -> None:
    """The rows of `other` equal those that `harness` reads again."""
    assert other.machine.state is not None
    harness.feed(msg.StateLoaded(other.machine.state, other.machine.next_batch))


def add(harness: Harness, number: int) -> None:
    harness.write(added(number))
    harness.settle()


def test_a_change_is_given_once_it_is_durable() -> None:
    harness = leading(SlotStore())
    one = fed_by(harness)
    start = one.catch_up().position

    harness.write(added(1))
    append = harness.expect_append()
    assert one.catch_up().position == start
    harness.feed(msg.AppendAnswered(append.number, UNKNOWN))
    assert one.catch_up().position == start, "it may be stored, and may not"
    harness.expect_probe()
    harness.feed(msg.SlotRead(append.number, append.value))

    assert one.catch_up().position == start + 1
    assert len(one.replica.list_all()) == 1


def test_a_source_knows_how_far_the_slowest_is_behind_and_how_often_one_was_too_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = leading(SlotStore())
    fast, slow = fed_by(harness), fed_by(harness)
    feed = fast.source
    fast.catch_up()
    slow.catch_up()
    assert (feed.lag(), feed.overtaken) == (0, 0)

    for number in range(3):
        add(harness, number)
        fast.catch_up()
    assert feed.lag() == 3
    monkeypatch.setattr(source, "RING_BYTES", 1)
    add(harness, 3)
    assert feed.lag() == 4
    slow.catch_up()

    assert (feed.lag(), feed.overtaken, slow.snapshots) == (1, 1, 2)


def test_a_refused_append_is_never_given() -> None:
    harness = leading(SlotStore())
    one = fed_by(harness)
    start = one.catch_up().position

    harness.write(added(1))
    append = harness.expect_append()
    harness.feed(msg.AppendRefused(append.number, StorageUnavailable("full")))
    harness.settle()

    assert one.catch_up().position == start
    add(harness, 2)
    assert len(one.catch_up().list_all()) == 1


def test_a_follower_feeds_batch_by_batch_what_it_reads() -> None:
    store = SlotStore()
    leader = leading(store)
    add(leader, 1)
    follower = following(store)
    mine, theirs = fed_by(follower), fed_by(leader)
    mine.catch_up()
    theirs.catch_up()
    for number in range(2, 6):
        add(leader, number)
    assert mine.catch_up().position < theirs.catch_up().position
    claim = msg.Assigned(msg.Assignment(2, CLAIM, None, TIP.topic), None, 0)
    follower.feed(claim)
    assert not mine.catch_up().is_ready, "it has looked for the end of the log too early"
    follower.settle()

    replica = mine.catch_up()

    assert mine.snapshots == 1
    assert replica.position == theirs.catch_up().position
    assert sorted(replica.list_all()) == sorted(theirs.replica.list_all())
    assert replica.is_ready


def test_a_replica_moves_from_a_leader_to_a_follower_and_on_to_the_next_leader() -> None:
    store = SlotStore()
    first = leading(store)
    add(first, 1)
    replica = fed_by(first)
    replica.catch_up()
    follower = following(store)
    follower_feed = follower.machine.open_feed()
    add(first, 2)
    replica.catch_up()

    replica.disconnect()
    replica.source = follower_feed
    before = replica.replica.position
    assert replica.catch_up().position == before, "the follower is behind: it says nothing"
    follower.feed(msg.HintArrived(before))
    follower.settle()
    add(first, 3)
    follower.feed(msg.HintArrived(before + 1))
    follower.settle()
    assert replica.catch_up().position == before + 1

    second = leading(store, 2)
    replica.disconnect()
    replica.source = second.machine.open_feed()
    assert replica.catch_up().position == second.machine.position
    assert len(replica.replica.list_all()) == 3
    assert replica.refusals == []


def test_a_feed_may_be_asked_for_before_anything_is_loaded() -> None:
    harness = new_leader(SlotStore())
    one = fed_by(harness)
    assert not one.catch_up().is_whole

    harness.load()
    harness.settle()

    assert one.catch_up().is_ready


def test_a_state_that_is_loaded_anew_goes_on_from_what_replicas_have() -> None:
    store = SlotStore()
    leader, follower = leading(store), following(store)
    add(leader, 1)
    one = fed_by(follower)
    follower.feed(msg.HintArrived(leader.machine.position))
    follower.settle()
    one.catch_up()

    load_anew(follower, following(store))
    follower.settle()
    one.catch_up()
    assert one.snapshots == 1
    add(leader, 2)
    load_anew(follower, following(store))
    follower.settle()

    assert one.catch_up().position == leader.machine.position
    assert one.snapshots == 2, "what lies between is in no ring"
    assert one.refusals == []


def test_a_state_loaded_anew_that_is_behind_says_nothing_before_it_has_caught_up() -> None:
    store = SlotStore()
    leader = leading(store)
    older = following(store)
    add(leader, 1)
    follower = following(store)
    one = fed_by(follower)
    before = one.catch_up().position
    assert older.machine.position < before

    load_anew(follower, older)
    assert one.catch_up().position == before
    follower.settle()
    add(leader, 2)
    follower.feed(msg.HintArrived(before + 1))
    follower.settle()

    assert one.catch_up().position == before + 1
    assert one.refusals == []


def test_a_state_loaded_anew_ends_a_snapshot_that_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "FRAME_ROWS", 1)
    store = SlotStore()
    leader = leading(store)
    for number in range(1, 5):
        add(leader, number)
    follower = following(store)
    one = fed_by(follower)
    one.take(2)

    load_anew(follower, following(store))
    follower.settle()

    assert one.catch_up().is_whole
    assert len(one.replica._rows.list_all()) == 4
    assert one.snapshots == 2
    assert one.refusals == []


def test_half_a_batch_is_nobodys_to_read() -> None:
    store = SlotStore()
    leader, follower = leading(store), following(store)
    one = fed_by(follower)
    before = one.catch_up().position
    state = leader.machine.state
    assert state is not None
    origin = (state.next_position, 1, 0, 1, None)
    known = log.Event(
        *origin, log.SegmentAdded(bytes(16), 0, 9, (0, 0), 1, 0, 1, 0, None, False)
    )
    unknown = log.Event(
        state.next_position + 1, 1, 0, 1, None, log.SegmentUpdated(b"u" * 16, 1, 1, 0, None)
    )
    value = encode_batch(SERDE, [known, unknown], state.chain_hash).value

    follower.feed(msg.HintArrived(before + 2))
    follower.asked.clear()
    batch = StoredBatch(follower.machine.next_batch, value)
    follower.feed(msg.LogRead(batch.number, (batch,), is_end=True))

    assert [one.kind for one in follower.alarms] == ["quarantined"]
    assert one.catch_up().position == before
    late = fed_by(follower)
    assert not late.catch_up().is_whole


def test_a_machine_that_failed_gives_nothing_further() -> None:
    harness = leading(SlotStore())
    one = fed_by(harness)
    one.catch_up()

    harness.machine.state = None
    harness.feed(msg.StepFailed("it broke", ""))

    assert not one.take(16)
    harness.machine.close_feed()


def test_a_feed_that_was_closed_costs_nothing() -> None:
    for harness in (leading(SlotStore()), following(SlotStore())):
        machine = harness.machine
        assert isinstance(machine, Leader | Follower)
        assert machine.open_feed() is machine.open_feed()
        assert machine.state is not None
        assert machine.state.touched == {}

        machine.close_feed()
        machine.close_feed()

        assert machine.state.touched is None


def test_a_leader_that_was_fenced_says_so() -> None:
    store = SlotStore()
    first = leading(store)
    one = fed_by(first)
    assert one.catch_up().is_ready

    rival = CLAIM._replace(broker_id=2)
    first.assign(2, rival, leader_epoch=5)
    first.settle()
    while first.questions:
        first.oracle_says(None)
        first.settle()

    assert isinstance(first.machine, Leader)
    assert first.machine.holds(rival)
    assert not one.catch_up().is_ready
