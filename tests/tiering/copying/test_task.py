"""The copy task: which segments, in which order, and what it reports."""

import asyncio
from pathlib import Path

import pytest

from tests.models.tiering.copy_world import SEGMENT_BYTES, CopyWorld, lay_out
from tests.models.tiering.planned_faults import When
from tests.models.tiering.retention_world import FINISHED, NOW_MS, STARTED, TIP
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    StorageUnavailable,
)
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata
from tierledger.pipeline.jobs.coverage.rules import CoverageKind, coverage_of
from tierledger.tiering.copying.copy_lag import CopyLag
from tierledger.tiering.copying.quota import CopyQuota
from tierledger.tiering.copying.task import CopyResult, CopySettings, candidate_segments
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.metrics.tier_metrics import (
    COPY_BYTES,
    COPY_ERRORS,
    COPY_LAG_BYTES,
    COPY_LAG_SEGMENTS,
    COPY_REQUESTS,
    KEPT_LOCAL_BYTES,
    KEPT_LOCAL_SEGMENTS,
)

NO_SEGMENT = CopyResult()
ADD = "add_remote_log_segment_metadata"
UPDATE = "update_remote_log_segment_metadata"


@pytest.fixture
def world(tmp_path: Path) -> CopyWorld:
    return CopyWorld(tmp_path)


@pytest.mark.parametrize(
    ("bases", "stable", "expected"),
    [
        ((5, 10, 15), 20, [(5, 10), (10, 15)]),  # The active one never goes.
        ((5, 10, 15, 20), 15, [(5, 10), (10, 15)]),  # 15 may hold what is not decided.
        ((5, 10, 15), 14, [(5, 10)]),
        ((5, 10, 15), 9, []),
        ((5,), 20, []),
    ],
)
def test_segments_below_the_last_stable_offset_may_go(
    tmp_path: Path, bases: tuple[int, ...], stable: int, expected: list[tuple[int, int]]
) -> None:
    segments = lay_out(tmp_path, bases, end=25)

    found = candidate_segments(segments, 5, stable)

    assert [(one.base_offset, one.next_base_offset) for one in found] == expected


@pytest.mark.parametrize(("start", "first"), [(0, 5), (5, 5), (9, 5), (10, 10), (14, 10)])
def test_the_first_offsets_segment_goes_whole(tmp_path: Path, start: int, first: int) -> None:
    segments = lay_out(tmp_path, (5, 10, 15), end=25)

    assert candidate_segments(segments, start, 25)[0].base_offset == first


@pytest.mark.parametrize(("stable", "end"), [(250, 300), (150, 150)])
async def test_a_segment_is_copied_and_finished(tmp_path: Path, stable: int, end: int) -> None:
    world = CopyWorld(tmp_path, (0, 150), stable=stable, end=end)

    result = await world.task().run_once()

    added, *updates = world.store.written
    assert isinstance(added, RemoteLogSegmentMetadata)
    assert added.state == STARTED
    assert (added.start_offset, added.end_offset) == (0, 149)
    assert added.segment_leader_epochs == {0: 0, 1: 100}
    assert (added.segment_size_in_bytes, added.max_timestamp_ms) == (SEGMENT_BYTES, NOW_MS)
    assert (added.broker_id, added.txn_index_empty) == (1, True)
    assert world.storage.copied == [added]
    assert [one.state for one in updates] == [FINISHED]
    assert world.log.highest_offset_in_remote_storage == 149
    assert result == CopyResult(1, SEGMENT_BYTES)
    assert world.counted(COPY_BYTES) == 10
    assert world.counted(COPY_REQUESTS) == 1
    assert world.counted(COPY_ERRORS) == 0


async def test_the_calls_come_in_the_one_order_that_survives_a_crash(world: CopyWorld) -> None:
    await world.task().run_once()

    assert world.faults.calls == [
        "partition_summary",
        *["list_remote_log_segments"] * 3,
        *["highest_offset_for_epoch"] * 3,
        *[ADD, "partition_summary", "copy log", "copy indexes", UPDATE] * 2,
    ]


async def test_all_files_go_along_with_the_epochs_up_to_the_end(world: CopyWorld) -> None:
    await world.task().run_once()

    first, second = world.segments()
    copied = world.storage.indexes[second.remote_log_segment_id.id]
    assert second.segment_leader_epochs == {1: 150, 2: 200}
    assert world.storage.logs[second.remote_log_segment_id.id] == b"0000000150"
    assert copied == {
        IndexType.OFFSET: b".index",
        IndexType.TIMESTAMP: b".timeindex",
        IndexType.PRODUCER_SNAPSHOT: b"snapshot",
        IndexType.LEADER_EPOCH: b"0\n3\n0 0\n1 100\n2 200\n",
    }
    before = world.storage.indexes[first.remote_log_segment_id.id]
    assert before[IndexType.LEADER_EPOCH] == b"0\n2\n0 0\n1 100\n"


