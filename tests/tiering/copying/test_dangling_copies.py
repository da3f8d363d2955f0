"""Objects of copies that ended between their first and their last record."""

from pathlib import Path

import pytest

from tests.models.tiering.copy_world import CopyWorld, lay_out, until_done
from tests.models.tiering.planned_faults import Killed, When
from tests.models.tiering.retention_world import STARTED, TIP
from tierledger.events.errors import Fenced, NotReady, OutcomeUnknown, StorageUnavailable
from tierledger.tiering.copying.task import CopyResult, CopySettings
from tierledger.tiering.deletion.segment_deletion import delete_segment
from tierledger.tiering.metrics.tier_metrics import COPY_ERRORS, DELETE_ERRORS

ALL = [(0, 149), (150, 249)]
CALLS = 17
"""Of a run that copies two segments."""

UPDATE = "update_remote_log_segment_metadata"
AWAY = StorageUnavailable("away")


@pytest.fixture
def world(tmp_path: Path) -> CopyWorld:
    return CopyWorld(tmp_path)


async def kill_at(world: CopyWorld, name: str) -> None:
    """Let broker 1 be killed at its next call of that name."""
    world.faults.fail_next(name, When.BEFORE, Killed())
    with pytest.raises(Killed):
        await world.task().run_once()


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("number", range(CALLS))
async def test_another_brokers_copies_wait(world: CopyWorld, number: int, when: When) -> None:
    world.faults.fail_call(number, when, Killed())
    with pytest.raises(Killed):
        await world.task().run_once()
    left = [one for one in world.segments() if one.state == STARTED]

    task = world.restart(broker_id=2)
    await until_done(world, task)
    world.clock.time_ms += CopySettings().dangling_copy_grace_ms - 1
    await until_done(world, task)

    assert [one for one in world.segments() if one.state == STARTED] == left
    world.clock.time_ms += 1
    await until_done(world, task)
    world.check_agreement()
    assert sorted(world.finished()) == ALL


async def test_while_anothers_copies_wait_nothing_is_listed_again(world: CopyWorld) -> None:
    await kill_at(world, "copy log")
    task = world.restart(broker_id=2)
    await until_done(world, task)
    world.faults.restart()

    await task.run_once()

    assert world.faults.calls == ["partition_summary"]


@pytest.mark.parametrize("error", [AWAY, PermissionError("not yours")])
async def test_a_dangling_copy_that_stays_holds_nothing_up(
    world: CopyWorld, error: Exception
) -> None:
    await kill_at(world, "copy indexes")
    task = world.restart()
    world.faults.fail_next("delete indexes", When.BEFORE, error)

    assert (await task.run_once()).segments == 2

    assert world.counted(DELETE_ERRORS) == 1
    assert world.finished() == ALL


async def test_a_list_of_dangling_copies_not_ready_is_no_failure(world: CopyWorld) -> None:
    await kill_at(world, "copy indexes")
    task = world.restart()
    world.faults.fail_call(5, When.BEFORE, NotReady("catching up"))

    assert await task.run_once() == CopyResult(is_ready=False)
    assert world.counted(COPY_ERRORS) == 0
    await until_done(world, task)
    world.check_agreement()


async def test_an_entry_that_somebody_else_removed_is_forgotten(world: CopyWorld) -> None:
    await kill_at(world, "copy log")
    task = world.restart(broker_id=2)
    await until_done(world, task)
    (left,) = [one for one in world.segments() if one.state == STARTED]
    await delete_segment(world.store, world.storage, left, 2, world.clock)
    await until_done(world, task)
    world.log.local = lay_out(world.folder / "disk-1", (0, 150, 250, 300), end=310)
    world.log.last_stable_offset = world.log.log_end_offset = 310
    world.faults.fail_next("copy log", When.BEFORE, AWAY)
    world.faults.fail_next(UPDATE, When.BEFORE, AWAY)  # The clean-up's first record.
    with pytest.raises(StorageUnavailable):
        await task.run_once()
    assert [one.state for one in world.segments()].count(STARTED) == 1

    await task.run_once()

    world.check_agreement()


async def test_a_finish_that_was_settled_has_nothing_listed_again(world: CopyWorld) -> None:
    await kill_at(world, "copy log")
    task = world.restart(broker_id=2)
    world.faults.fail_next(UPDATE, When.AFTER, OutcomeUnknown("no answer"))
    with pytest.raises(OutcomeUnknown):
        await task.run_once()
    await until_done(world, task)
    world.faults.restart()

    await task.run_once()

    assert world.faults.calls == ["partition_summary"]


async def test_who_is_fenced_while_it_cleans_up_copies_nothing(world: CopyWorld) -> None:
    await kill_at(world, "copy indexes")
    task = world.restart()
    world.ledger.open_session(TIP, 2)

    with pytest.raises(Fenced):
        await task.run_once()

    assert task.is_stopped
    assert "add_remote_log_segment_metadata" not in world.faults.calls
