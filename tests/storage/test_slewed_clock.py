"""A clock that retention may delete by."""

import asyncio

from tests.models.captured_logs import captured_logs
from tests.models.tiering.retention_world import NOW_MS, TIP, FixedClock, RetentionWorld
from tierledger.storage.slewed_clock import SlewedClock
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.metrics.tier_metrics import CLOCK_JUMPS

DAY_MS = 86_400_000


class Times:
    """A wall clock that can be set, and the time that passes."""

    def __init__(self) -> None:
        self.wall = FixedClock()
        self.passed_s = 1000.0
        self.jumps = 0
        self.clock = SlewedClock(self.wall, lambda: self.passed_s, self._count)

    def _count(self) -> None:
        self.jumps += 1

    def passes(self, seconds: float, wall_ms: int | None = None) -> int:
        """The clock's time after that pause; the wall clock is right unless `wall` is set."""
        self.passed_s += seconds
        self.wall.time_ms += int(seconds * 1000) if wall_ms is None else wall_ms
        return self.clock.now_ms() - NOW_MS


def test_a_wall_clock_that_runs_as_time_does_is_believed() -> None:
    times = Times()

    assert [times.passes(30), times.passes(0), times.passes(0.001)] == [30_000, 30_000, 30_001]


def test_a_jump_forward_is_believed_at_twice_the_speed_of_time() -> None:
    times = Times()

    assert times.passes(0, wall_ms=DAY_MS) == 0
    assert times.passes(3600) == 2 * 3_600_000
    assert times.passes(22 * 3600) == 46 * 3_600_000
    assert times.passes(3600) == 2 * DAY_MS


def test_a_jump_back_is_believed_at_once() -> None:
    times = Times()

    assert times.passes(30, wall_ms=-DAY_MS) == -DAY_MS
    assert times.passes(30) == -DAY_MS + 30_000


def test_a_jump_is_told_of_once() -> None:
    times = Times()

    with captured_logs() as logs:
        times.passes(1, wall_ms=DAY_MS)
        times.passes(1)
        times.passes(1, wall_ms=-DAY_MS)
        times.passes(1, wall_ms=DAY_MS)

    assert [one["event"] for one in logs] == ["the clock jumped ahead"] * 2
    assert times.jumps == 2


async def test_retention_does_not_follow_a_clock_that_jumps_by_a_century() -> None:
    world = RetentionWorld(end=100)
    await world.add(0, 99, {0: 0})
    deletions = world.deletions()
    task = world.task_with(deletions, retention_ms=7 * DAY_MS)

    world.clock.time_ms += 36_525 * DAY_MS
    at_once = await task.run_once()
    elected = world.task_with(deletions, retention_ms=7 * DAY_MS)
    in_a_new_task = await elected.run_once()
    world.passed_s += 3.5 * DAY_MS / 1000
    days_later = await elected.run_once()

    assert [at_once.deleted, in_a_new_task.deleted] == [(), ()]
    assert len(days_later.deleted) == 1
    assert world.metrics.value(CLOCK_JUMPS, TIP) == 1


async def test_a_clock_that_is_wrong_from_the_start_is_believed() -> None:
    world = RetentionWorld(end=100)
    await world.add(0, 99, {0: 0})
    world.clock.time_ms += 36_525 * DAY_MS

    result = await world.task(retention_ms=7 * DAY_MS).run_once()

    assert len(result.deleted) == 1
    assert world.metrics.value(CLOCK_JUMPS, TIP) == 0


async def test_by_default_the_loops_time_is_what_nobody_sets() -> None:
    world = RetentionWorld()
    deletions = CountedDeletions(world.store, world.storage, world.clock, 1, world.metrics)

    world.clock.time_ms += DAY_MS

    assert deletions.monotonic_s == asyncio.get_running_loop().time
    assert deletions.retention_clock.now_ms() - NOW_MS < DAY_MS / 2
