"""Metadata objects are well-formed or do not exist, and change only as Kafka's do."""

import dataclasses
import pickle
from typing import Any

import pytest
from msgspec.structs import replace

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)

PARTITION = TopicIdPartition(Uuid(bytes(range(0x01, 0x11))), 0, "foo")
SEGMENT_ID = RemoteLogSegmentId(PARTITION, Uuid(bytes(range(0x11, 0x21))))

SEGMENT = RemoteLogSegmentMetadata(
    remote_log_segment_id=SEGMENT_ID,
    start_offset=10,
    end_offset=100,
    max_timestamp_ms=-1,
    broker_id=1,
    event_timestamp_ms=1_700_000_000_000,
    segment_size_in_bytes=1024,
    state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    segment_leader_epochs={2: 80, 0: 10, 1: 20},
    custom_metadata=CustomMetadata(b"\x00\x01"),
    txn_index_empty=True,
)

SNAPSHOT = RemoteLogSegmentMetadataSnapshot(
    segment_id=SEGMENT_ID.id,
    start_offset=10,
    end_offset=100,
    max_timestamp_ms=-1,
    broker_id=1,
    event_timestamp_ms=1_700_000_000_000,
    segment_size_in_bytes=1024,
    state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    segment_leader_epochs={1: 20, 0: 10},
)

UPDATE = RemoteLogSegmentMetadataUpdate(
    remote_log_segment_id=SEGMENT_ID,
    event_timestamp_ms=1_700_000_000_001,
    state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    broker_id=2,
)

DELETE = RemotePartitionDeleteMetadata(
    PARTITION, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 1_700_000_000_000, 0
)

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"state": None}, "expected a RemoteLogSegmentState for state, got None"),
    ({"start_offset": -1}, "expected 0 or more for start_offset, got -1"),
    ({"end_offset": 9}, "expected an end_offset of 10 or more, got 9"),
    ({"segment_leader_epochs": {}}, "expected 1 to 10000 entries for segment_leader_epochs"),
    ({"end_offset": 1 << 63}, "or less for end_offset, got 9223372036854775808"),
    ({"broker_id": 1 << 31}, "expected 2147483647 or less for broker_id"),
    ({"event_timestamp_ms": -(1 << 63) - 1}, "or more for event_timestamp_ms"),
    ({"max_timestamp_ms": 1 << 63}, "or less for max_timestamp_ms"),
    ({"segment_size_in_bytes": 1 << 31}, "or less for segment_size_in_bytes"),
    ({"segment_leader_epochs": {1 << 31: 0}}, "or less for a key of segment_leader_epochs"),
    ({"segment_leader_epochs": {4: 1 << 63}}, r"or less for segment_leader_epochs\[4\]"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("whole", [SEGMENT, SNAPSHOT], ids=["segment", "snapshot"])
def test_a_segment_that_makes_no_sense_is_refused(
    whole: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot,
    change: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        replace(whole, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"end_offset": 10},
        {"broker_id": -7},
        {"event_timestamp_ms": -1},
        {"segment_size_in_bytes": -1},
        {"segment_leader_epochs": {-1: 500}},
        {"segment_leader_epochs": {0: 50, 1: 20}},
        {"state": RemoteLogSegmentState.DELETE_SEGMENT_FINISHED},
    ],
    ids=str,
)
def test_what_kafka_takes_is_taken(change: dict[str, Any]) -> None:
    changed = replace(SEGMENT, **change)

    assert {name: getattr(changed, name) for name in change} == change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": 1}, "expected a RemoteLogSegmentState for state, got 1"),
        ({"broker_id": -(1 << 31) - 1}, "expected -2147483648 or more for broker_id"),
        ({"event_timestamp_ms": 1 << 63}, "or less for event_timestamp_ms"),
    ],
)
def test_an_update_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        replace(UPDATE, **change)


def test_a_partition_delete_in_a_segments_state_is_refused() -> None:
    wrong: Any = RemoteLogSegmentState.COPY_SEGMENT_STARTED

    with pytest.raises(InvalidArgument, match="expected a RemotePartitionDeleteState"):
        replace(DELETE, state=wrong)


def test_epochs_are_kept_ascending_in_a_copy() -> None:
    given = {2: 80, 0: 10, 1: 20}
    segment = replace(SEGMENT, segment_leader_epochs=given)

    given[3] = 90

    assert list(segment.segment_leader_epochs.items()) == [(0, 10), (1, 20), (2, 80)]


def test_a_single_epoch_is_copied_too() -> None:
    given = {0: 10}
    segment = replace(SEGMENT, segment_leader_epochs=given)

    given[1] = 20

    assert segment.segment_leader_epochs == {0: 10}


def test_an_update_replaces_broker_time_state_and_custom_metadata_and_nothing_else() -> None:
    update = replace(UPDATE, custom_metadata=CustomMetadata(b"new"))

    updated = SEGMENT.create_with_updates(update)

    assert updated == replace(
        SEGMENT,
        broker_id=2,
        event_timestamp_ms=1_700_000_000_001,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        custom_metadata=CustomMetadata(b"new"),
    )
    assert updated.txn_index_empty


def test_an_update_without_custom_metadata_erases_it() -> None:
    assert SEGMENT.create_with_updates(UPDATE).custom_metadata is None


def test_an_update_of_another_segment_is_refused() -> None:
    other = RemoteLogSegmentId(PARTITION, Uuid(bytes(16)))

    with pytest.raises(InvalidArgument, match="expected an update of"):
        SEGMENT.create_with_updates(replace(UPDATE, remote_log_segment_id=other))


def test_custom_metadata_can_be_replaced_alone() -> None:
    empty = CustomMetadata(b"")

    assert SEGMENT.create_with_custom_metadata(empty) == replace(SEGMENT, custom_metadata=empty)
    assert SEGMENT.create_with_custom_metadata(None).custom_metadata is None


def test_empty_custom_metadata_is_not_absent() -> None:
    empty = SEGMENT.create_with_custom_metadata(CustomMetadata(b""))

    assert empty != SEGMENT.create_with_custom_metadata(None)


@pytest.mark.parametrize(
    "whole", [SEGMENT, SNAPSHOT, UPDATE, DELETE], ids=lambda whole: type(whole).__name__
)
def test_metadata_survives_pickle_cannot_be_changed_and_can_be_a_key(
    whole: RemoteLogSegmentMetadata
    | RemoteLogSegmentMetadataSnapshot
    | RemoteLogSegmentMetadataUpdate
    | RemotePartitionDeleteMetadata,
) -> None:
    copy = pickle.loads(pickle.dumps(whole))

    assert (copy, repr(copy)) == (whole, repr(whole)), "also what is not compared, the topic"
    assert len({copy, whole}) == 1
    with pytest.raises(AttributeError):
        copy.broker_id = 9


def test_metadata_says_which_partition_it_is_about() -> None:
    assert SEGMENT.topic_id_partition == PARTITION
    assert UPDATE.topic_id_partition == PARTITION


@pytest.mark.parametrize("known", [SEGMENT, SNAPSHOT, UPDATE, DELETE, SEGMENT_ID, PARTITION])
def test_programs_change_copies_as_of_dataclasses(known: Any) -> None:  # noqa: ANN401
    names = [field.name for field in dataclasses.fields(known)]

    assert dataclasses.replace(known) == known
    assert list(dataclasses.asdict(known)) == names
    with pytest.raises(InvalidArgument, match=names[-1]):
        dataclasses.replace(known, **{names[-1]: object()})
