"""Retention that fails or dies at any of its steps: nothing is lost, the next run goes on."""

import pytest

from tests.models.tiering.planned_faults import Killed, When
from tests.models.tiering.retention_world import (
    DELETING,
    STARTED,
    TIP,
    RetentionWorld,
    epochs_between,
)
from tierledger.events.errors import NotLeader, OutcomeUnknown, StorageUnavailable
from tierledger.tiering.metrics.tier_metrics import DELETE_ERRORS

HOUR_MS = 3_600_000
LINEAGE = {2: 100, 3: 350, 4: 600}
KEPT = [(600, 699), (700, 799)]


async def scene() -> RetentionWorld:
    """A segment due for each reason, and two that stay.

    Dying after the log's start was raised changes the reason: what was due by time lies before
    the start then, or in stale epochs.
    """
    world = RetentionWorld(LINEAGE, end=800)
    await world.add(0, 99, {0: 0, 1: 50})  # Stale.
    await world.add(100, 199, {2: 100}, age_ms=HOUR_MS)
    # Without a size, since a copy that never finished uses up the excess and is not in it.
    await world.add(200, 299, {2: 200}, state=STARTED, age_ms=HOUR_MS, size=0)
    await world.add(300, 399, epochs_between(LINEAGE, 300, 399), state=DELETING, custom=b"a")
    await world.add(400, 499, {3: 400}, age_ms=HOUR_MS, custom=b"b")
    await world.add(500, 599, {3: 500}, custom=b"c")  # Due by size.
    await world.add(600, 699, {4: 600})
    await world.add(700, 799, {4: 700})
    world.log.log_start_offset = 100
    return world


RETENTION = HOUR_MS, 2 * 1024


async def steps() -> list[str]:
    world = await scene()
    result = await world.task(*RETENTION).run_once()
    assert [one.segment.start_offset for one in result.deleted] == [100, 200, 300, 400, 500, 0]
    assert world.left() == KEPT
    return world.faults.calls


def is_as_if_nothing_happened(world: RetentionWorld) -> None:
    assert world.left() == KEPT
    assert world.log.log_start_offset == 600
    world.check_agreement()


async def test_every_step_of_the_scene_is_one_that_can_fail() -> None:
    calls = await steps()

    writes = calls.count("update_remote_log_segment_metadata")
    assert (writes, calls.count("delete indexes"), calls.count("delete log")) == (11, 6, 6)
    assert calls.index("raise_log_start_offset") < calls.index("delete indexes")


@pytest.mark.parametrize("when", When)
async def test_killed_at_any_step_nothing_is_lost_and_the_next_goes_on(when: When) -> None:
    for number in range(len(await steps())):
        world = await scene()
        world.faults.fail_call(number, when, Killed())
        with pytest.raises(Killed):
            await world.task(*RETENTION).run_once()
        world.check_readable()
        world.faults.restart()

        while (await world.task(*RETENTION).run_once()).deleted:
            world.check_readable()

        is_as_if_nothing_happened(world)


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("error", [StorageUnavailable, OutcomeUnknown, NotLeader])
async def test_failed_at_any_step_a_rerun_goes_on(when: When, error: type[Exception]) -> None:
    for number in range(len(await steps())):
        world = await scene()
        task = world.task(*RETENTION)
        world.faults.fail_call(number, when, error("told so"))
        with pytest.raises(error, match="told so"):
            await task.run_once()
        world.check_readable()

        while (await task.run_once()).deleted:
            world.check_readable()

        is_as_if_nothing_happened(world)
        assert world.metrics.value(DELETE_ERRORS, TIP) <= 1


async def test_who_leads_no_more_deletes_nothing_that_its_successor_serves() -> None:
    world = await scene()
    task = world.task(*RETENTION)
    successor = world.ledger.store(TIP, broker_id=2)
    before = set(world.storage.ids)

    with pytest.raises(Exception, match="does not lead"):
        await task.run_once()

    assert world.storage.ids == before
    world.store, world.faults = successor, successor.faults
    await world.task(*RETENTION).run_once()
    is_as_if_nothing_happened(world)
