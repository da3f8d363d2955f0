"""Replicas against the slow model on histories made up here, and what they refuse."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.actors.fed_replicas import Connected, FedPartition, assert_replica_answers
from tests.models.events.driven_partition import CLAIM, TIP, import_of, open_session
from tests.models.events.histories import EPOCHS_PROBED, OFFSETS_PROBED, Step, histories
from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.feed import source
from tierledger.actors.feed.frames import (
    Change,
    Contents,
    EpochNumbers,
    FeedFenced,
    FeedReady,
    Frame,
    OtherHistory,
    Slice,
    SnapshotBegun,
    Strays,
    Subscription,
)
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.events import commands as cmd
from tierledger.events.errors import NotReady, Overloaded, PartitionDeleted
from tierledger.events.log_events import Event, SegmentUpdated
from tierledger.events.partition.evolve import evolve
from tierledger.events.tables.segment_rows import SIZE, pack_row, unpack_row
from tierledger.events.typed_fields import checked
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    PARTITION_DELETE_FINISHED,
    Add,
    PartitionDelete,
    Record,
    SlowPartition,
    Update,
)

KEY = PartitionKey.of(TIP)
RIVAL = cmd.Claim(broker_id=2, incarnation=1, announcement=1)
SEGMENTS = 20


def segment_id(at: int) -> bytes:
    return bytes([at * 37 % 251]) * 16


def finished(at: int) -> list[Record]:
    """A copied segment, the one after that of `at - 1`."""
    start = at * 10
    added = Add(segment_id(at), start, start + 9, {0: start}, size=at + 1)
    return [added, Update(added.segment_id, COPY_FINISHED)]


def fed(segments: int = SEGMENTS) -> FedPartition:
    partition = FedPartition(TIP, CLAIM)
    go_on(partition, [record for at in range(segments) for record in finished(at)])
    return partition


def go_on(partition: FedPartition, records: list[Record]) -> None:
    """Import `records` as one batch."""
    first = partition.state.imported_offset("recorded-cluster", 7) + 1
    partition.accept(import_of(records, first))


def connected(partition: FedPartition) -> Connected:
    return Connected(partition.feed, KEY, CLAIM)


def sent(partition: FedPartition, subscription: Subscription | None = None) -> list[Frame]:
    """All frames for a new subscriber."""
    number = partition.feed.subscribe(subscription or Subscription(KEY, LEADER, claim=CLAIM))
    return partition.feed.take(number, 10_000)


def whole(frames: list[Frame]) -> Replica:
    """A replica that took `frames` without a refusal."""
    replica = Replica(KEY, LEADER)
    replica.expect(CLAIM)
    assert [one for one in map(replica.take, frames) if one is not None] == []
    assert replica.is_whole
    return replica


@pytest.fixture
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FRAME_ROWS", 3)


@given(
    history=histories(),
    seed=st.integers(0, 2**32),
    batch_max=st.integers(1, 30),
    frame_rows=st.sampled_from([1, 2, 1000]),
    ring_bytes=st.sampled_from([1, 3000, 1_000_000]),
)
def test_replicas_answer_as_the_model_does_whatever_happens_to_them(
    history: Step, seed: int, batch_max: int, frame_rows: int, ring_bytes: int
) -> None:
    random, model, partition = Random(seed), SlowPartition(), FedPartition(TIP, CLAIM)
    replicas = [connected(partition) for _ in range(3)]
    rest = list(history)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(source, "FRAME_ROWS", frame_rows)
        patches.setattr(source, "RING_BYTES", ring_bytes)
        while rest:
            count = random.randrange(1, batch_max + 1)
            batch, rest = rest[:count], rest[count:]
            go_on(partition, batch)
            for record in batch:
                model.apply(record)
            for one in replicas:
                one.mishap(random)
            prompt = random.choice(replicas)
            replica = prompt.catch_up()
            assert replica.position == partition.state.next_position - 1
            if partition.state.is_finished:
                with pytest.raises(PartitionDeleted):
                    replica.list_all()
                break
            assert_replica_answers(replica, model, EPOCHS_PROBED, OFFSETS_PROBED[::4])
        for one in replicas:
            one.catch_up()
            assert one.refusals == []
            if not partition.state.is_finished:
                assert_replica_answers(one.replica, model, EPOCHS_PROBED, OFFSETS_PROBED)


def test_a_snapshot_and_its_changes_are_well_formed_and_bounded(small_frames: None) -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER, claim=CLAIM))
    frames = partition.feed.take(number, 1)
    go_on(
        partition, [record for at in range(SEGMENTS, 2 * SEGMENTS) for record in finished(at)]
    )
    go_on(partition, [Update(segment_id(3), DELETE_STARTED)])

    frames += partition.feed.take(number, 10_000)

    for frame in frames:
        checked(type(frame), frame, "frame")
    parts = [frame.contents for frame in frames if isinstance(frame, Slice | Change)]
    assert max(len(part.rows) for part in parts) == 3
    kinds = [type(frame) for frame in frames]
    assert kinds[:5] == [SnapshotBegun, Slice, Change, Slice, Change], (
        "none waits for the other"
    )
    assert kinds[-1] is FeedReady
    assert len(whole(frames).list_all()) == 2 * SEGMENTS


def test_a_change_wins_over_the_slices_that_follow_it(small_frames: None) -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER, claim=CLAIM))
    frames = partition.feed.take(number, 1)
    everything = range(SEGMENTS)
    go_on(partition, [Update(segment_id(at), DELETE_STARTED) for at in everything])
    go_on(partition, [Update(segment_id(at), DELETE_FINISHED) for at in everything])

    frames += partition.feed.take(number, 10_000)

    replica = whole(frames)
    assert replica.list_all() == []
    assert replica.remote_log_size(0) == 0
    assert replica.highest_offset_for_epoch(0) == SEGMENTS * 10 - 1


def test_strays_come_with_changes_and_go_with_their_row() -> None:
    """A copy begun over with other epochs stays in the lists of the old ones, as in Kafka."""
    partition = fed(1)
    one = connected(partition)
    one.catch_up()
    [begun] = [Add(segment_id(9), 50, 59, {1: 50}, size=7)]
    go_on(partition, [begun])
    go_on(partition, [begun._replace(epochs={2: 50})])

    replica = one.catch_up()
    assert [len(replica.list_epoch(epoch)) for epoch in (1, 2)] == [1, 1]
    assert [replica.remote_log_size(epoch) for epoch in (1, 2)] == [7, 7]
    late = connected(partition).catch_up()
    assert late.list_epoch(1) == replica.list_epoch(1)

    go_on(partition, [Update(segment_id(9), DELETE_STARTED)])
    go_on(partition, [Update(segment_id(9), DELETE_FINISHED)])
    one.catch_up()
    assert [replica.list_epoch(epoch) for epoch in (1, 2)] == [[], []]
    assert [replica.remote_log_size(epoch) for epoch in (1, 2)] == [0, 0]
    assert one.refusals == []


def test_what_is_touched_is_told_as_it_was_before_all_of_it() -> None:
    partition = fed(1)
    state = partition.state
    before = state.rows.get(segment_id(0))
    state.settle()
    state.touched = {}

    for position, target in enumerate((DELETE_STARTED, DELETE_FINISHED), state.next_position):
        body = SegmentUpdated(segment_id(0), target, 1, 0, None)
        evolve(state, Event(position, 1, 0, 1, None, body))
        state.settle()

    assert state.touched == {segment_id(0): before}


def test_who_comes_back_goes_on_from_where_it_was() -> None:
    partition = fed()
    one = connected(partition)
    one.catch_up()
    one.disconnect()
    go_on(partition, finished(SEGMENTS))

    replica = one.catch_up()

    assert one.snapshots == 1
    assert len(replica.list_all()) == SEGMENTS + 1


def test_who_was_away_for_too_long_gets_a_new_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "RING_BYTES", 1)
    partition = fed()
    gone, slow = connected(partition), connected(partition)
    gone.catch_up()
    slow.catch_up()
    gone.disconnect()
    for at in range(SEGMENTS, SEGMENTS + 3):
        go_on(partition, finished(at))

    assert len(gone.catch_up().list_all()) == SEGMENTS + 3
    assert len(slow.catch_up().list_all()) == SEGMENTS + 3
    assert (gone.snapshots, slow.snapshots) == (2, 2)
    assert gone.refusals == slow.refusals == []


def test_what_was_given_up_is_let_go_of_bit_by_bit(small_frames: None) -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER))
    partition.feed.take(number, 3)
    frozen = partition.feed._subscribers[number].frozen
    assert frozen is not None
    before = len(frozen)
    assert 0 < before <= SEGMENTS

    partition.feed.drop(number)
    assert len(frozen) == before
    for _ in range(257):
        go_on(partition, [Update(segment_id(1), COPY_FINISHED)])
    assert len(frozen) == 0
    assert partition.feed._given_up == []
    assert len(whole(sent(partition)).list_all()) == SEGMENTS


def test_the_ring_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "RING_BYTES", 5000)
    partition = fed()

    for at in range(SEGMENTS, 3 * SEGMENTS):
        go_on(partition, finished(at))

    assert 1 < len(partition.feed._ring) < 20
    assert partition.feed._ring_bytes == sum(entry.size for entry in partition.feed._ring)
    assert partition.feed._ring_bytes <= 5000


def test_a_source_that_is_behind_says_nothing() -> None:
    ahead, behind = fed(SEGMENTS), fed(SEGMENTS - 1)
    one = connected(ahead)
    replica = one.catch_up()
    number = behind.feed.subscribe(replica.subscription())

    assert behind.feed.take(number) == []
    assert sent(behind, replica.subscription()._replace(position=-1)) == []

    go_on(behind, finished(SEGMENTS - 1))
    go_on(behind, finished(SEGMENTS))
    for frame in behind.feed.take(number):
        assert replica.take(frame) is None
    assert replica.position == behind.state.next_position - 1


def test_another_history_is_refused() -> None:
    partition, other = fed(), FedPartition(TIP, CLAIM)
    renamed = [
        Add(segment_id(99), 0, 9, {0: 0}),
        *(r for at in range(1, 20) for r in finished(at)),
    ]
    go_on(other, [*renamed, Update(segment_id(99), COPY_FINISHED)])
    replica = connected(partition).catch_up()
    assert other.state.next_position == partition.state.next_position

    frames = sent(other, replica.subscription())

    assert frames == [OtherHistory(replica.position)]
    refusal = replica.take(frames[0])
    assert refusal is not None
    assert refusal.is_dropped


def test_what_the_ring_does_not_know_is_looked_for_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "RING_BYTES", 1)
    partition = fed()
    one, restored = connected(partition), connected(partition)
    for replica in (one, restored):
        replica.catch_up()
        replica.disconnect()
    held = partition.state.next_position - 1, partition.state.chain_hash
    for at in range(SEGMENTS, SEGMENTS + 2):
        go_on(partition, finished(at))
    restored.is_of_the_log = False

    assert sent(partition, one.replica.subscription()) == [], "nobody has looked yet"
    assert len(one.catch_up().list_all()) == SEGMENTS + 2
    assert one.looked_for == [held]
    restored.take(16)
    assert not restored.replica.is_whole
    assert (restored.looked_for, restored.snapshots) == ([held], 1)
    assert "differs" in restored.refusals[0].reason


def test_who_remembers_where_it_was_gets_all_rows_if_the_log_holds_that() -> None:
    partition = fed()
    position, chain_hash = partition.state.next_position - 1, partition.state.chain_hash
    remembering = Subscription(
        KEY, LEADER, position, chain_hash, claim=CLAIM, without_rows=True
    )

    assert len(whole(sent(partition, remembering)).list_all()) == SEGMENTS
    other = remembering._replace(chain_hash=b"another")
    assert sent(partition, other) == [OtherHistory(position)]
    ahead = remembering._replace(position=position + 1)
    number = partition.feed.subscribe(ahead)
    assert partition.feed.take(number) == []
    partition.feed.proven(number, (position + 1, chain_hash), is_held=False)
    assert partition.feed.take(number) == [OtherHistory(position + 1)]
    assert partition.feed.take(number) == [], "it is reported once"


def test_too_many_subscribers_are_told_so() -> None:
    partition = fed(0)
    for _ in range(source.SUBSCRIBERS_MAX):
        partition.feed.subscribe(Subscription(KEY, LEADER))

    with pytest.raises(Overloaded):
        partition.feed.subscribe(Subscription(KEY, LEADER))


# Readiness.


def test_nothing_is_absent_before_the_replica_is_ready() -> None:
    partition = fed()
    frames = sent(partition)
    assert isinstance(frames[-1], FeedReady)
    replica = whole(frames[:-1])

    assert replica.lookup(0, 5) is not None
    for ask in (
        lambda: replica.lookup(0, 10**6),
        lambda: replica.next_segment_with_txn_index(0, 10**6),
        lambda: replica.highest_offset_for_epoch(0),
        lambda: replica.remote_log_size(0),
        lambda: replica.list_epoch(0),
        replica.list_all,
    ):
        with pytest.raises(NotReady):
            ask()

    replica.take(frames[-1])
    assert replica.lookup(0, 10**6) is None
    assert replica.remote_log_size(0) > 0


def test_half_a_snapshot_answers_nothing(small_frames: None) -> None:
    replica = Replica(KEY, LEADER)
    replica.expect(CLAIM)
    for frame in sent(fed())[:4]:
        replica.take(frame)

    with pytest.raises(NotReady):
        replica.lookup(0, 5)


def test_ready_is_of_one_claim_and_fenced_ends_it() -> None:
    partition = fed()
    one = connected(partition)
    assert one.catch_up().is_ready

    partition.claim(open_session(RIVAL, 2, imports=True))
    assert not one.catch_up().is_ready

    replica = one.replica
    replica.expect(RIVAL)
    one.disconnect()
    assert one.catch_up().is_ready
    replica.expect(CLAIM)
    assert not replica.is_ready
    replica.take(FeedFenced(RIVAL))
    replica.take(FeedReady(RIVAL, replica.position))
    assert not replica.is_ready


@pytest.mark.parametrize("taken", [2, 10_000])  # Within the snapshot, or ready already.
def test_a_claim_that_was_lost_and_stands_again_is_ready_once_all_between_is_here(
    taken: int, small_frames: None
) -> None:
    partition = fed()
    one = connected(partition)
    one.take(taken)

    for assignment in range(2, 60):
        claim = CLAIM if assignment % 2 else RIVAL
        partition.claim(open_session(claim, assignment, imports=True))

    last = partition.state.next_position - 1
    while one.take(1):
        assert one.replica.position == last or not one.replica.is_ready
    assert one.replica.is_ready


def test_a_broken_connection_leaves_a_replica_ready() -> None:
    one = connected(fed())
    one.catch_up()
    one.disconnect()

    assert one.replica.is_ready


def test_a_claim_on_a_live_subscription_is_heard_of() -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER))
    assert FeedReady not in map(type, partition.feed.take(number, 100))

    partition.feed.expect(number, CLAIM)

    position = partition.state.next_position - 1
    assert partition.feed.take(number) == [FeedReady(CLAIM, position)]
    assert partition.feed.take(number) == []


def test_a_deleted_partition_is_told_even_in_the_middle_of_a_snapshot(
    small_frames: None,
) -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER, claim=CLAIM))
    frames = partition.feed.take(number, 4)
    go_on(partition, [PartitionDelete(state) for state in range(PARTITION_DELETE_FINISHED + 1)])

    replica = whole([*frames, *partition.feed.take(number, 10_000)])

    with pytest.raises(PartitionDeleted):
        replica.lookup(0, 5)


# What must be noticed.


def damaged(frame: Change) -> list[Change]:
    """Each way in which a change may be altered on its way."""
    row = unpack_row(frame.contents.rows[0])
    row[SIZE] += 1
    others = frame.contents.rows[1:]
    numbers = frame.contents.epochs[0]
    contents = frame.contents
    stray = Strays(row[0], (9,))
    return [
        frame._replace(contents=contents._replace(rows=(pack_row(row), *others))),
        frame._replace(contents=contents._replace(rows=tuple(others))),
        frame._replace(contents=contents._replace(gone=(segment_id(1),))),
        frame._replace(contents=contents._replace(strays=(stray,))),
        frame._replace(contents=contents._replace(epochs=(numbers._replace(highest=None),))),
        frame._replace(contents=contents._replace(epochs=(numbers._replace(size=0),))),
        frame._replace(contents=contents._replace(epochs=(EpochNumbers(8, None, 0),))),
        frame._replace(contents=Contents()),
        frame._replace(position=frame.position + 1),
        frame._replace(chain_hash=bytes(32)),
        frame._replace(delete_state=0),
        frame._replace(checksum=bytes(16)),
    ]


def test_an_altered_change_is_refused_and_all_is_dropped() -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER, claim=CLAIM))
    before = partition.feed.take(number, 10_000)
    go_on(partition, finished(SEGMENTS))
    [change] = partition.feed.take(number)
    assert isinstance(change, Change)

    for altered in damaged(change):
        replica = whole(before)
        refusal = replica.take(altered)
        assert refusal is not None, altered
        assert refusal.is_dropped
        assert replica.subscription().position == -1
        assert replica.subscription().floor == replica.floor > 0
        with pytest.raises(NotReady):
            replica.lookup(0, 5)


def test_a_lost_change_is_noticed_by_the_next() -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER, claim=CLAIM))
    replica = whole(partition.feed.take(number, 10_000))
    go_on(partition, finished(SEGMENTS))
    go_on(partition, finished(SEGMENTS + 1))
    _, second = partition.feed.take(number)

    refusal = replica.take(second)

    assert refusal is not None
    assert not refusal.is_dropped, "what it has is sound"
    for frame in sent(partition, replica.subscription()):
        assert replica.take(frame) is None
    assert len(replica.list_all()) == SEGMENTS + 2


@pytest.mark.parametrize("lost", [1, 3, 7])
def test_a_lost_slice_is_noticed(lost: int, small_frames: None) -> None:
    frames = sent(fed())
    assert isinstance(frames[lost], Slice)
    replica = Replica(KEY, LEADER)

    refusals = [one for one in map(replica.take, frames[:lost] + frames[lost + 1 :]) if one]

    assert refusals
    assert not replica.is_whole


def test_frames_that_come_twice_do_no_harm(small_frames: None) -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER, claim=CLAIM))
    frames = partition.feed.take(number, 3)
    go_on(partition, finished(SEGMENTS))
    frames += partition.feed.take(number, 10_000)

    replica = whole([frames[0], *(frame for frame in frames[1:] for _ in range(2))])

    assert len(replica.list_all()) == SEGMENTS + 1


def test_an_older_position_is_refused() -> None:
    replica = connected(fed()).catch_up()
    position = replica.position

    older = sent(fed(SEGMENTS - 1))
    refusal = replica.take(older[0])

    assert refusal is not None
    assert refusal.is_dropped
    assert replica.subscription().floor == position


def test_a_snapshot_without_its_tail_is_noticed(small_frames: None) -> None:
    partition = fed()
    number = partition.feed.subscribe(Subscription(KEY, LEADER, claim=CLAIM))
    frames = partition.feed.take(number, 2)
    go_on(partition, finished(SEGMENTS))
    go_on(partition, finished(SEGMENTS + 1))
    rest = partition.feed.take(number, 10_000)
    [first, second] = [frame for frame in rest if isinstance(frame, Change)]
    slices = [frame for frame in rest if isinstance(frame, Slice)]

    without_first = [*frames, *slices, second]
    relinked = [*frames, *slices, second._replace(after=first.after)]

    for given_frames in (without_first, relinked):
        replica = Replica(KEY, LEADER)
        assert any(replica.take(frame) is not None for frame in given_frames)


def test_a_source_without_feed_costs_its_state_nothing() -> None:
    partition = fed()
    partition.feed.close()

    assert partition.state.touched is None
    assert isinstance(FeedSource(partition, lambda _: None), FeedSource)
    assert partition.state.touched == {}
