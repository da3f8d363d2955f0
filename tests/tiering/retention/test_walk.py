"""The rules of retention, segment by segment."""

from collections.abc import Iterable, Mapping

import pytest

from tests.models.tiering.retention_world import DELETING, FINISHED, NOW_MS, SIZE, STARTED, TIP
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.lineage import Lineage
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.broker_version import NEWEST, BrokerVersion
from tierledger.tiering.retention.walk import (
    Action,
    LineageSize,
    Reason,
    RetentionBounds,
    RetentionVerdict,
    RetentionWalk,
    expiry,
)

DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


def segment(
    start: int,
    end: int,
    epochs: Mapping[int, int],
    *,
    state: RemoteLogSegmentState = FINISHED,
    size: int = SIZE,
    timestamp_ms: int = NOW_MS,
    number: int | None = None,
) -> RemoteLogSegmentMetadata:
    """A segment whose id follows from its start, unless `number` is given."""
    given = Uuid((start if number is None else number).to_bytes(16, "big"))
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(TIP, given),
        start,
        end,
        timestamp_ms,
        1,
        NOW_MS,
        size,
        state,
        epochs,
    )


def bounds(
    epochs: Mapping[int, int] | None = None,
    *,
    expired_up_to_ms: int | None = None,
    excess_max: int | None = None,
    log_start_offset: int = 0,
    being_copied: Iterable[RemoteLogSegmentMetadata] = (),
) -> RetentionBounds:
    return RetentionBounds(
        Lineage(epochs or {0: 0}),
        log_start_offset,
        10_000,
        expired_up_to_ms,
        excess_max,
        [one.remote_log_segment_id for one in being_copied],
    )


OLD = segment(0, 99, {0: 0}, timestamp_ms=1000)
NEW = segment(100, 199, {0: 100}, timestamp_ms=2000)


def exact(excess: int, epochs: Mapping[int, int] | None = None) -> RetentionWalk:
    """A walk that knows its excess."""
    walk = RetentionWalk(bounds(epochs, excess_max=excess))
    walk.measured(excess)
    return walk


def test_an_old_segment_is_deleted_and_the_next_ends_the_walk() -> None:
    walk = RetentionWalk(bounds(expired_up_to_ms=1000))

    assert walk.offer(OLD) == RetentionVerdict(Action.DELETE, Reason.TIME)
    assert walk.offer(NEW) == RetentionVerdict(Action.STOP, Reason.RETAINED)
    assert walk.new_log_start_offset == 100


@pytest.mark.parametrize(
    ("now_ms", "retention_ms", "expected"),
    [
        (NOW_MS, 0, NOW_MS),
        (NOW_MS, 1000, NOW_MS - 1000),
        (NOW_MS, NOW_MS, 0),
        (NOW_MS, NOW_MS + 1, None),
        (NOW_MS, 2**63 - 1, None),
        (NOW_MS, -1, None),
        (-5, 0, None),
    ],
)
def test_a_retention_that_reaches_back_before_1970_keeps_everything(
    now_ms: int, retention_ms: int, expected: int | None
) -> None:
    older, newer = BrokerVersion(4, 2), BrokerVersion(4, 3)

    assert expiry(now_ms, retention_ms, older) == expected
    # From 4.3 on, what is exactly as old stays.
    assert expiry(now_ms, retention_ms, newer) == (None if expected is None else expected - 1)


@pytest.mark.parametrize(
    ("text", "version"),
    [("3.9.1", (3, 9)), ("4.3", (4, 3)), ("4.10.0-rc1", (4, 10)), ("5.0", (5, 0))],
)
def test_a_brokers_version_is_its_first_two_numbers(
    text: str, version: tuple[int, int]
) -> None:
    assert BrokerVersion.parse(text) == version


@pytest.mark.parametrize("text", ["", "4", "four", "3.5", "4.3 ", "-4.3", "\u0664.3", "9" * 9])
def test_what_is_no_version_is_told_what_one_looks_like(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"version of Kafka from 3\.6 on, like 4\.4, got"):
        BrokerVersion.parse(text)


@pytest.mark.parametrize(
    ("level", "version"),
    [
        (12, (3, 6)),
        (14, (3, 6)),
        (19, (3, 7)),
        (20, (3, 8)),
        (21, (3, 9)),
        (25, (4, 0)),
        (27, (4, 1)),
        (29, (4, 2)),
        (30, (4, 3)),
        (33, NEWEST),
        (99, NEWEST),
    ],
)
def test_the_newest_metadata_version_of_a_release_tells_which_it_is(
    level: int, version: tuple[int, int]
) -> None:
    assert BrokerVersion.of_metadata_version(level) == version


def test_brokers_from_before_tiered_storage_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"from 3\.6 on.* 12 or more, got 11"):
        BrokerVersion.of_metadata_version(11)


@pytest.mark.parametrize(
    ("excess", "deleted"), [(0, 0), (SIZE - 1, 0), (SIZE, 1), (2 * SIZE - 1, 1), (2 * SIZE, 2)]
)
def test_size_deletes_no_segment_that_would_leave_too_little(excess: int, deleted: int) -> None:
    walk = exact(excess)

    verdicts = [walk.offer(one) for one in (OLD, NEW)][: deleted + 1]

    assert verdicts[:deleted] == [RetentionVerdict(Action.DELETE, Reason.SIZE)] * deleted
    assert verdicts[deleted:] == [RetentionVerdict(Action.STOP, Reason.RETAINED)] * (
        deleted < 2
    )


