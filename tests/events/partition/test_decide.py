"""The table of commands on segments: what holds already, what is applied, and what is refused.

`DrivenPartition` asserts for each refusal that the state's digest is what it was.
"""

import pytest

from tests.models.events.driven_partition import (
    DrivenPartition,
    command_of,
    import_of,
    open_session,
    opened,
)
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import (
    CustomMetadataSizeLimitExceeded,
    InvalidArgument,
    InvalidStateTransition,
    RemoteResourceNotFound,
)
from tierledger.events.partition import answers
from tierledger.events.partition.decide import CUSTOM_METADATA_BYTES_CEILING, Accepted, Limits
from tierledger.events.partition.state import REQUESTS_KEPT, REQUESTS_MAX
from tierledger.events.tables.segment_rows import CUSTOM, STATE, unpack_row
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    Record,
    Update,
)

A = b"\x01" * 16
ADD = Add(A, 0, 99, {0: 0}, size=10, max_timestamp_ms=5, broker_id=1, event_timestamp_ms=7)
STATES = (COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED)
PATHS = {
    COPY_STARTED: (),
    COPY_FINISHED: (COPY_FINISHED,),
    DELETE_STARTED: (COPY_FINISHED, DELETE_STARTED),
    DELETE_FINISHED: (COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED),
}
LEGAL = {
    (COPY_STARTED, COPY_FINISHED),
    (COPY_STARTED, DELETE_STARTED),
    (COPY_FINISHED, COPY_FINISHED),
    (COPY_FINISHED, DELETE_STARTED),
    (DELETE_STARTED, DELETE_STARTED),
    (DELETE_STARTED, DELETE_FINISHED),
}


def request(name: bytes) -> log.Origin:
    return log.Origin(1, name)


def written(*records: Record, limits: Limits | None = None) -> DrivenPartition:
    partition = opened(limits)
    for record in records:
        partition.accept(command_of(record))
    return partition


def in_state(state: int) -> DrivenPartition:
    return written(ADD, *(Update(A, step, 1, 8) for step in PATHS[state]))


def fields(partition: DrivenPartition) -> list[object]:
    row = partition.state.rows.get(A)
    assert row is not None
    return unpack_row(row)


# Repeats.


def test_a_request_seen_before_has_the_same_outcome_and_appends_nothing() -> None:
    partition = opened()
    add = command_of(ADD, origin=request(b"r1"))
    first = partition.accept(add)
    partition.accept(command_of(Update(A, COPY_FINISHED), origin=request(b"r2")))
    partition.accept(command_of(Update(A, DELETE_STARTED), origin=request(b"r3")))

    again = partition.accept(add)

    assert again == Accepted((), first.position)


def test_a_request_is_known_by_its_id_in_the_next_session_too() -> None:
    partition = opened()
    add = command_of(ADD, origin=request(b"r1"))
    first = partition.accept(add)
    partition.accept(open_session(cmd.Claim(2, 1, 1), 2))

    assert partition.accept(add) == Accepted((), first.position)


def test_request_ids_of_two_brokers_do_not_meet() -> None:
    partition = opened()
    partition.accept(command_of(ADD, origin=log.Origin(1, b"r")))

    second = partition.accept(command_of(Update(A, COPY_FINISHED), origin=log.Origin(2, b"r")))

    assert len(second.events) == 1


def test_a_refused_request_may_be_tried_again_under_its_id() -> None:
    partition = opened()
    finish = command_of(Update(A, COPY_FINISHED), origin=request(b"r"))
    partition.refuse(finish)
    partition.accept(command_of(ADD))

    assert len(partition.accept(finish).events) == 1


