"""The report's model of a log: kinds of segments, holes, overlaps, leaderships."""

from collections import Counter

import pytest

from tests.models.storage.partition_logs import (
    DELETED,
    DELETING,
    added,
    finished,
    folded,
    history,
    imported,
    opened,
    updated,
)
from tierledger.cli.pages.report.model import PartitionLog, SegmentKind, picture_of
from tierledger.events import log_events as log
from tierledger.events.errors import CorruptLog
from tierledger.events.partition.answers import lookup
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.pipeline.jobs.coverage.job import COVERAGE


def kinds(given: PartitionLog, epoch: int = 0) -> dict[int, SegmentKind]:
    picture = picture_of(given)
    lane = next(lane for lane in picture.lanes if lane.epoch == epoch)
    ids = [int.from_bytes(one.added.segment_id, "big") for one in picture.segments]
    return {ids[part.segment]: part.kind for part in lane.parts}


# What the segments of an epoch are.


def test_a_segment_that_answers_lookups_is_served() -> None:
    assert kinds(history(finished(1, 0, 9))) == {1: SegmentKind.SERVED}


def test_each_state_has_its_own_kind() -> None:
    bodies = [
        *finished(1, 0, 9),
        added(2, 10, 19),
        *finished(3, 20, 29),
        updated(3, DELETING),
        *finished(4, 30, 39),
        updated(4, DELETING),
        updated(4, DELETED),
    ]

    assert kinds(history(bodies)) == {
        1: SegmentKind.SERVED,
        2: SegmentKind.COPYING,
        3: SegmentKind.DELETING,
        4: SegmentKind.DELETED,
    }


def test_a_segment_whose_offsets_others_answer_for_is_superseded() -> None:
    bodies = [*finished(1, 0, 9), *finished(2, 0, 19)]

    assert kinds(history(bodies)) == {1: SegmentKind.SUPERSEDED, 2: SegmentKind.SERVED}


def test_a_segment_that_kafka_lost_is_recovered() -> None:
    # The shorter one takes the longer one's key, so Kafka finds nothing at 10 to 19 any more.
    bodies = [*finished(1, 0, 19), *finished(2, 20, 29), *finished(3, 0, 9)]

    assert kinds(history(bodies)) == {
        1: SegmentKind.RECOVERED,
        2: SegmentKind.SERVED,
        3: SegmentKind.SERVED,
    }


def test_of_two_lost_segments_the_one_that_finished_last_is_recovered() -> None:
    bodies = [
        *finished(9, 20, 29),
        *finished(1, 0, 19),
        *finished(2, 0, 19),
        *finished(3, 0, 9),
    ]

    assert kinds(history(bodies))[1] is SegmentKind.SUPERSEDED
    assert kinds(history(bodies))[2] is SegmentKind.RECOVERED


def test_a_segment_of_two_epochs_stands_in_both_lanes() -> None:
    given = history(finished(1, 0, 9, {3: 0, 5: 6}))

    lanes = picture_of(given).lanes

    spans = [(lane.epoch, part.start, part.end) for lane in lanes for part in lane.parts]
    assert spans == [(3, 0, 5), (5, 6, 9)]


def test_holes_and_overlaps_are_found_within_an_epoch_and_between_epochs() -> None:
    bodies = [
        *finished(1, 0, 9),
        *finished(2, 20, 29),
        *finished(3, 25, 34),
        *finished(4, 40, 49, {1: 40}),
    ]

    picture = picture_of(history(bodies))

    assert picture.holes == [(10, 19), (35, 39)]
    assert picture.lanes[0].holes == [(10, 19), (35, 39)]
    assert picture.lanes[0].overlaps == [(25, 29)]
    assert picture.needs_a_look


@pytest.mark.parametrize("trace", ["three-brokers-churn", "histories/seed-05"])
def test_a_page_counts_what_the_job_finds(trace: str) -> None:
    for one in imported(trace):
        picture = picture_of(one)
        made = COVERAGE.make().rows(folded(one))
        found = Counter(row[0] for row in made)

        assert (len(picture.holes), picture.overlaps) == (found["hole"], found["overlap"])
        assert sum(len(lane.holes) for lane in picture.lanes) == found["hole"]


def test_what_retention_deleted_at_the_start_is_no_hole() -> None:
    bodies = [
        *finished(1, 0, 9),
        *finished(2, 10, 19),
        updated(1, DELETING),
        updated(1, DELETED),
    ]

    picture = picture_of(history(bodies))

    assert picture.holes == []
    assert not picture.needs_a_look


def test_a_segment_that_came_back_has_two_lives() -> None:
    bodies = [*finished(1, 0, 9), updated(1, DELETING), updated(1, DELETED), *finished(1, 0, 9)]

    picture = picture_of(history(bodies))

    assert [one.kind for one in picture.segments] == [SegmentKind.SERVED, SegmentKind.DELETED]


def test_a_deleted_partition_keeps_its_segments_as_outlines() -> None:
    deletion = [log.PartitionDeleteUpdated(state, 1, 5) for state in range(3)]

    picture = picture_of(history([*finished(1, 0, 9), added(2, 10, 19), *deletion]))

    assert picture.kinds == {SegmentKind.DELETED: 2}
    assert [flag.text.split()[0] for flag in picture.timeline.flags] == [
        "DELETE_PARTITION_MARKED",
        "DELETE_PARTITION_STARTED",
        "DELETE_PARTITION_FINISHED",
    ]


def test_events_that_do_not_follow_each_other_are_refused() -> None:
    whole = history(finished(1, 0, 9))

    with pytest.raises(CorruptLog):
        picture_of(PartitionLog(whole.topic_id_partition, whole.events[1:]))


@pytest.mark.parametrize("trace", [f"histories/seed-{seed:02d}" for seed in range(0, 30, 5)])
def test_what_lookups_find_is_what_is_shown_as_served(trace: str) -> None:
    for one in imported(trace):
        picture, state = picture_of(one), folded(one)

        for lane in picture.lanes:
            first = min(part.start for part in lane.parts)
            last = max(part.end for part in lane.parts)
            found = {lookup(state, lane.epoch, at) for at in range(first, last + 1)} - {None}
            shown = {
                picture.segments[part.segment].added.segment_id
                for part in lane.parts
                if part.kind in {SegmentKind.SERVED, SegmentKind.RECOVERED}
            }
            assert {id_of_row(row) for row in found if row is not None} == shown


# Leaderships.


def test_each_session_lasts_until_it_is_closed_or_replaced() -> None:
    bodies = [
        opened(2, 2),
        log.SessionDisputed(2, None, 1, 4),
        log.SessionClosed(2, "shutdown"),
        opened(3, 3),
        *finished(1, 0, 9),
    ]

    timeline = picture_of(history(bodies)).timeline

    start = timeline.axis_ms[0]
    spans = [(one.opened_ms - start, one.ended_ms - start) for one in timeline.leaderships]
    assert spans == [(0, 1000), (1000, 3000), (4000, 6000)]
    assert [one.ending.split()[0] for one in timeline.leaderships] == [
        "replaced",
        "closed:",
        "still",
    ]
    assert timeline.disputes == 1
    assert timeline.leaderships[1].dispute is not None


def test_an_import_that_opens_before_recorded_time_does_not_stretch_the_axis() -> None:
    (one,) = imported("histories/seed-00")[:1]

    timeline = picture_of(one).timeline

    assert one.events[0].log_time_ms == 0
    assert timeline.axis_ms[0] == one.events[1].log_time_ms
    assert timeline.recorded