def test_bytes_that_time_deletes_are_not_asked_for_again() -> None:
    walk = RetentionWalk(bounds(expired_up_to_ms=1000, excess_max=SIZE))

    assert walk.offer(OLD).reason == Reason.TIME
    assert walk.offer(NEW) == RetentionVerdict(Action.STOP, Reason.RETAINED)


def test_the_exact_excess_is_measured_only_when_a_segment_fits_its_bound() -> None:
    below, within = (RetentionWalk(bounds(excess_max=SIZE - gap)) for gap in (1, 0))

    assert below.offer(OLD) == RetentionVerdict(Action.STOP, Reason.RETAINED)
    assert within.offer(OLD) == RetentionVerdict(Action.MEASURE, Reason.SIZE)
    within.measured(SIZE - 1)
    assert within.offer(OLD) == RetentionVerdict(Action.STOP, Reason.RETAINED)


def test_bytes_that_the_log_start_frees_are_not_asked_for_again() -> None:
    # Kafka deletes one segment too many here: it reduces the excess for time and size only.
    walk = RetentionWalk(bounds({0: 100}, excess_max=SIZE, log_start_offset=100))
    walk.measured(SIZE)

    assert walk.offer(OLD) == RetentionVerdict(Action.DELETE, Reason.LOG_START_OFFSET)
    assert walk.offer(NEW) == RetentionVerdict(Action.STOP, Reason.RETAINED)
    assert walk.new_log_start_offset is None


@pytest.mark.parametrize(
    ("end", "epochs", "is_deleted"),
    [
        (99, {0: 0}, True),
        (99, {0: 0, 1: 50}, True),
        (100, {0: 0}, False),  # Its last record may be read.
        (99, {0: 0, 2: 50}, False),  # The log knows no such epoch at that offset.
    ],
)
def test_what_lies_before_the_log_start_is_deleted_by_its_offsets(
    end: int, epochs: dict[int, int], is_deleted: bool
) -> None:
    walk = RetentionWalk(bounds({1: 100, 2: 200}, log_start_offset=100))

    verdict = walk.offer(segment(0, end, epochs))

    assert (verdict == RetentionVerdict(Action.DELETE, Reason.LOG_START_OFFSET)) == is_deleted


def test_a_segment_that_is_being_copied_ends_the_walk_whatever_it_is() -> None:
    walk = RetentionWalk(bounds(expired_up_to_ms=NOW_MS, being_copied=[OLD]))

    assert walk.offer(OLD) == RetentionVerdict(Action.STOP, Reason.BEING_COPIED)


def test_an_interrupted_deletion_is_finished_once_however_many_epochs_list_it() -> None:
    walk = RetentionWalk(bounds({0: 0, 1: 50}))
    half_gone = segment(0, 99, {0: 0, 1: 50}, state=DELETING)

    assert walk.offer(half_gone) == RetentionVerdict(Action.DELETE, Reason.INTERRUPTED)
    assert walk.offer(half_gone) == RetentionVerdict(Action.SKIP, Reason.SEEN)
    assert walk.interrupted == 1
    assert walk.new_log_start_offset is None


def test_segments_of_another_history_and_deleted_ones_do_not_end_the_walk() -> None:
    walk = RetentionWalk(bounds({0: 0, 2: 100}, expired_up_to_ms=1000))

    assert walk.offer(segment(0, 150, {0: 0}, timestamp_ms=0)) == RetentionVerdict(
        Action.SKIP, Reason.OTHER_LINEAGE
    )
    assert walk.offer(segment(0, 99, {0: 0}, state=DELETED)) == RetentionVerdict(
        Action.SKIP, Reason.SEEN
    )
    assert walk.offer(OLD).action == Action.DELETE


def test_the_new_log_start_follows_the_furthest_end_in_whatever_order_they_are_listed() -> None:
    walk = RetentionWalk(bounds(expired_up_to_ms=NOW_MS))

    for end in (104, 99):
        assert walk.offer(segment(0, end, {0: 0}, number=end)).action == Action.DELETE

    assert walk.new_log_start_offset == 105


def test_stale_segments_go_when_all_their_epochs_are_stale() -> None:
    walk = RetentionWalk(bounds({5: 0}))
    copied = segment(7, 8, {0: 7})
    walk_beside_a_copy = RetentionWalk(bounds({5: 0}, being_copied=[copied]))

    assert walk.offer_stale(segment(0, 9, {0: 0, 4: 5}), 5) == RetentionVerdict(
        Action.DELETE, Reason.STALE_EPOCH
    )
    assert walk.offer_stale(segment(0, 9, {0: 0, 4: 5}), 5).reason == Reason.SEEN
    assert walk.offer_stale(segment(1, 9, {0: 1, 5: 5}), 5).action == Action.SKIP
    assert walk.offer_stale(segment(2, 9, {0: 2, 5: 5}, state=DELETING), 5) == RetentionVerdict(
        Action.DELETE, Reason.INTERRUPTED
    )
    assert walk_beside_a_copy.offer_stale(copied, 5).reason == Reason.BEING_COPIED
    assert walk.new_log_start_offset is None


def test_the_size_of_the_lineage_counts_finished_segments_once() -> None:
    size = LineageSize(bounds({0: 0, 1: 50}))
    two_epochs = segment(0, 99, {0: 0, 1: 50}, size=1)

    for one in (
        two_epochs,
        segment(100, 199, {1: 100}, size=10),
        two_epochs,
        segment(0, 60, {0: 0}, size=100),  # Of another history.
        segment(200, 299, {1: 200}, size=1000, state=STARTED),
        segment(300, 399, {1: 300}, size=10_000, state=DELETING),
        segment(400, 499, {1: 400}, size=-1),  # Kafka lets a size be negative.
    ):
        size.add(one)

    assert size.size_in_bytes == 11
