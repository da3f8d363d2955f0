"""Runs of retention: what they ask, count and tell, and how they end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from typing_extensions import override

from tests.models.tiering.memory_storage import MemoryStorage
from tests.models.tiering.planned_faults import When
from tests.models.tiering.retention_world import (
    DELETING,
    HOUR_MS,
    LINEAGE,
    NOW_MS,
    SIZE,
    TIP,
    RetentionWorld,
    add_fifty,
    reasons,
)
from tierledger.events.errors import Fenced, NotReady, PartitionDeleted, StorageUnavailable
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.metrics.tier_metrics import (
    DELETE_ERRORS,
    DELETE_LAG_BYTES,
    DELETE_LAG_SEGMENTS,
    DELETE_REQUESTS,
    METADATA_COUNT,
    SIZE_BYTES,
    SIZE_COMPUTATION_MS,
)
from tierledger.tiering.retention import expiration_task
from tierledger.tiering.retention.expiration_task import RetentionResult
from tierledger.tiering.retention.walk import Reason

ASKED_WHEN_NOTHING_IS_DUE = ["partition_summary", "list_remote_log_segments"]


# What is asked.


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes"),
    [(HOUR_MS, -1), (-1, 50 * SIZE), (HOUR_MS, 49 * SIZE + 1), (-1, -1)],
)
async def test_with_nothing_due_it_asks_twice(retention_ms: int, retention_bytes: int) -> None:
    world = RetentionWorld({0: 0}, end=5000)
    await world.add_hundreds(*range(0, 5000, 100))

    result = await world.task(retention_ms, retention_bytes).run_once()

    assert result == RetentionResult((), None, is_complete=True)
    assert world.faults.calls == ASKED_WHEN_NOTHING_IS_DUE
    assert world.metrics.value(SIZE_COMPUTATION_MS, TIP) == 0


async def test_epochs_without_segments_are_not_asked_about() -> None:
    world = RetentionWorld({epoch: epoch * 10 for epoch in range(50)}, end=1000)
    await world.add(490, 499, {49: 490})

    await world.task(retention_ms=HOUR_MS).run_once()

    assert world.faults.calls == ASKED_WHEN_NOTHING_IS_DUE


async def test_an_empty_tier_is_asked_about_once() -> None:
    world = RetentionWorld()

    await world.task(retention_ms=0, retention_bytes=0).run_once()

    assert world.faults.calls == ["partition_summary"]


async def test_a_log_without_epochs_keeps_all_but_what_was_being_deleted() -> None:
    world = RetentionWorld()
    world.log.leader_epochs.clear()
    await world.add(0, 99, {0: 0})
    await world.add(100, 199, {0: 100}, state=DELETING)

    await world.task(retention_ms=0, retention_bytes=0).run_once()

    assert world.left() == [(0, 99)]


# What is counted, told and refused.


class WatchedStorage(MemoryStorage):
    """Notes the lag of deletions at the beginning of each."""

    def __init__(self, world: RetentionWorld) -> None:
        super().__init__(world.faults)
        self.logs, self.indexes = world.storage.logs, world.storage.indexes
        self._metrics = world.metrics
        self.lags: list[tuple[int, int]] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.locked: RemoteLogSegmentMetadata | None = None

    @override
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        lag = DELETE_LAG_BYTES, DELETE_LAG_SEGMENTS
        found = [self._metrics.value(metric, TIP) for metric in lag]
        self.lags.append((found[0], found[1]))
        self.begun.set()
        await self.gate.wait()
        if self.locked and self.locked.remote_log_segment_id == metadata.remote_log_segment_id:
            raise StorageUnavailable("the object is locked")
        await super().delete_log_segment_data(metadata)


async def two_old() -> tuple[RetentionWorld, WatchedStorage]:
    world = RetentionWorld(end=300)
    await world.add(0, 99, {0: 0}, age_ms=HOUR_MS)
    await world.add(100, 199, {0: 100}, age_ms=HOUR_MS)
    await world.add(200, 299, {0: 200})
    storage = WatchedStorage(world)
    world.storage = storage
    return world, storage


async def test_the_lag_goes_down_with_each_deletion() -> None:
    world, storage = await two_old()

    await world.task(retention_ms=HOUR_MS).run_once()

    assert storage.lags == [(2048, 2), (1024, 1)]
    assert world.metrics.value(DELETE_LAG_BYTES, TIP) == 0
    assert world.metrics.value(DELETE_LAG_SEGMENTS, TIP) == 0
    assert world.metrics.value(DELETE_REQUESTS, TIP) == 2
    assert world.metrics.value(DELETE_ERRORS, TIP) == 0


async def test_the_size_is_renewed_at_every_check() -> None:
    world, _ = await two_old()
    task = world.task(retention_ms=HOUR_MS)

    sizes = []
    for _ in range(2):
        await task.run_once()
        sizes.append([world.metrics.value(one, TIP) for one in (SIZE_BYTES, METADATA_COUNT)])

    assert sizes == [[3 * SIZE, 3], [SIZE, 1]]


async def test_the_index_cache_is_told_of_what_is_gone() -> None:
    world, _ = await two_old()

    result = await world.task(retention_ms=HOUR_MS).run_once()

    gone = [one.segment.remote_log_segment_id for one in result.deleted]
    assert len(gone) == 2
    assert world.without_indexes == gone


async def test_a_cache_that_is_closed_is_no_reason_to_keep_a_segment(tmp_path: Path) -> None:
    world, _ = await two_old()
    async with RemoteIndexCache(tmp_path, world.storage) as cache:
        pass
    deletions = CountedDeletions(
        world.store, world.storage, world.clock, 1, world.metrics, cache.remove
    )

    result = await world.task_with(deletions, retention_ms=HOUR_MS).run_once()

    assert len(result.deleted) == 2


async def test_a_failure_counts_no_more_once_the_segment_is_not_due() -> None:
    world, _ = await two_old()
    first = world.ledger.segments(TIP)[0].remote_log_segment_id
    task = world.task(retention_ms=HOUR_MS)
    world.faults.fail_next("delete indexes", When.BEFORE, StorageUnavailable("away"))
    with pytest.raises(StorageUnavailable):
        await task.run_once()

    world.being_copied = {first}
    without = await task.run_once()
    world.being_copied = set()
    after = await task.run_once()

    assert without.deleted == ()
    assert [start for start, _ in reasons(after)] == [0, 100]


# What happens during the sum for retention.bytes.


def during_the_sum(
    world: RetentionWorld, patch: pytest.MonkeyPatch, work: Callable[[], Awaitable[object]]
) -> None:
    """Let `work` be done before the second list is read: the first is the walk's."""
    listed = world.store.list_remote_log_segments
    lists = 0

    async def slowly(
        tip: TopicIdPartition, leader_epoch: int | None = None
    ) -> AsyncIterator[RemoteLogSegmentMetadata]:
        nonlocal lists
        lists += 1
        if lists == 2:
            await work()
        async for segment in listed(tip, leader_epoch):
            yield segment

    patch.setattr(world.store, "list_remote_log_segments", slowly)


