"""The limit on custom metadata, as KIP-917 has it."""

import asyncio
from pathlib import Path

import pytest
from typing_extensions import override

from tests.models.tiering.copy_world import CopyWorld
from tests.models.tiering.memory_storage import MemoryStorage
from tests.models.tiering.planned_faults import When
from tests.models.tiering.retention_world import FINISHED, STARTED
from tierledger.events.errors import CustomMetadataSizeLimitExceeded, StorageUnavailable
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from tierledger.events.partition.decide import Limits
from tierledger.tiering.copying.task import CopyResult, CopySettings
from tierledger.tiering.metrics.tier_metrics import COPY_BYTES, COPY_ERRORS, DELETE_ERRORS

DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
SETTING = "remote.log.metadata.custom.metadata.max.bytes"


def world_with(folder: Path, custom: bytes | None, leader_limit: int = 128) -> CopyWorld:
    world = CopyWorld(folder, limits=Limits(custom_metadata_bytes_max=leader_limit))
    world.storage.custom_metadata = custom
    return world


@pytest.mark.parametrize(
    ("limit", "custom"), [(128, bytes(128)), (0, b""), (0, None), (5, b"12345"), (128, b"")]
)
async def test_up_to_the_limit_it_is_kept(
    tmp_path: Path, limit: int, custom: bytes | None
) -> None:
    world = world_with(tmp_path, custom)

    await world.task(CopySettings(custom_metadata_max_bytes=limit)).run_once()

    kept = {one.custom_metadata for one in world.segments()}
    assert kept == {None if custom is None else CustomMetadata(custom)}
    assert world.finished() == [(0, 149), (150, 249)]


@pytest.mark.parametrize(("limit", "size"), [(128, 256), (128, 129), (0, 1)])
async def test_above_the_limit_the_task_stops(tmp_path: Path, limit: int, size: int) -> None:
    world = world_with(tmp_path, bytes(size))
    task = world.task(CopySettings(custom_metadata_max_bytes=limit))

    with pytest.raises(
        CustomMetadataSizeLimitExceeded, match=f"{size} bytes, the limit is {limit};"
    ):
        await task.run_once()

    check_given_up(world, size)
    assert task.is_stopped
    assert SETTING in (task.stop_reason or "")
    assert "start the task again" in (task.stop_reason or "")
    assert await task.run_once() == CopyResult()
    assert len(world.storage.copied) == 1


async def test_a_leader_with_a_smaller_limit_ends_the_task_alike(tmp_path: Path) -> None:
    world = world_with(tmp_path, bytes(128), leader_limit=100)
    task = world.task()

    with pytest.raises(CustomMetadataSizeLimitExceeded, match=SETTING):
        await task.run_once()

    check_given_up(world, 128)
    assert task.is_stopped


def check_given_up(world: CopyWorld, size: int) -> None:
    """One segment was added, then removed with its custom metadata, and never served."""
    added, *updates = world.store.written
    assert added.state == STARTED
    assert [one.state for one in updates] == [DELETING, DELETED]
    for one in updates:
        assert isinstance(one, RemoteLogSegmentMetadataUpdate)
        assert one.custom_metadata == CustomMetadata(bytes(size))
    (deleted,) = world.storage.deleted
    assert deleted.custom_metadata == CustomMetadata(bytes(size))
    assert world.segments() == []
    assert world.storage.ids == set()
    assert world.log.highest_offset_in_remote_storage == -1
    assert world.counted(COPY_ERRORS) == 1
    assert world.counted(COPY_BYTES) == 0


async def test_a_failed_removal_is_not_tried_twice_and_hides_nothing(tmp_path: Path) -> None:
    world = world_with(tmp_path, bytes(200))
    world.faults.fail_next("delete indexes", When.BEFORE, StorageUnavailable("away"))
    task = world.task()

    with pytest.raises(CustomMetadataSizeLimitExceeded):
        await task.run_once()

    assert task.is_stopped
    (left,) = world.segments()
    assert left.state == DELETING
    assert left.custom_metadata == CustomMetadata(bytes(200))
    assert world.faults.calls.count("delete indexes") == 1


class LockedStorage(MemoryStorage):
    """A storage that cannot remove a copied segment."""

    error: BaseException

    @override
    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        raise self.error


def locked_world(folder: Path, error: BaseException) -> CopyWorld:
    world = CopyWorld(folder)
    storage = LockedStorage(world.faults, bytes(200))
    storage.error = error
    world.storage = storage
    return world


async def test_a_removal_that_the_disk_refuses_hides_nothing(tmp_path: Path) -> None:
    world = locked_world(tmp_path, PermissionError(13, "Permission denied"))
    task = world.task()

    with pytest.raises(CustomMetadataSizeLimitExceeded):
        await task.run_once()

    assert task.is_stopped
    assert world.counted(DELETE_ERRORS) == 1


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("a defect")])
async def test_the_task_stops_before_the_removal(tmp_path: Path, error: BaseException) -> None:
    world = locked_world(tmp_path, error)
    task = world.task()

    with pytest.raises(type(error)):
        await task.run_once()

    assert SETTING in (task.stop_reason or "")
    assert await task.run_once() == CopyResult()
    assert len(world.storage.copied) == 1


async def test_with_a_higher_limit_a_new_task_goes_on(tmp_path: Path) -> None:
    world = world_with(tmp_path, bytes(200), leader_limit=256)
    with pytest.raises(CustomMetadataSizeLimitExceeded):
        await world.task().run_once()

    await world.task(CopySettings(custom_metadata_max_bytes=200)).run_once()

    assert world.finished() == [(0, 149), (150, 249)]
    assert {one.state for one in world.segments()} == {FINISHED}
    world.check_agreement()
