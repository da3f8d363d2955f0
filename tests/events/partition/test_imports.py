"""Recorded history is taken over as Kafka's consumer took it, whatever our rules would say."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.models.events.driven_partition import (
    CLAIM,
    IMPORTED,
    DrivenPartition,
    import_of,
    open_session,
    opened,
)
from tests.models.events.histories import Step, histories
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import (
    Fenced,
    InvalidArgument,
    NotLeader,
    PartitionDeleted,
)
from tierledger.events.identifiers import Uuid
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.kafka.tags import UnknownTags
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadataSnapshot
from tierledger.events.partition.decide import Limits, decide
from tierledger.events.partition.import_view import ImportView
from tierledger.events.partition.invariants import check
from tierledger.events.tables.segment_rows import CUSTOM, STATE, unpack_row
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    Record,
    Update,
)

A, B = b"\x01" * 16, b"\x02" * 16
ADD = Add(A, 0, 99, {0: 0}, size=10)
DELETED = (ADD, Update(A, DELETE_STARTED), Update(A, DELETE_FINISHED))


def imported(*records: Record) -> tuple[DrivenPartition, list[log.Body]]:
    partition = opened(Limits(custom_metadata_bytes_max=0), imports=True)
    accepted = partition.accept(import_of(records))
    return partition, [event.body for event in accepted.events]


def reasons(bodies: list[log.Body]) -> list[str]:
    return [body.reason for body in bodies if isinstance(body, log.ImportRecordDropped)]


def test_each_record_becomes_one_event_that_knows_where_it_stood() -> None:
    _, bodies = imported(ADD, Update(A, COPY_FINISHED), PartitionDelete(0))

    assert [getattr(body, "source", None) for body in bodies] == [(7, 0), (7, 1), (7, 2)]


@pytest.mark.parametrize(
    "history",
    [
        (*DELETED, ADD),
        (ADD, ADD._replace(epochs={1: 0}, size=20)),
        (ADD, ADD),
        (ADD, Update(A, COPY_FINISHED), Update(A, COPY_FINISHED)),
        (PartitionDelete(1),),
        (PartitionDelete(1), PartitionDelete(0)),
        (PartitionDelete(2),),
    ],
    ids=[
        "resurrection",
        "add over add",
        "the same twice",
        "finished again",
        "deletion without mark",
        "deletion going back",
        "deletion at once",
    ],
)
def test_what_kafka_applies_is_applied(history: tuple[Record, ...]) -> None:
    partition, bodies = imported(*history)

    assert reasons(bodies) == []
    assert partition.state.dropped == {}


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ((ADD._replace(state=COPY_FINISHED),), "added in another state"),
        ((ADD, Update(A, COPY_FINISHED), ADD), "illegal transition"),
        ((ADD, Update(A, DELETE_FINISHED)), "illegal transition"),
        ((ADD, Update(A, COPY_STARTED)), "update to COPY_SEGMENT_STARTED"),
        ((ADD, Update(A, DELETE_STARTED), Update(A, COPY_FINISHED)), "illegal transition"),
        ((Update(B, DELETE_STARTED),), "unknown segment"),
        ((*DELETED, Update(A, DELETE_FINISHED)), "unknown segment"),
    ],
)
def test_what_kafka_drops_is_an_event_without_effect(
    history: tuple[Record, ...], reason: str
) -> None:
    without, _ = imported(*history[:-1])

    partition, bodies = imported(*history)

    (dropped,) = reasons(bodies)
    assert dropped.startswith(reason)
    assert partition.state.dropped == {dropped: 1}
    assert list(partition.state.rows) == list(without.state.rows)
    assert partition.state.delete == without.state.delete


def test_nothing_follows_a_finished_deletion_in_the_same_command_or_in_a_later_one() -> None:
    partition, bodies = imported(PartitionDelete(2), ADD, PartitionDelete(2))

    later = partition.accept(import_of([ADD], first_offset=3))

    assert [type(body) for body in bodies] == [log.PartitionDeleteUpdated]
    assert later.events == ()


@given(histories(records_max=30), st.lists(st.tuples(st.integers(1, 9), st.booleans())))
@example([PartitionDelete(2), ADD], [(1, True), (1, True)])
def test_any_split_into_commands_and_sessions_gives_the_same_events(
    history: Step, pieces: list[tuple[int, bool]]
) -> None:
    _, whole = imported(*history)
    partition, at, claim = opened(imports=True), 0, CLAIM
    bodies = list[log.Body]()
    for number, (size, anew) in enumerate([*pieces, (len(history), False)], start=2):
        if anew:  # Another importer: it sends all again. Nobody leads what is deleted.
            claim = claim._replace(announcement=number)
            at, opening = 0, open_session(claim, number, imports=True)
            if partition.state.is_finished:
                assert isinstance(partition.refuse(opening), PartitionDeleted)
                break
            partition.accept(opening)
        command = import_of(history[at : at + size], at, claim)
        bodies += [event.body for event in partition.accept(command).events]
        at += size

    assert bodies == whole


def test_a_record_that_names_no_partition_is_dropped_by_name() -> None:
    snapshot = RemoteLogSegmentMetadataSnapshot(
        Uuid(A), 0, 9, 0, 1, 0, 5, RemoteLogSegmentState.COPY_SEGMENT_STARTED, {0: 0}
    )
    item = cmd.ImportedRecord(7, 0, 0, KafkaRecord(snapshot))
    partition = opened(imports=True)

    (event,) = partition.accept(cmd.ImportRecords(CLAIM, (item,))).events

    assert event.body == log.ImportRecordDropped((7, 0), "record without a partition", None)


def test_the_limit_on_custom_metadata_does_not_bind_history() -> None:
    partition, _ = imported(ADD, Update(A, COPY_FINISHED, custom_metadata=b"x" * 5_000))

    row = partition.state.rows.get(A)
    assert row is not None
    assert unpack_row(row)[CUSTOM] == b"x" * 5_000


def test_a_segment_that_comes_back_is_new_and_leaves_no_tombstone() -> None:
    partition, _ = imported(*DELETED, ADD._replace(size=77))

    row = partition.state.rows.get(A)
    assert row is not None
    assert unpack_row(row)[STATE] == COPY_STARTED
    assert A not in partition.state.tombstones
    assert partition.state.bytes_by_state == [77, 0, 0]


def test_a_partitions_deletion_leaves_nothing_of_its_own_batch_behind() -> None:
    partition, _ = imported(ADD)
    partition.state.settle()

    partition.accept(import_of([Update(A, COPY_FINISHED), PartitionDelete(2)], 1))

    check(partition.state)
    assert partition.state.count_by_state == [0, 0, 0]


def test_a_partitions_deletion_forgets_in_which_epochs_strays_stood() -> None:
    partition, _ = imported(ADD, ADD._replace(epochs={1: 0}))
    assert partition.state.strays == {A: (0,)}

    partition.accept(import_of([PartitionDelete(2)], 2))

    assert partition.state.strays == {}


def test_what_was_imported_is_skipped_when_it_comes_again() -> None:
    partition, _ = imported(*DELETED)

    again = partition.accept(import_of([*DELETED, ADD]))

    assert [type(event.body) for event in again.events] == [log.SegmentAdded]
    assert partition.state.imported == {(IMPORTED, 7): 3}


def test_offsets_of_two_metadata_partitions_and_clusters_do_not_meet() -> None:
    partition, _ = imported(ADD)
    (item,) = import_of([ADD._replace(segment_id=B)]).records
    elsewhere = item._replace(metadata_partition=8)

    partition.accept(cmd.ImportRecords(CLAIM, (elsewhere,)))
    later = open_session(CLAIM, 2)._replace(import_cluster="another")
    partition.accept(later)
    partition.accept(import_of([ADD._replace(segment_id=b"\x03" * 16)]))

    assert partition.state.imported == {(IMPORTED, 7): 0, (IMPORTED, 8): 0, ("another", 7): 0}
    assert len(partition.state.rows) == 3


def test_imported_events_carry_recorded_time() -> None:
    partition = opened(imports=True)

    events = partition.accept(import_of(DELETED, first_offset=3), now_ms=10**12).events
    (closed,) = partition.accept(cmd.CloseSession(CLAIM, "done"), now_ms=10**12).events

    assert [event.log_time_ms for event in events] == [30, 40, 50]
    assert closed.log_time_ms == 50


def test_tags_of_a_newer_kafka_are_kept_in_the_log() -> None:
    partition = opened(imports=True)
    (item,) = import_of([ADD]).records
    tags = UnknownTags(record=((9, b"new"),))
    tagged = item._replace(record=item.record._replace(tags=tags))

    (event,) = partition.accept(cmd.ImportRecords(CLAIM, (tagged,))).events

    body = event.body
    assert isinstance(body, log.SegmentAdded)
    assert UnknownTags.from_plain(body.tags) == tags


def test_only_the_importing_session_imports() -> None:
    command = import_of([ADD])
    replaced = opened(imports=True)
    replaced.accept(open_session(cmd.Claim(2, 1, 1), 2))

    assert isinstance(replaced.refuse(command), Fenced)
    assert isinstance(opened().refuse(command), InvalidArgument)
    assert isinstance(DrivenPartition().refuse(command), NotLeader)


@given(histories(records_max=30), st.lists(st.integers(1, 9)), st.integers(0, 30))
def test_a_view_of_states_alone_decides_as_the_folded_log_does(
    history: Step, sizes: list[int], before: int
) -> None:
    loaded, partition = opened(imports=True), opened(imports=True)
    at = min(before, len(history))
    for one in (loaded, partition):
        one.accept(import_of(history[:at]))
    view = ImportView(loaded.state)
    for size in [*sizes, len(history) + 1]:
        command = import_of(history[at : at + size], first_offset=at)
        decided = partition.accept(command)
        assert decide(view, command, 0, Limits()) == decided
        state = partition.state
        assert view.next_position == state.next_position
        assert view.log_time_ms == state.log_time_ms
        assert view.is_finished == state.is_finished
        at += size
    closing = cmd.CloseSession(CLAIM, "imported")
    assert decide(view, closing, 0, Limits()) == partition.accept(closing)
