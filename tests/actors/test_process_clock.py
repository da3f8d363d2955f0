"""The time in the logs does not follow a machine's clock that jumps into the future."""

from pathlib import Path

from tests.models.actors.local_world import LocalWorld, copy, partition, segment, sqlite_in
from tierledger.actors.calls import PartitionsCall
from tierledger.actors.conditions import CLOCK_JUMPED, Conditions
from tierledger.actors.process_clock import ProcessClock

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


class Machine:
    """Its clock can be set; the time that passes cannot."""

    def __init__(self) -> None:
        self.passed_s = 5000.0
        self.ahead_ms = 0
        self.conditions = Conditions(lambda: START_MS)
        self.clock = ProcessClock(self, lambda: self.passed_s, lambda: self.conditions)

    def now_ms(self) -> int:
        return START_MS + int((self.passed_s - 5000) * 1000) + self.ahead_ms


async def test_some_seconds_at_400_days_ahead_leave_log_time_true(tmp_path: Path) -> None:
    machine = Machine()
    tip = partition()

    async def log_time_ms(world: LocalWorld) -> int:
        (row,) = await world.service.host("host-0").ask(PartitionsCall())
        time_ms: int = row["session"]["log_time_ms"]
        return time_ms - START_MS

    async with LocalWorld(sqlite_in(tmp_path), clock=machine.clock) as world:
        manager = await world.leader(tip)
        await copy(manager, segment(0, tip))
        machine.ahead_ms = 400 * DAY_MS
        machine.passed_s += 6
        await copy(manager, segment(1, tip))
        during = await log_time_ms(world)
        machine.ahead_ms = 0
        machine.passed_s += 60
        await copy(manager, segment(2, tip))
        after = await log_time_ms(world)

    assert 6_000 <= during <= 12_000
    assert after == 66_000


def test_a_clock_that_has_jumped_is_a_condition_until_it_is_right_again() -> None:
    machine = Machine()

    def held() -> list[str]:
        machine.clock.now_ms()
        return [one["code"] for one in machine.conditions.plain()]

    assert held() == []
    machine.ahead_ms = 400 * DAY_MS
    machine.passed_s += 6
    assert held() == [CLOCK_JUMPED]
    machine.ahead_ms = 0
    assert held() == []