@pytest.mark.parametrize(("content", "is_empty"), [(b"", True), (b"aborted", False)])
async def test_a_transaction_index_goes_along_if_something_is_in_it(
    world: CopyWorld, content: bytes, is_empty: bool
) -> None:
    world.log.local[0].log_file.with_suffix(".txnindex").write_bytes(content)

    await world.task().run_once()

    segment = world.segments()[0]
    assert segment.txn_index_empty == is_empty
    indexes = world.storage.indexes[segment.remote_log_segment_id.id]
    assert (IndexType.TRANSACTION in indexes) != is_empty


async def test_a_later_run_asks_once_and_goes_on_where_it_was(world: CopyWorld) -> None:
    task = world.task()
    await task.run_once()
    world.faults.restart()

    assert await task.run_once() == NO_SEGMENT
    assert world.faults.calls == ["partition_summary"]

    world.log.local = lay_out(world.folder / "disk-1", (0, 150, 250, 300), end=310)
    world.log.last_stable_offset = world.log.log_end_offset = 310
    assert (await task.run_once()).segments == 1
    assert world.finished() == [(0, 149), (150, 249), (250, 299)]


async def test_a_new_leader_goes_on_with_the_next_offsets_segment(world: CopyWorld) -> None:
    await world.task().run_once()
    world.log.local = lay_out(world.folder / "disk-1", (0, 200, 280), end=300)

    await world.task(broker_id=2).run_once()

    assert world.finished() == [(0, 149), (150, 249), (200, 279)]
    assert world.log.highest_offset_in_remote_storage == 279


async def test_what_lies_before_the_logs_start_is_not_copied(world: CopyWorld) -> None:
    await world.log.raise_log_start_offset(160)

    await world.task().run_once()

    (segment,) = world.segments()
    assert (segment.start_offset, segment.end_offset) == (150, 249)
    assert segment.segment_leader_epochs == {1: 160, 2: 200}


async def test_a_new_leader_raises_the_logs_start_to_the_tiers_start(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path, (150, 250))
    await world.task().run_once()
    world.log.log_start_offset = 0

    await world.task().run_once()

    assert world.log.log_start_offset == 150


async def test_nothing_is_copied_of_a_log_in_which_nothing_is_stable(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path, stable=0)

    assert await world.task().run_once() == NO_SEGMENT
    assert world.segments() == []


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("error", [NotReady("catching up"), OutcomeUnknown("no answer")])
async def test_not_ready_is_no_failure(world: CopyWorld, number: int, error: Exception) -> None:
    task = world.task()
    world.faults.fail_call(number, When.BEFORE, error)

    assert await task.run_once() == CopyResult(is_ready=False)

    assert world.segments() == []
    assert world.storage.ids == set()
    assert world.counted(COPY_ERRORS) == 0
    assert (await task.run_once()).segments == 2


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_a_segment_missing_a_file_is_unannounced(world: CopyWorld, suffix: str) -> None:
    name = f"{0:020}"
    (world.folder / "disk-1" / f"{name}{suffix}").unlink()

    with pytest.raises(InvalidArgument, match=f"{name}.{suffix[1:]}: expected a file"):
        await world.task().run_once()

    assert world.segments() == []
    assert world.counted(COPY_ERRORS) == 1


async def test_a_log_that_moved_to_another_disk_is_looked_at_anew(world: CopyWorld) -> None:
    task = world.task()
    await task.run_once()
    world.log.local = lay_out(world.folder / "disk-2", (0, 150, 250), end=300)
    world.log.highest_offset_in_remote_storage = -1
    world.faults.restart()

    await task.run_once()

    assert "highest_offset_for_epoch" in world.faults.calls
    assert world.log.highest_offset_in_remote_storage == 249
    assert world.finished() == [(0, 149), (150, 249)]


async def test_a_copy_under_way_can_be_told_from_one_that_is_not(world: CopyWorld) -> None:
    task = world.task()
    run, gate = await world.held_copy(task)

    (announced,) = world.segments()
    assert task.being_copied() == {announced.remote_log_segment_id}

    task.stop("not the leader any more")
    gate.set()
    assert (await run).segments == 1
    assert task.being_copied() == frozenset()
    assert world.finished() == [(0, 149)]
    assert await task.run_once() == NO_SEGMENT


