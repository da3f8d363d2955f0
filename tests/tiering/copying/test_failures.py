"""Copies that fail, at every call and on either side of it, and what is left of them.

At each moment: what is finished has its data, and no offset counts as remote that is not in a
finished segment. In the end, when nothing fails any more: metadata and storage know the same
segments, all of them finished.
"""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from tests.models.tiering.copy_world import CopyWorld, until_done
from tests.models.tiering.planned_faults import Killed, When
from tests.models.tiering.retention_world import FINISHED, STARTED, TIP
from tierledger.events.errors import (
    Fenced,
    InvalidStateTransition,
    NotLeader,
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.tiering.copying.task import CopyResult, CopySettings
from tierledger.tiering.deletion.segment_deletion import delete_segment
from tierledger.tiering.metrics.tier_metrics import COPY_ERRORS

DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
ALL = [(0, 149), (150, 249)]
ADD = "add_remote_log_segment_metadata"
UPDATE = "update_remote_log_segment_metadata"
AWAY = StorageUnavailable("away")
UNKNOWN = OutcomeUnknown("no answer")
CALLS = 17
"""Of a run that copies two segments: seven questions, and five calls for each."""

SIDES = list(When)


@pytest.fixture
def world(tmp_path: Path) -> CopyWorld:
    return CopyWorld(tmp_path)


async def finish_deletions(world: CopyWorld) -> None:
    """Complete interrupted deletions, as retention does."""
    for one in world.segments():
        if one.state == DELETING:
            await delete_segment(world.store, world.storage, one, 1, world.clock)


async def test_the_calls_of_a_run_are_as_many_as_the_tests_here_fail(world: CopyWorld) -> None:
    await world.task().run_once()

    assert len(world.faults.calls) == CALLS


@pytest.mark.parametrize("when", SIDES)
@pytest.mark.parametrize("number", range(CALLS))
async def test_after_any_failure_runs_go_on(world: CopyWorld, number: int, when: When) -> None:
    task = world.task()
    # "It did not happen" is believed; of what did happen only "unknown" is true.
    world.faults.fail_call(number, when, AWAY if when == When.BEFORE else UNKNOWN)
    failed = number >= 7

    try:
        assert await task.run_once() == CopyResult(is_ready=False)
    except RemoteStorageError:
        assert failed

    world.check_readable()
    assert world.counted(COPY_ERRORS) == failed
    await until_done(world, task)
    await finish_deletions(world)
    world.check_agreement()
    assert world.log.highest_offset_in_remote_storage == 249


@pytest.mark.parametrize("second", range(8, CALLS + 6))
@pytest.mark.parametrize("when", SIDES)
@pytest.mark.parametrize("first", ["copy log", "copy indexes", UPDATE])
async def test_a_clean_up_that_fails_as_well_leaves_nothing_for_ever(
    world: CopyWorld, first: str, when: When, second: int
) -> None:
    task = world.task()
    world.faults.fail_next(first, when, AWAY if when == When.BEFORE else UNKNOWN)
    world.faults.fail_call(second, when, UNKNOWN)

    for _ in range(3):
        try:
            await task.run_once()
        except RemoteStorageError:
            world.check_readable()

    await until_done(world, task)
    await finish_deletions(world)
    world.check_agreement()
    assert {one.start_offset for one in world.segments()} == {0, 150}


@pytest.mark.parametrize("when", SIDES)
@pytest.mark.parametrize("number", range(CALLS))
async def test_killed_copies_are_cleaned_up(world: CopyWorld, number: int, when: When) -> None:
    world.faults.fail_call(number, when, Killed())
    with pytest.raises(Killed):
        await world.task().run_once()
    world.check_readable()

    task = world.restart()
    await until_done(world, task)

    world.check_agreement()
    assert sorted(world.finished()) == ALL


async def test_a_failed_copy_is_removed_and_retried_under_a_new_id(world: CopyWorld) -> None:
    task = world.task()
    broken = StorageUnavailable("the bucket is away")
    world.faults.fail_next("copy indexes", When.BEFORE, broken)

    with pytest.raises(StorageUnavailable) as caught:
        await task.run_once()

    assert caught.value is broken
    added, *updates = world.store.written
    assert world.storage.deleted == [added]
    assert [one.state for one in updates] == [DELETING, DELETED]
    assert world.segments() == []
    assert world.counted(COPY_ERRORS) == 1
    assert (await task.run_once()).segments == 2
    assert len({one.remote_log_segment_id for one in world.segments()}) == 2
    assert added.topic_id_partition == TIP
    world.check_agreement()


async def test_a_finish_refused_for_now_is_taken_back_at_once(world: CopyWorld) -> None:
    task = world.task()
    world.storage.custom_metadata = b"where it is"
    world.faults.fail_next(UPDATE, When.BEFORE, AWAY)

    with pytest.raises(StorageUnavailable):
        await task.run_once()

    assert world.store.updates() == [DELETING, DELETED]
    (deleted,) = world.storage.deleted
    assert deleted.custom_metadata == CustomMetadata(b"where it is")
    assert world.segments() == []
    assert world.storage.ids == set()


async def test_a_local_file_that_vanishes_makes_a_failed_copy(world: CopyWorld) -> None:
    run, gate = await world.held_copy(world.task())
    world.log.local[0].log_file.unlink()
    gate.set()

    with pytest.raises(FileNotFoundError):
        await run

    assert world.segments() == []
    assert world.counted(COPY_ERRORS) == 1


async def test_nothing_is_removed_that_may_have_finished(world: CopyWorld) -> None:
    task = world.task()
    world.faults.fail_next(UPDATE, When.AFTER, UNKNOWN)

    with pytest.raises(OutcomeUnknown):
        await task.run_once()

    assert world.storage.deleted == []
    assert world.finished() == [(0, 149)]
    assert world.log.highest_offset_in_remote_storage == -1

    assert (await task.run_once()).segments == 1  # The first counts as copied.
    assert world.finished() == ALL
    assert world.log.highest_offset_in_remote_storage == 249


async def test_a_finish_that_comes_late_does_no_harm(world: CopyWorld) -> None:
    """An unsettled segment is not removed: a late finish would make its offsets remote."""
    task = world.task()
    world.faults.fail_next(UPDATE, When.BEFORE, UNKNOWN)
    with pytest.raises(OutcomeUnknown):
        await task.run_once()
    (unsettled,) = world.segments()

    assert (await task.run_once()).segments == 2
    assert unsettled in world.segments()
    late = RemoteLogSegmentMetadataUpdate(unsettled.remote_log_segment_id, 0, FINISHED, 1)
    await world.store.update_remote_log_segment_metadata(late)
    await until_done(world, task)

    world.check_agreement()
    assert world.finished() == [(0, 149), (0, 149), (150, 249)]


async def test_a_finish_that_never_comes_is_cleaned_up_when_remote(world: CopyWorld) -> None:
    task = world.task()
    world.faults.fail_next(UPDATE, When.BEFORE, UNKNOWN)
    with pytest.raises(OutcomeUnknown):
        await task.run_once()

    await until_done(world, task)

    world.check_agreement()
    assert world.finished() == ALL


async def test_a_copy_that_cannot_be_removed_hides_nothing(
    world: CopyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(world.storage, "delete_log_segment_data", refuse)
    world.faults.fail_next(UPDATE, When.BEFORE, Fenced("broker 2 leads"))
    task = world.task()

    with pytest.raises(Fenced):
        await task.run_once()

    assert task.is_stopped


async def test_a_fenced_task_stops_and_has_no_series_any_more(world: CopyWorld) -> None:
    task = world.task()
    world.ledger.open_session(TIP, 2)

    with pytest.raises(Fenced):
        await task.run_once()
    assert task.is_stopped
    assert world.storage.ids == set()
    await task.run_once()

    text = generate_latest(world.metrics.registry).decode()
    assert f'"{TIP.topic}"' not in text


@pytest.mark.parametrize("error", [Fenced("broker 2 leads"), NotLeader("nobody leads")])
async def test_who_leads_no_more_removes_the_data_only(
    world: CopyWorld, error: RemoteStorageError
) -> None:
    world.faults.fail_next(UPDATE, When.BEFORE, error)
    task = world.task()

    with pytest.raises(type(error)):
        await task.run_once()

    (added,) = world.store.written
    assert world.storage.deleted == [added]
    assert world.storage.ids == set()
    assert [one.state for one in world.segments()] == [STARTED]
    assert task.is_stopped == isinstance(error, Fenced)


async def test_a_copy_that_ends_fenced_is_left_to_the_new_leader(world: CopyWorld) -> None:
    old = world.task()
    run, gate = await world.held_copy(old)
    new = world.task(CopySettings(dangling_copy_grace_ms=0), broker_id=2)
    gate.set()

    with pytest.raises(Fenced):
        await run
    await until_done(world, new)

    assert old.is_stopped
    world.check_agreement()
    assert world.finished() == ALL


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_copy_that_lost_its_entry_removes_data(world: CopyWorld, is_gone: bool) -> None:
    task = world.task()
    run, gate = await world.held_copy(task)
    (segment,) = world.segments()
    if is_gone:
        await delete_segment(world.store, world.storage, segment, 1, world.clock)
    else:
        update = RemoteLogSegmentMetadataUpdate(segment.remote_log_segment_id, 0, DELETING, 1)
        await world.store.update_remote_log_segment_metadata(update)
    written = list(world.store.written)
    gate.set()

    with pytest.raises(RemoteStorageError) as caught:
        await run

    assert world.store.written == written
    assert isinstance(caught.value, InvalidStateTransition) != is_gone
    assert world.storage.ids == set()
    assert not task.is_stopped


async def test_a_cancelled_run_leaves_what_the_next_process_removes(world: CopyWorld) -> None:
    task = world.task()
    run, gate = await world.held_copy(task)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    gate.set()

    assert task.being_copied() == frozenset()
    await until_done(world, world.restart())
    world.check_agreement()
    assert world.finished() == ALL