async def test_a_copy_during_the_sum_deletes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = RetentionWorld(end=1000)
    await world.add_hundreds(0, 100, 200, 300)
    during_the_sum(world, monkeypatch, lambda: world.add(400, 499, {0: 400}))
    task = world.task(retention_bytes=3 * SIZE)

    first = await task.run_once()
    await world.add(500, 599, {0: 500})
    second = await task.run_once()

    assert [start for start, _ in reasons(first)] == [0, 100]
    assert [start for start, _ in reasons(second)] == [200]


async def test_the_time_of_the_sum_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = RetentionWorld(end=1000)
    await world.add_hundreds(0, 100)

    async def passes() -> None:
        world.passed_s += 0.25

    during_the_sum(world, monkeypatch, passes)
    task = world.task(retention_bytes=SIZE)

    told = []
    for _ in range(2):
        await task.run_once()
        told.append(world.metrics.value(SIZE_COMPUTATION_MS, TIP))

    assert told == [250, 0]  # The second run needs no sum.


# How runs end.


async def test_a_task_that_is_cancelled_finishes_the_deletion_it_is_at() -> None:
    world, storage = await two_old()
    storage.gate.clear()
    task = world.task(retention_ms=HOUR_MS)

    run = asyncio.ensure_future(task.run_once())
    await storage.begun.wait()
    task.cancel()
    storage.gate.set()
    result = await run

    assert reasons(result) == [(0, Reason.TIME)]
    assert not result.is_complete
    assert world.left() == [(100, 199), (200, 299)]
    assert world.metrics.value(DELETE_LAG_SEGMENTS, TIP) == 1
    world.check_agreement()