def test_the_last_requests_of_each_origin_are_kept() -> None:
    partition = opened()
    writes = [
        command_of(
            Add(bytes([at // 256, at % 256]) * 8, 0, 9, {0: 0}), origin=request(b"%d" % at)
        )
        for at in range(REQUESTS_MAX)
    ]
    positions = [partition.accept(write).position for write in writes]

    partition.accept(command_of(Add(A, 0, 9, {0: 0}), origin=log.Origin(2, b"0")))

    kept = partition.state.requests[1]
    assert list(kept.values()) == positions[-REQUESTS_KEPT:]
    oldest = writes[-REQUESTS_KEPT]
    assert partition.accept(oldest) == Accepted((), positions[-REQUESTS_KEPT])


# Adding.


def test_a_copy_that_starts_is_added() -> None:
    partition = opened()

    accepted = partition.accept(command_of(ADD))

    assert [type(event.body) for event in accepted.events] == [log.SegmentAdded]
    assert accepted.position == 1
    assert fields(partition)[STATE] == COPY_STARTED


def test_the_same_add_while_the_copy_is_started_holds_already() -> None:
    partition = written(ADD)

    assert partition.accept(command_of(ADD)) == Accepted((), 1)


@pytest.mark.parametrize(
    "other",
    [
        ADD._replace(end_offset=98),
        ADD._replace(epochs={0: 0, 1: 5}),
        ADD._replace(size=11),
        ADD._replace(broker_id=2),
        ADD._replace(event_timestamp_ms=8),
        ADD._replace(custom_metadata=b""),
        ADD._replace(txn_index_empty=True),
    ],
)
def test_a_known_id_with_other_content_is_refused(other: Add) -> None:
    error = written(ADD).refuse(command_of(other))

    assert isinstance(error, InvalidStateTransition)
    assert "with other content" in str(error)


@pytest.mark.parametrize("state", [COPY_FINISHED, DELETE_STARTED])
def test_an_add_of_a_segment_in_a_later_state_is_refused(state: int) -> None:
    error = in_state(state).refuse(command_of(ADD))

    assert isinstance(error, InvalidStateTransition)


def test_a_deleted_id_never_comes_back() -> None:
    error = in_state(DELETE_FINISHED).refuse(command_of(ADD._replace(start_offset=5)))

    assert isinstance(error, InvalidStateTransition)
    assert "never comes back" in str(error)


@pytest.mark.parametrize("state", STATES[1:])
def test_only_a_started_copy_can_be_added(state: int) -> None:
    error = opened().refuse(command_of(ADD._replace(state=state)))

    assert isinstance(error, InvalidArgument)


# Updating.


@pytest.mark.parametrize("target", STATES[1:])
@pytest.mark.parametrize("source", STATES[:3])
def test_an_update_follows_the_lifecycle_or_is_refused(source: int, target: int) -> None:
    partition = in_state(source)
    command = command_of(Update(A, target, 2, 33, b"new"))

    if (source, target) in LEGAL:
        (event,) = partition.accept(command).events
        assert event.body == log.SegmentUpdated(A, target, 2, 33, b"new")
    else:
        assert isinstance(partition.refuse(command), InvalidStateTransition)


@pytest.mark.parametrize("source", [COPY_FINISHED, DELETE_STARTED])
def test_an_exact_repeat_of_an_update_holds_already(source: int) -> None:
    partition = in_state(source)
    position = partition.state.next_position - 1

    repeated = partition.accept(command_of(Update(A, source, 1, 8)))

    assert repeated == Accepted((), position)


def test_an_update_replaces_broker_time_state_and_custom_metadata_and_nothing_else() -> None:
    partition = written(ADD, Update(A, COPY_FINISHED, 2, 50, b"bucket"))
    metadata = answers.metadata_of_fields(partition.state.topic_id_partition, fields(partition))
    given = command_of(ADD)
    assert isinstance(given, cmd.AddSegment)

    update = command_of(Update(A, COPY_FINISHED, 2, 50, b"bucket"))

    assert isinstance(update, cmd.UpdateSegment)
    assert metadata == given.metadata.create_with_updates(update.update)


def test_an_update_without_custom_metadata_erases_it() -> None:
    partition = written(ADD, Update(A, COPY_FINISHED, 1, 8, b"bucket"))

    partition.accept(command_of(Update(A, DELETE_STARTED, 1, 9)))

    assert fields(partition)[CUSTOM] is None


def test_an_update_to_the_first_state_is_refused() -> None:
    for state in STATES[:3]:
        error = in_state(state).refuse(command_of(Update(A, COPY_STARTED)))
        assert isinstance(error, InvalidArgument)


@pytest.mark.parametrize("target", [DELETE_STARTED, DELETE_FINISHED])
def test_deleting_what_is_gone_or_was_never_known_holds_already(target: int) -> None:
    for partition in (opened(), in_state(DELETE_FINISHED)):
        assert partition.accept(command_of(Update(A, target))).events == ()


def test_finishing_the_copy_of_an_unknown_segment_is_refused() -> None:
    for partition in (opened(), in_state(DELETE_FINISHED)):
        error = partition.refuse(command_of(Update(A, COPY_FINISHED)))
        assert type(error) is RemoteResourceNotFound


# The limit on custom metadata.


@pytest.mark.parametrize(
    ("limit", "size", "fits"),
    [(128, 127, True), (128, 128, True), (128, 129, False), (0, 0, True), (0, 1, False)],
)
def test_custom_metadata_of_a_finished_copy_may_reach_the_limit(
    limit: int, size: int, fits: bool
) -> None:
    partition = written(ADD, limits=Limits(custom_metadata_bytes_max=limit))
    finish = command_of(Update(A, COPY_FINISHED, 1, 8, b"x" * size))

    if fits:
        partition.accept(finish)
        assert fields(partition)[CUSTOM] == b"x" * size
    else:
        assert isinstance(partition.refuse(finish), CustomMetadataSizeLimitExceeded)
        assert fields(partition)[STATE] == COPY_STARTED


@pytest.mark.parametrize(("size", "limit"), [(128, 128), (129, 128), (1, 0), (5000, 128)])
def test_custom_metadata_of_a_started_copy_may_reach_the_limit(size: int, limit: int) -> None:
    partition = opened(Limits(custom_metadata_bytes_max=limit))
    add = command_of(ADD._replace(custom_metadata=bytes(size)))

    if size <= limit:
        assert len(partition.accept(add).events) == 1
    else:
        assert isinstance(partition.refuse(add), CustomMetadataSizeLimitExceeded)


def test_recorded_history_may_exceed_the_limit_from_its_start() -> None:
    partition = opened(Limits(custom_metadata_bytes_max=0), imports=True)

    (event,) = partition.accept(import_of([ADD._replace(custom_metadata=b"xx")])).events

    assert isinstance(event.body, log.SegmentAdded)


def test_no_custom_metadata_fits_any_limit() -> None:
    partition = written(ADD, limits=Limits(custom_metadata_bytes_max=0))

    assert len(partition.accept(command_of(Update(A, COPY_FINISHED))).events) == 1


def test_the_clean_up_after_a_refusal_keeps_the_oversized_bytes() -> None:
    partition = written(ADD)
    large = b"x" * 129
    partition.refuse(command_of(Update(A, COPY_FINISHED, 1, 8, large)))

    partition.accept(command_of(Update(A, DELETE_STARTED, 1, 9, large)))
    kept = fields(partition)[CUSTOM]
    partition.accept(command_of(Update(A, DELETE_FINISHED, 1, 10, large)))

    assert kept == large
    assert partition.state.rows.get(A) is None


@pytest.mark.parametrize("excess", [0, 1])
def test_a_deletions_bytes_are_dropped_only_above_the_ceiling(excess: int) -> None:
    partition = in_state(COPY_FINISHED)
    size = CUSTOM_METADATA_BYTES_CEILING + excess
    command = command_of(Update(A, DELETE_STARTED, 1, 9, b"x" * size))

    (event,) = partition.accept(command).events

    assert isinstance(event.body, log.SegmentUpdated)
    assert event.body.dropped_bytes == (size if excess else 0)
    assert fields(partition)[CUSTOM] == (None if excess else b"x" * size)
    assert partition.accept(command).events == (), "a repeat finds what was kept"


@pytest.mark.parametrize("limit", [-1, 2**31])
def test_a_limit_outside_of_kafkas_range_is_refused(limit: int) -> None:
    with pytest.raises(InvalidArgument, match=r"custom\.metadata\.max\.bytes"):
        Limits(custom_metadata_bytes_max=limit)


def test_limits_take_kafkas_whole_range() -> None:
    assert Limits(0).custom_metadata_bytes_max == 0
    assert Limits(2**31 - 1).custom_metadata_bytes_max == 2**31 - 1
    with pytest.raises(InvalidArgument, match=r"tombstone\.retention"):
        Limits(tombstone_retention_ms=-1)
