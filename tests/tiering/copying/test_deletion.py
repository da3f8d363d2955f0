"""Copies of a partition whose deletion begins meanwhile: nobody sends what nobody removes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from prometheus_client import generate_latest
from typing_extensions import override

from tests.models.tiering.copy_world import SEGMENT_BYTES, CopyWorld
from tests.models.tiering.planned_faults import Killed, When
from tests.models.tiering.retention_world import TIP
from tierledger.events.errors import PartitionDeleted, StorageUnavailable
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.copying.quota import CopyQuota
from tierledger.tiering.copying.task import CopyResult, CopyTask
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.deletion.partition_remover import PartitionRemover, RemovalResult
from tierledger.tiering.metrics.tier_metrics import COPY_ERRORS

T = TypeVar("T")

MARKED, BEGUN, DONE = RemotePartitionDeleteState
CALLS = 12
"""The calls of a remover that marks and removes a partition of one segment."""
MARK = 2
"""The number of the call that makes the mark."""


class Gate(CopyQuota):
    """Lets the copies behind the first one begin when told to."""

    def __init__(self) -> None:
        super().__init__(1)
        self.opened = asyncio.Event()
        self._taken = 0

    @override
    async def take(self, size_in_bytes: int) -> None:
        self._taken += 1
        if self._taken > 1:
            await self.opened.wait()


class Scene:
    """A task that has copied one of three segments, and a remover beside it."""

    def __init__(self, folder: Path) -> None:
        self.world = CopyWorld(folder, (0, 150, 250, 280))
        self.gate = Gate()
        self.task = self.world.task(quota=self.gate)
        self.calls = 0
        """Of the remover."""

    async def start(self) -> asyncio.Task[CopyResult]:
        run = asyncio.create_task(self.task.run_once())
        while not self.world.finished() or self.task.being_copied():  # noqa: ASYNC110
            await asyncio.sleep(0)
        return run

    def announced(self) -> int:
        written = self.world.store.written
        return sum(isinstance(one, RemoteLogSegmentMetadata) for one in written)

    def remover(self, task: CopyTask | None = None) -> PartitionRemover:
        world = self.world
        deletions = CountedDeletions(world.store, world.storage, world.clock, 1, world.metrics)
        return PartitionRemover(deletions, lambda _: task.being_copied() if task else ())

    async def removed(self) -> RemovalResult:
        remover = self.remover(self.task)
        await remover.mark(TIP)
        return await remover.run_once(TIP)

    async def removed_with_a_copy_behind(
        self, number: int, run: asyncio.Task[CopyResult], patch: pytest.MonkeyPatch
    ) -> RemovalResult:
        """Remove the partition; a copy is announced between its call `number` and the next."""
        call = self.world.faults.call

        async def slowly(name: str, work: Callable[[], Awaitable[T]]) -> T:
            result = await call(name, work)
            if asyncio.current_task() is removal:
                self.calls += 1
                if self.calls == number:
                    self.gate.opened.set()
                    while self.announced() < 2 and not run.done():  # noqa: ASYNC110
                        await asyncio.sleep(0)
            return result

        patch.setattr(self.world.faults, "call", slowly)
        removal = asyncio.create_task(self.removed())
        return await removal


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def check_without_series(world: CopyWorld) -> None:
    assert f'"{TIP.topic}"' not in generate_latest(world.metrics.registry).decode()


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("number", range(1, CALLS + 1))
async def test_a_copy_that_begins_at_any_step_of_a_removal_leaves_nothing(
    scene: Scene, number: int, monkeypatch: pytest.MonkeyPatch, *, is_killed: bool
) -> None:
    world = scene.world
    run = await scene.start()
    if is_killed:  # As soon as there is data that its last record does not cover.
        world.faults.fail_next("copy log", When.AFTER, Killed())

    with suppress(Killed):
        await scene.removed_with_a_copy_behind(number, run, monkeypatch)
    with suppress(Killed):
        assert (await run).segments <= 2
    world.faults.restart()
    while (await scene.remover().run_once(TIP)).state != DONE:
        pass

    assert world.storage.ids == set()
    check_without_series(world)
    assert number < MARK or len(world.storage.copied) == 1


async def test_the_calls_of_a_removal_are_as_many_as_the_test_here_interrupts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await scene.start()

    await scene.removed_with_a_copy_behind(CALLS + 1, run, monkeypatch)

    assert scene.calls == CALLS
    scene.gate.opened.set()
    assert (await run).segments == 1


@pytest.mark.parametrize("is_finished", [False, True])
async def test_a_run_that_meets_a_deletion_stops(scene: Scene, *, is_finished: bool) -> None:
    world = scene.world
    run = await scene.start()
    if is_finished:
        await scene.removed()
    else:
        await scene.remover().mark(TIP)
    scene.gate.opened.set()

    assert await run == CopyResult(1, SEGMENT_BYTES)

    assert scene.task.is_stopped
    assert "deletion" in (scene.task.stop_reason or "")
    assert scene.task.being_copied() == frozenset()
    assert len(world.storage.copied) == 1
    check_without_series(world)
    if not is_finished:
        assert world.finished() == [(0, 149)]
        world.check_agreement()


async def test_a_partition_gone_behind_the_announcement_ends_the_copies(scene: Scene) -> None:
    world = scene.world
    run = await scene.start()
    world.faults.fail_next("partition_summary", When.BEFORE, PartitionDeleted("all gone"))
    scene.gate.opened.set()

    await run

    assert scene.task.stop_reason == "all gone"
    assert world.faults.calls[-1] == "partition_summary"
    check_without_series(world)


async def test_nothing_is_sent_while_a_deletion_may_have_begun(scene: Scene) -> None:
    world = scene.world
    run = await scene.start()
    world.faults.fail_next("partition_summary", When.BEFORE, StorageUnavailable("away"))
    scene.gate.opened.set()

    with pytest.raises(StorageUnavailable):
        await run

    assert len(world.storage.copied) == 1
    assert world.counted(COPY_ERRORS) == 1
    world.check_agreement()
    assert (await scene.task.run_once()).segments == 2
