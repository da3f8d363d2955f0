"""A segment that is kept is in no answer, and in the state with its whole row."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.models.events.compared_answers import assert_same_answers
from tests.models.events.driven_partition import (
    CLAIM,
    GENESIS,
    NO_REQUEST,
    TIP,
    DrivenPartition,
    command_of,
    fold,
    import_of,
    kafka_value,
    opened,
)
from tests.models.events.histories import EPOCHS_PROBED, OFFSETS_PROBED, Step, histories
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import InvalidStateTransition
from tierledger.events.event_codec import decode_events
from tierledger.events.kafka.codec import decode
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.metadata import RemoteLogSegmentMetadataUpdate
from tierledger.events.partition.answers import Snapshot, lookup
from tierledger.events.partition.imports import KEPT
from tierledger.events.partition.invariants import check
from tierledger.events.partition.restored import restored
from tierledger.events.partition.state import KeptSegment, PartitionState
from tierledger.events.tables.segment_rows import (
    CUSTOM,
    EVENT_TIMESTAMP,
    ID,
    STATE,
    id_of_row,
    unpack_row,
)
from tierledger.simulation.checkers.slow.decisions import Facts, Refused, decided
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    SlowPartition,
    Update,
)
from tierledger.storage.kafka_export import kafka_record

ID_OF_ONE = bytes(range(16))
ADDED = Add(ID_OF_ONE, 0, 9, {0: 0}, 100, 5)
FINISHED = Update(ID_OF_ONE, COPY_FINISHED, 1, 2, b"bucket-a")
KEEP = cmd.Keep(9_000, "the hold week")


def deletion(segment_id: bytes, keep: cmd.Keep | None = KEEP) -> cmd.UpdateSegment:
    update = kafka_value(Update(segment_id, DELETE_STARTED, 2, 7))
    assert isinstance(update, RemoteLogSegmentMetadataUpdate)
    return cmd.UpdateSegment(CLAIM, NO_REQUEST, update, DeletionCause.RETENTION, keep)


def kept_one() -> DrivenPartition:
    partition = opened()
    for record in (ADDED, FINISHED):
        partition.accept(command_of(record))
    partition.accept(deletion(ID_OF_ONE), now_ms=50)
    return partition


def all_kept(partition: DrivenPartition) -> list[KeptSegment]:
    return [one for _, one in partition.state.kept.all()]


def test_the_whole_row_stays_with_why_and_until_when() -> None:
    partition = kept_one()

    (kept,) = all_kept(partition)
    row = unpack_row(kept.row)
    assert kept._replace(row=b"") == KeptSegment(
        b"", 9_000, DeletionCause.RETENTION, "the hold week", 50
    )
    assert (row[ID], row[STATE], row[EVENT_TIMESTAMP]) == (ID_OF_ONE, COPY_FINISHED, 7)
    assert row[CUSTOM] == b"bucket-a", "its data is read with it, and the broker sent none"
    assert len(partition.state.rows) == 0
    check(partition.state)


@given(histories(), st.integers(0, 40), st.integers(0, 2**10 - 1))
def test_brokers_hear_what_they_would_if_it_were_deleted(
    history: Step, cut: int, chosen: int
) -> None:
    partition, model = opened(imports=True), SlowPartition()
    partition.accept(import_of(history[:cut]))
    for record in history[:cut]:
        model.apply(record)
    finished = [
        id_of_row(row)
        for row in partition.state.rows
        if unpack_row(row)[STATE] == COPY_FINISHED
    ]
    keeping = [one for at, one in enumerate(sorted(finished)) if chosen >> at & 1]

    for segment_id in keeping:
        if not partition.state.is_finished:
            partition.accept(deletion(segment_id))
            model.apply(Update(segment_id, DELETE_STARTED, 2, 7))
            model.apply(Update(segment_id, DELETE_FINISHED, 2, 7))

    assert_same_answers(partition.state, model, EPOCHS_PROBED, OFFSETS_PROBED)
    check(partition.state)
    again = PartitionState(TIP, GENESIS)
    fold(again, partition.stored, 3)
    assert again.digest() == partition.state.digest()
    partition.accept(import_of(history[cut:], cut))
    check(partition.state)
    assert [id_of_row(one.row) for one in all_kept(partition)] == keeping, "for ever"


@given(histories(), st.integers(0, 40), st.integers(0, 2**10 - 1))
def test_what_is_kept_can_be_read_as_if_it_had_not_been_deleted(
    history: Step, cut: int, chosen: int
) -> None:
    # An id that is added again leaves entries in Kafka's tables that no row tells of.
    ids = [one.segment_id for one in history[:cut] if isinstance(one, Add)]
    assume(len(ids) == len(set(ids)))
    partition = opened(imports=True)
    partition.accept(import_of(history[:cut]))
    before = Snapshot(partition.state)
    rows = {id_of_row(row): unpack_row(row) for row in partition.state.rows}
    finished = sorted(one for one, row in rows.items() if row[STATE] == COPY_FINISHED)
    for at, segment_id in enumerate(finished):
        if chosen >> at & 1 and not partition.state.is_finished:
            partition.accept(deletion(segment_id))

    after = restored(partition.state)
    check(after)
    for epoch in EPOCHS_PROBED:
        for offset in OFFSETS_PROBED:
            was, now = lookup(before, epoch, offset), lookup(after, epoch, offset)
            assert (was is None) == (now is None), (epoch, offset)
            if was is not None and now is not None:
                assert id_of_row(was) == id_of_row(now), (epoch, offset)


def test_its_id_never_comes_back_whoever_says_so() -> None:
    partition = kept_one()

    assert isinstance(partition.refuse(command_of(ADDED)), InvalidStateTransition)
    for state in (DELETE_STARTED, DELETE_FINISHED):
        assert partition.accept(command_of(Update(ID_OF_ONE, state, 2, 8))).events == ()
    partition.accept(cmd.CloseSession(CLAIM, "the import comes"))
    claim = CLAIM._replace(announcement=2)
    partition.accept(cmd.OpenSession(claim, 2, None, TIP.topic, "recorded"))
    partition.accept(import_of([ADDED, FINISHED], claim=claim))

    assert partition.state.dropped == {KEPT: 1, "unknown segment": 1}
    assert len(all_kept(partition)) == 1
    check(partition.state)


def test_a_copy_that_never_finished_is_not_kept() -> None:
    partition = opened()
    partition.accept(command_of(ADDED))
    partition.accept(deletion(ID_OF_ONE))

    assert all_kept(partition) == []
    (row,) = partition.state.rows
    assert unpack_row(row)[STATE] == DELETE_STARTED


def test_a_deletion_that_had_begun_is_not_kept() -> None:
    partition = opened()
    for record in (ADDED, FINISHED):
        partition.accept(command_of(record))
    partition.accept(deletion(ID_OF_ONE, None))
    partition.accept(deletion(ID_OF_ONE))

    assert all_kept(partition) == []


def test_the_simulators_slow_rules_keep_the_same() -> None:
    other = bytes([7]) * 16
    commands = [
        *(command_of(one) for one in (ADDED, ADDED._replace(segment_id=other), FINISHED)),
        *(deletion(one) for one in (ID_OF_ONE, other, ID_OF_ONE)),
        command_of(Update(ID_OF_ONE, DELETE_FINISHED, 2, 7)),
    ]
    partition, facts = opened(), Facts(128, 1_000)
    for event in decode_events(partition.stored, 0, GENESIS)[0]:
        facts.take(event)

    for command in commands:
        assert tuple(decided(facts, command, 50).events) == partition.accept(command, 50).events
    with pytest.raises(Refused, match="InvalidStateTransition"):
        decided(facts, command_of(ADDED), 50)
    assert set(facts.kept) == {ID_OF_ONE}


PURGER = log.Origin(4, None)


def start(*ids: bytes, by: log.Origin = PURGER) -> cmd.StartPurges:
    return cmd.StartPurges(by, ids, 500)


def test_what_was_kept_is_purged_in_two_steps_by_one_at_a_time() -> None:
    partition, rival = kept_one(), log.Origin(5, None)
    end = cmd.EndPurges(PURGER, (ID_OF_ONE,))
    assert "is kept until 9000 ms" in str(partition.refuse(start(ID_OF_ONE), now_ms=8_999))
    assert "has not begun" in str(partition.refuse(end, now_ms=9_000))

    (begun,) = partition.accept(start(ID_OF_ONE, ID_OF_ONE, bytes(16)), now_ms=9_000).events
    assert (begun.broker_id, begun.body) == (4, log.SegmentPurgeStarted(ID_OF_ONE, 9_500))
    assert partition.accept(start(ID_OF_ONE, by=rival), now_ms=9_499).events == ()
    assert len(partition.accept(start(ID_OF_ONE), now_ms=9_400).events) == 1, "after a restart"
    assert partition.accept(start(ID_OF_ONE, by=rival), now_ms=9_500).events == ()
    assert len(partition.accept(start(ID_OF_ONE, by=rival), now_ms=9_900).events) == 1
    assert [unpack_row(row)[ID] for row in restored(partition.state).rows] == []
    check(partition.state)

    assert len(partition.accept(end, now_ms=9_901).events) == 1, "whoever says so"
    assert partition.accept(end, now_ms=9_902).events == ()
    assert partition.accept(start(ID_OF_ONE), now_ms=9_903).events == ()
    assert all_kept(partition) == []
    assert isinstance(partition.refuse(command_of(ADDED)), InvalidStateTransition)
    check(partition.state)
    again = PartitionState(TIP, GENESIS)
    fold(again, partition.stored, 3)
    assert again.digest() == partition.state.digest()


def test_the_state_of_a_purge_is_part_of_the_digest() -> None:
    one, other = kept_one(), kept_one()
    one.accept(start(ID_OF_ONE), now_ms=9_000)
    other.accept(start(ID_OF_ONE, by=log.Origin(5, None)), now_ms=9_000)

    assert one.state.kept.digest != other.state.kept.digest


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 900))))
def test_the_slow_rules_purge_the_same(steps: list[tuple[int, int, int]]) -> None:
    partition, facts, now_ms = kept_one(), Facts(128, 1_000), 8_500
    for event in decode_events(partition.stored, 0, GENESIS)[0]:
        facts.take(event)
    for kind, broker, passed in steps:
        now_ms += passed
        origin = log.Origin(broker, None)
        command = [
            start(ID_OF_ONE, by=origin),
            cmd.EndPurges(origin, (ID_OF_ONE, bytes(16))),
            command_of(ADDED),
            command_of(PartitionDelete(0, 1)),
        ][kind]
        try:
            expected = tuple(decided(facts, command, now_ms).events)
        except Refused:
            partition.refuse(command, now_ms)
        else:
            assert partition.accept(command, now_ms).events == expected
        check(partition.state)


def test_the_end_of_a_partitions_deletion_lets_it_stay() -> None:
    partition = kept_one()
    for state in range(3):
        partition.accept(command_of(PartitionDelete(state, 1)))

    assert len(all_kept(partition)) == 1
    check(partition.state)
    partition.accept(start(ID_OF_ONE), now_ms=9_000)
    partition.accept(cmd.EndPurges(PURGER, (ID_OF_ONE,)), now_ms=9_001)
    assert len(partition.state.kept) == len(partition.state.tombstones) == 0
    check(partition.state)


def test_for_kafka_it_is_deleted() -> None:
    partition = kept_one()
    events, _ = decode_events(partition.stored, 0, GENESIS)
    kinds = [type(one.body) for one in events]
    assert kinds[-2:] == [log.SegmentUpdated, log.SegmentKept]

    records = [kafka_record(TIP, one.body) for one in events]
    states = [decode(one).value.state for one in records if one is not None]
    assert states == [COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED]
