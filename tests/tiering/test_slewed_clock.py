"""A clock that retention may delete by."""

from structlog.testing import capture_logs

from tests.models.retention_world import NOW_MS, TIP, FixedClock, RetentionWorld
from tierledger.tiering.slewed_clock import SlewedClock

DAY_MS = 86_400_000


class Times:
    """A wall clock that can be set, and the time that passes."""

    def __init__(self) -> None:
        self.wall = FixedClock()
        self.passed_s = 1000.0
        self.clock = SlewedClock(self.wall, lambda: self.passed_s)

    def passes(self, seconds: float, wall_ms: int | None = None) -> int:
        """What the clock says after that; the wall clock is right unless it is set."""
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

    with capture_logs() as logs:
        times.passes(1, wall_ms=DAY_MS)
        times.passes(1)
        times.passes(1, wall_ms=-DAY_MS)
        times.passes(1, wall_ms=DAY_MS)

    assert [one["event"] for one in logs] == ["the clock jumped ahead"] * 2


async def test_a_clock_that_jumps_by_a_century_deletes_nothing() -> None:
    world = RetentionWorld(end=100)
    await world.add(0, 99, {0: 0})
    wall = world.clock
    deletions = world.deletions()
    deletions.clock = SlewedClock(wall, lambda: 0.0)
    task = world.task_with(deletions, retention_ms=7 * DAY_MS)

    wall.time_ms += 36_525 * DAY_MS
    result = await task.run_once()

    assert result.deleted == ()
    assert (await world.task(retention_ms=7 * DAY_MS).run_once()).deleted
    assert world.ledger.segments(TIP) == []