@pytest.mark.parametrize("last", RemotePartitionDeleteState)
async def test_a_partition_that_is_being_deleted_is_not_copied(
    world: CopyWorld, last: RemotePartitionDeleteState
) -> None:
    for state in list(RemotePartitionDeleteState)[: last + 1]:
        deletion = RemotePartitionDeleteMetadata(TIP, state, 0, 1)
        await world.store.put_remote_partition_delete_metadata(deletion)
    task = world.task()

    assert await task.run_once() == NO_SEGMENT

    assert task.is_stopped
    assert "deletion" in (task.stop_reason or "")
    assert world.segments() == []
    assert world.storage.ids == set()
    assert world.counted(COPY_ERRORS) == 0


@pytest.mark.parametrize(
    ("bases", "stable", "copied"),
    [((0, 100, 200, 250), 150, [(0, 99)]), ((0, 150, 250), 0, [])],
    ids=["after a copy", "before anything is copied"],
)
async def test_the_lag_is_what_is_closed_and_not_remote(
    tmp_path: Path, bases: tuple[int, ...], stable: int, copied: list[tuple[int, int]]
) -> None:
    world = CopyWorld(tmp_path, bases, stable=stable)

    await world.task().run_once()

    assert world.finished() == copied
    assert world.counted(COPY_LAG_SEGMENTS) == 2
    assert world.counted(COPY_LAG_BYTES) == 2 * SEGMENT_BYTES


async def test_the_lag_goes_down_with_each_copy(world: CopyWorld) -> None:
    world.faults.fail_call(12, When.BEFORE, StorageUnavailable("away"))

    with pytest.raises(StorageUnavailable):
        await world.task().run_once()

    assert world.finished() == [(0, 149)]
    assert world.counted(COPY_LAG_SEGMENTS) == 1
    assert world.counted(COPY_LAG_BYTES) == SEGMENT_BYTES


async def test_what_the_copy_lag_keeps_is_told_and_goes_when_its_time_comes(
    world: CopyWorld,
) -> None:
    task = world.task(CopySettings(copy_lag=CopyLag(ms=1000)))
    world.clock.time_ms = NOW_MS + 999  # NOW_MS is the time of all records.

    assert await task.run_once() == CopyResult(kept_local=2)
    # Kafka counts as lag what stays on purpose; what is really late is the difference.
    assert world.counted(COPY_LAG_SEGMENTS) == world.counted(KEPT_LOCAL_SEGMENTS) == 2
    assert world.counted(COPY_LAG_BYTES) == world.counted(KEPT_LOCAL_BYTES)
    assert world.segments() == []

    world.clock.time_ms += 1
    assert await task.run_once() == CopyResult(2, 2 * SEGMENT_BYTES)
    assert world.counted(KEPT_LOCAL_SEGMENTS) == world.counted(KEPT_LOCAL_BYTES) == 0


async def test_the_copy_lag_of_a_topic_may_change_between_runs(world: CopyWorld) -> None:
    task = world.task(CopySettings(copy_lag=CopyLag(ms=-1, size=SEGMENT_BYTES + 1)))

    assert await task.run_once() == CopyResult(1, SEGMENT_BYTES, kept_local=1)
    # What stays is not announced: no copy of it can be late, and the tier has no hole.
    assert [one.state for one in world.segments()] == [FINISHED]
    assert {row.kind for row in coverage_of(world.ledger.state(TIP))} == {CoverageKind.COVERED}

    task.copy_lag = CopyLag()
    assert await task.run_once() == CopyResult(1, SEGMENT_BYTES)


async def test_a_quota_spreads_copies_over_time(world: CopyWorld) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()

    await world.task(quota=CopyQuota(SEGMENT_BYTES * 20)).run_once()

    assert loop.time() - begun >= 0.05 * 0.99
    assert world.finished() == [(0, 149), (150, 249)]


@pytest.mark.parametrize("rate", [0, -1])
def test_a_quota_of_nothing_is_refused(rate: int) -> None:
    with pytest.raises(InvalidArgument, match=f"expected 1 or more, got {rate}"):
        CopyQuota(rate)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="expected 0 to 2147483647, got -1"):
        CopySettings(custom_metadata_max_bytes=-1)
    with pytest.raises(InvalidArgument, match="0 ms or more, got -5"):
        CopySettings(dangling_copy_grace_ms=-5)