async def test_a_task_that_was_cancelled_before_deletes_nothing() -> None:
    world, storage = await two_old()
    task = world.task(retention_ms=HOUR_MS)
    task.cancel()

    result = await task.run_once()

    assert result == RetentionResult((), None, is_complete=False)
    assert world.log.log_start_offset == 0
    assert storage.lags == []


async def test_a_failed_deletion_ends_the_run_and_is_tried_last_by_the_next() -> None:
    world, _ = await two_old()
    task = world.task(retention_ms=HOUR_MS)
    error = StorageUnavailable("the bucket is away")
    world.faults.fail_next("delete indexes", When.BEFORE, error)

    with pytest.raises(StorageUnavailable, match="away"):
        await task.run_once()

    assert world.log.log_start_offset == 200
    assert world.metrics.value(DELETE_ERRORS, TIP) == 1
    assert world.metrics.value(DELETE_LAG_SEGMENTS, TIP) == 2
    assert len(world.left()) == 3
    result = await task.run_once()
    assert [start for start, _ in reasons(result)] == [100, 0]
    assert world.left() == [(200, 299)]
    world.check_agreement()


async def test_one_lasting_failure_holds_up_nobody_else() -> None:
    world, storage = await two_old()
    storage.locked = world.ledger.segments(TIP)[0]
    task = world.task(retention_ms=HOUR_MS)

    for left in ([0, 100, 200], [0, 200], [0, 200]):
        with pytest.raises(StorageUnavailable, match="locked"):
            await task.run_once()
        assert [start for start, _ in world.left()] == left

    storage.locked = None
    assert reasons(await task.run_once()) == [(0, Reason.INTERRUPTED)]
    world.check_agreement()


async def test_metadata_that_cannot_be_asked_leaves_all_as_it_is() -> None:
    world, _ = await two_old()
    world.faults.fail_next("partition_summary", When.BEFORE, NotReady("still loading"))

    with pytest.raises(NotReady):
        await world.task(retention_ms=0).run_once()

    assert len(world.left()) == 3
    assert world.metrics.value(DELETE_ERRORS, TIP) == 0


async def test_a_log_start_that_cannot_be_raised_keeps_everything() -> None:
    world, storage = await two_old()
    error = StorageUnavailable("the disk is full")
    world.faults.fail_next("raise_log_start_offset", When.BEFORE, error)

    with pytest.raises(StorageUnavailable, match="disk"):
        await world.task(retention_ms=HOUR_MS).run_once()

    assert storage.lags == []
    assert len(world.left()) == 3


async def test_a_deleted_partition_has_no_series_any_more() -> None:
    world, _ = await two_old()
    task = world.task()
    await task.run_once()
    for state in RemotePartitionDeleteState:
        deletion = RemotePartitionDeleteMetadata(TIP, state, NOW_MS, 1)
        await world.store.put_remote_partition_delete_metadata(deletion)

    with pytest.raises(PartitionDeleted):
        await task.run_once()

    assert world.metrics.value(SIZE_BYTES, TIP) == 0


async def test_who_leads_no_more_has_no_series_of_the_partition_any_more() -> None:
    world, _ = await two_old()
    task = world.task(retention_ms=HOUR_MS)
    world.ledger.open_session(TIP, 2)

    with pytest.raises(Fenced):
        await task.run_once()

    text = generate_latest(world.metrics.registry).decode()
    assert f'"{TIP.topic}"' not in text


async def test_a_run_is_bounded_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiration_task, "SEGMENTS_PER_RUN_MAX", 20)
    world = RetentionWorld(LINEAGE, end=5000)
    await add_fifty(world, old=50)
    task = world.task(retention_ms=HOUR_MS)

    runs = [await task.run_once() for _ in range(3)]

    assert [len(one.deleted) for one in runs] == [20, 20, 10]
    assert [one.log_start_offset for one in runs] == [2000, 4000, 5000]
    assert [one.is_complete for one in runs] == [False, False, True]
    world.check_agreement()
