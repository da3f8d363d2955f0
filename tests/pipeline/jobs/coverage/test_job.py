"""Holes, overlaps and orphans: planted one by one and found exactly, and nothing else."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.pipeline.folded_tables import imported, of_log, plan, rows_of, written
from tests.models.pipeline.planted_coverage import (
    COPYING,
    DELETED,
    DELETING,
    Range,
    Segment,
    bodies,
    by_offset,
    ranges,
)
from tests.models.storage.stored_partitions import StoredPartition, added, segment_id, updated
from tierledger.events.log_events import Body, PartitionDeleteUpdated, SegmentAdded
from tierledger.pipeline.jobs.coverage.job import COVERAGE
from tierledger.pipeline.jobs.coverage.rules import CoverageKind
from tierledger.pipeline.tables.lineage import lineage_of
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.memory import MemoryBackend


def held(*segments: Segment, then: Sequence[Body] = ()) -> StoredPartition:
    """A partition with these segments, as its leader has it."""

    async def run() -> StoredPartition:
        partition = await StoredPartition.led()
        if events := [*bodies(segments), *then]:
            await partition.append(events)
        return partition

    return asyncio.run(run())


def found_in(partition: StoredPartition) -> list[Range]:
    """What the job finds in a folded state."""
    rows = COVERAGE.make().rows(partition.state)
    identity = ("cluster", "topic", "id", 0)
    return ranges(row for chunk in COVERAGE.chunks(identity, rows) for row in chunk.rows())


def findings(partition: StoredPartition) -> list[Range]:
    """The findings; asserts that each single offset gives the same."""
    found = found_in(partition)
    assert found == by_offset(partition)
    return [one for one in found if one.kind != CoverageKind.COVERED]


def ten(number: int, epoch: int = 0, **others: int) -> Segment:
    """Segment `number`, of ten offsets."""
    return Segment(number, number * 10 + 9, {epoch: number * 10}, **others)


def ids(*segments: Segment) -> tuple[str, ...]:
    """Their ids in the order of a row: that of their bytes."""
    return tuple(one.text for one in sorted(segments, key=lambda one: segment_id(one.number)))


CLEAN = (ten(0), ten(1), Segment(2, 29, {0: 20, 1: 25}), ten(3, 1))


def test_a_log_that_is_there_once_is_covered_by_epoch_and_nothing_else() -> None:
    found = found_in(held(*CLEAN))

    assert found == [
        Range("covered", 0, 0, 24, 3, 2500, ()),
        Range("covered", 1, 25, 39, 2, 1500, ()),
    ]


TWICE = Segment(7, 19, {0: 6}, size=2800)
COPIES = (Segment(3, 14, {0: 5, 2: 10}), Segment(4, 19, {2: 10}))
STUCK = "unfinished", 0, 40, 49, 1, 1000, ids(ten(4))

PLANTED: dict[str, tuple[list[Segment], list[Range]]] = {
    "a hole": ([ten(0), ten(3), ten(4)], [Range("hole", 0, 10, 29, 0, 0, ())]),
    "an overlap with what it costs": (
        [ten(0), ten(1), TWICE],
        [Range("overlap", 0, 6, 19, 3, 1400, ids(ten(0), ten(1), TWICE))],
    ),
    # Epoch 1 wrote 10 to 29; epoch 2 knew nothing of it, and began at 10 as well.
    "an epoch that an unclean election gave up": (
        [ten(1, 1), ten(2, 1), Segment(8, 19, {0: 0, 2: 10}), Segment(9, 39, {2: 20})],
        [Range("orphaned_epoch", 1, 10, 29, 2, 2000, ids(ten(1, 1), ten(2, 1)))],
    ),
    "a copy that is not finished": (
        [ten(0), ten(1), ten(4, state=COPYING)],
        [Range(*STUCK, "COPY_SEGMENT_STARTED")],
    ),
    "a deletion that is not finished": (
        [ten(0), ten(1), ten(4, state=DELETING)],
        [Range(*STUCK, "DELETE_SEGMENT_STARTED")],
    ),
    "no hole where a tier begins late": (
        [*(ten(number, state=DELETED) for number in range(3)), ten(3), ten(4)],
        [],
    ),
    "no hole and no orphan for an epoch without records": (
        [ten(0), Segment(1, 19, {0: 10, 1: 15, 2: 15}), ten(2, 4)],
        [],
    ),
    # Epoch 1 was given up, though it is higher than 0 and holds the offset before epoch 2.
    "what a segment says of the epoch before counts first": (
        [Segment(1, 4, {0: 0}), Segment(2, 9, {1: 8}), *COPIES],
        [
            Range("orphaned_epoch", 1, 8, 9, 1, 1000, ids(Segment(2, 9, {1: 8}))),
            Range("overlap", 2, 10, 14, 2, 500, ids(*COPIES)),
        ],
    ),
    "an epoch that ends where the next begins counts before a higher one": (
        [ten(1, 1), ten(2, 1), Segment(9, 9, {2: 5}), ten(3, 3)],
        [Range("orphaned_epoch", 2, 5, 9, 1, 1000, ids(Segment(9, 9, {2: 5})))],
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found_and_nothing_else(name: str) -> None:
    segments, expected = PLANTED[name]

    assert findings(held(*segments)) == expected


def test_offsets_of_an_epoch_behind_its_end_are_found_and_nothing_else() -> None:
    first = Segment(0, 9, {0: 0})
    beyond = Segment(1, 19, {0: 10})

    found = findings(held(first, beyond, Segment(2, 29, {0: 5, 1: 14}), ten(3, 1)))

    assert [one for one in found if one.kind == "orphaned_epoch"] == [
        Range("orphaned_epoch", 0, 14, 19, 1, 600, (beyond.text,))
    ]
    assert {one.kind for one in found} == {"orphaned_epoch", "overlap"}


@pytest.mark.parametrize("state", [COPYING, DELETING, DELETED])
def test_what_is_not_finished_fills_no_hole(state: int) -> None:
    found = findings(held(ten(0), ten(1, state=state), ten(2)))

    assert Range("hole", 0, 10, 19, 0, 0, ()) in found


def test_what_lies_before_a_hole_at_the_border_of_epochs_is_not_orphaned() -> None:
    partition = held(ten(0), ten(1), ten(3, 1))

    assert findings(partition) == [Range("hole", 0, 20, 29, 0, 0, ())]
    # Nor do sizes and retention leave it out.
    lineage = lineage_of(partition.state)
    assert lineage is not None
    assert lineage.leader_epochs == {0: 0, 1: 30}


def test_a_partition_that_is_being_deleted_has_no_holes_and_no_orphans() -> None:
    marked = [PartitionDeleteUpdated(0, 1, 5)]
    partition = held(ten(0), ten(2, 1), ten(3), then=marked)

    assert [one.kind for one in found_in(partition)] == ["covered", "covered"]
    assert findings(partition) == []


def test_a_deleted_partition_and_one_without_segments_have_no_rows() -> None:
    gone = held(ten(0), then=[PartitionDeleteUpdated(state, 1, 5) for state in (0, 1, 2)])

    assert found_in(gone) == found_in(held()) == []


def test_several_kinds_at_once_are_all_found() -> None:
    found = findings(
        held(
            ten(0),
            ten(1, 1),
            ten(2, 1),
            Segment(30, 19, {0: 0, 2: 10}),
            ten(4, 2),
            Segment(31, 47, {2: 42}),
            ten(6, 2, state=COPYING),
        )
    )

    assert [one.kind for one in found] == [
        "hole",
        "orphaned_epoch",
        "overlap",
        "overlap",
        "unfinished",
    ]


def imported_by(*events: Body) -> StoredPartition:
    async def run() -> StoredPartition:
        partition = StoredPartition(MemoryBackend())
        await partition.open(imports=True)
        await partition.append(events)
        return partition

    return asyncio.run(run())


FIRST = SegmentAdded(segment_id(1), 0, 100, (0, 0), 1000, 5, 1, 5, None, False, (0, 1))
LOSING = (FIRST, updated(1, 1), added(2, 0, 200), updated(2, 1), updated(1, 1))
"""Kafka loses the second: the first takes its key again, when its finish is recorded again."""


def test_what_kafka_lost_makes_a_hole_where_it_lists_something_before() -> None:
    found = findings(imported_by(*LOSING, added(3, 300, 400), updated(3, 1)))

    assert [(one.kind, one.start, one.end) for one in found] == [
        ("hole", 201, 299),
        ("overlap", 0, 100),
    ]


def test_what_kafka_lost_is_left_over_where_it_lists_nothing_before() -> None:
    gone = (updated(1, 2), updated(1, 3))

    found = findings(imported_by(*LOSING, added(3, 300, 400), updated(3, 1), *gone))

    assert [(one.kind, one.start, one.end, one.detail) for one in found] == [
        ("recovered", 0, 200, None)
    ]


IMPOSSIBLE = (
    (
        Segment(1, 30, {3: 20, 4: 10, 5: 5}),
        Segment(2, 8, {3: 0, 7: 40}),
        Segment(3, 5, {2: -7}),
        Segment(4, 60, {3: 50, 6: 40}),
    ),
    (Segment(1, 60, {2: 0, 4: 30, 6: 20}), Segment(2, 40, {4: 35})),
)
"""Offsets that go back as epochs go up, epochs that begin behind the end, negative offsets."""


@pytest.mark.parametrize("segments", IMPOSSIBLE)
def test_epochs_that_no_leader_can_have_written_end_no_job(segments: list[Segment]) -> None:
    partition = held(*segments)

    found = found_in(partition)

    covered = sorted((one.start, one.end) for one in found if one.kind == "covered")
    assert {one.kind for one in found} <= set(CoverageKind)
    assert all(before[1] < after[0] for before, after in pairwise(covered))
    assert all(one.start <= one.end for one in found)


@pytest.mark.parametrize("trace", ["three-brokers-churn", "topic-deletion", "one-broker"])
def test_of_real_logs_each_offset_by_itself_says_the_same(trace: str, tmp_path: Path) -> None:
    store, partitions = imported(tmp_path / "s", trace)

    rows = rows_of(plan(COVERAGE, store))

    for partition in partitions:
        assert ranges(of_log(rows, partition)) == by_offset(partition), partition.tip
    if trace == "three-brokers-churn":
        # What Kafka lost before the log's start makes no hole of what retention deleted.
        kinds = Counter((row["kind"], row["detail"]) for row in rows)
        assert kinds["recovered", None] == 12
        assert kinds["orphaned_epoch", None] == 9
        assert kinds["hole", None] == 0


def test_more_ids_than_a_row_holds_are_counted() -> None:
    given_up = [ten(number, 1) for number in range(1, 151)]
    last = Segment(200, 19, {0: 0, 2: 10})

    (found,) = findings(held(*given_up, last))

    assert (found.segments, len(found.ids)) == (150, 100)


@st.composite
def tiers(draw: st.DrawFn) -> list[Segment]:
    """Segments that a tier may hold after elections of both kinds and some deletions."""
    log: list[int] = []
    made: list[Segment] = []
    numbers = iter(range(1, 1000))
    for epoch in range(draw(st.integers(1, 4))):
        is_unclean = draw(st.booleans())
        if log and is_unclean:  # An unclean election gives up the end.
            del log[draw(st.integers(0, len(log) - 1)) :]
        log += [epoch] * draw(st.integers(0, 9))
        for _ in range(draw(st.integers(0, 3))):
            if not log:
                continue
            start = draw(st.integers(0, len(log) - 1))
            end = draw(st.integers(start, min(len(log) - 1, start + 8)))
            epochs: dict[int, int] = {}
            for offset in range(start, end + 1):
                epochs.setdefault(log[offset], offset)
            state = draw(st.sampled_from([COPYING, 1, 1, 1, 1, DELETING, DELETED]))
            size = draw(st.integers(0, 50))
            made.append(Segment(next(numbers), end, epochs, state, size))
    return made


@given(tiers())
def test_of_any_log_each_offset_by_itself_says_the_same(segments: list[Segment]) -> None:
    findings(held(*segments))


def test_the_rows_are_those_of_a_store(tmp_path: Path) -> None:
    async def fill(backend: MetadataStorageBackend) -> None:
        partition = await StoredPartition.led(backend)
        await partition.append(bodies([ten(0), ten(2)]))

    rows = rows_of(plan(COVERAGE, written(tmp_path / "s", fill)))

    assert [(row["topic"], row["partition"], row["kind"]) for row in rows] == [
        ("orders", 3, "covered"),
        ("orders", 3, "covered"),
        ("orders", 3, "hole"),
    ]
