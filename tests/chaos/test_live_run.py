"""The driver of live runs, on a service in this process: it finds nothing, and it could."""

from pathlib import Path

import pytest

from tests.chaos.storms import plan
from tests.models.storage.faulty_store import settings
from tierledger.actors.calls import PartitionKey
from tierledger.actors.discovery.connecting import connect
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.local_service import LocalService
from tierledger.actors.wall_clock import WallClock
from tierledger.events.errors import CustomMetadataSizeLimitExceeded, Fenced, NotLeader
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.history.calls import WRITE, CallHistory, Recorder
from tierledger.simulation.live.chaos.faults import ALWAYS, SQLITE, Chaos
from tierledger.simulation.live.ray_faults import LiveService
from tierledger.simulation.live.run import LiveRun
from tierledger.simulation.live.verdict import (
    LiveVerdict,
    Strike,
    calls_between,
    fared,
    fault_rows,
    gap,
    recorded,
    verdict_of,
)

pytestmark = pytest.mark.chaos

SECOND = 1_000_000_000


def history_of(*writes: tuple[int, float]) -> CallHistory:
    """Acknowledged writes: to which partition, and when (s)."""
    now = 0
    recorder = Recorder(lambda: now)
    for partition, at in writes:
        number = recorder.begin("broker", WRITE, PartitionKey(bytes(16), partition))
        now = int(at * SECOND)
        recorder.ok(number, 0)
    return recorder.history()


async def judged(run: LiveRun, minimums: Minimums | None = None) -> LiveVerdict:
    return verdict_of(run, await recorded(run, "a test", minimums))


@pytest.fixture
async def run(tmp_path: Path) -> LiveRun:
    """A run that has ended well, after one host died."""
    known = ServiceSettings("live", settings(str(tmp_path)), hosts=2)
    service = LocalService(known, WallClock())
    await service.start()
    run = LiveRun(plan(1), known, service.connect)
    try:
        await run.start()
        run.note("killed", "host-1")
        struck_ns = run.now_ns()
        await service.kill_host("host-1")
        await run.written_since(struck_ns, 20)
        for tip in run.tips:
            run.controller.elect(tip)
        assert await run.heal(20)
    finally:
        await run.stop()
        await service.close()
    return run


async def test_a_run_on_a_sound_service_finds_nothing_and_would_notice(run: LiveRun) -> None:
    minimums = Minimums(20, 5, 2, 1, frozenset({"killed"}))
    verdict = await judged(run, minimums)

    assert verdict.violations == []
    assert verdict.well_after_s is not None
    assert verdict.ok_writes >= 20
    assert verdict.checkpoints == len(run.tips)

    # The same calls beside logs of nobody: what was acknowledged is not there.
    run.settings = ServiceSettings("another cluster", run.settings.storage)
    checkers = {one.checker for one in (await judged(run)).violations}
    assert {"lost_write", "check_fold"} & checkers, checkers


async def test_a_service_that_stays_away_and_an_error_of_nobodys_are_violations(
    run: LiveRun,
) -> None:
    run.well_after_s = None
    run.failures.append(KeyError("broker"))

    checkers = [one.checker for one in (await judged(run)).violations]

    assert checkers == ["unforeseen_failure", "liveness"]


def test_a_gap_lies_between_two_writes_around_a_strike() -> None:
    written = [1, 2, 3, 10, 11, 15]

    assert gap(written, Strike("kill", "host", 4, 12), ended_ns=20) == 7
    assert gap(written, Strike("kill", "host", 10, 11), ended_ns=20) == 1
    assert gap(written, Strike("kill", "host", 16, 17), ended_ns=20) == 5
    assert gap([], Strike("kill", "host", 16, 17), ended_ns=20) == 0


def test_a_strikes_gap_is_that_of_the_partition_it_hurt_most() -> None:
    history = history_of((0, 1), (1, 1), (0, 2), (1, 9), (0, 9))
    strikes = [
        Strike("kill", "host-0", 1 * SECOND, 2 * SECOND),
        Strike("kill", "host-1", 3 * SECOND, 4 * SECOND),
    ]

    (row,) = fault_rows(history, strikes, ended_ns=10 * SECOND)

    assert row[:4] == ("kill", 2, 8.0, 8.0)


def test_calls_count_for_the_strikes_that_they_met() -> None:
    history = history_of((0, 1), (1, 2), (0, 3), (1, 4), (0, 5))
    strikes = [
        Strike("kill", "host-0", 2 * SECOND + 1, 3 * SECOND - 1),
        Strike("freeze", "host-1", 2 * SECOND + 1, 4 * SECOND - 1),
    ]

    freeze, kill = fault_rows(history, strikes, ended_ns=10 * SECOND)
    calm = calls_between(history, strikes)

    # Each call began when the one before it ended.
    assert (kill.fared.calls, freeze.fared.calls, len(calm)) == (1, 2, 3)
    assert kill.fared.ok_share == 1


def test_a_refusal_that_the_rules_demand_is_an_answer() -> None:
    recorder = Recorder(lambda: 0)
    for error in (Fenced("x"), CustomMetadataSizeLimitExceeded("x"), NotLeader("x")):
        recorder.failed(recorder.begin("broker", WRITE, PartitionKey(bytes(16), 0)), error)
    recorder.ok(recorder.begin("broker", WRITE, PartitionKey(bytes(16), 0)), 0)

    assert fared(recorder.history().operations) == (4, 1, 3)


@pytest.mark.parametrize(
    ("url", "own"), [("sqlite:store.sqlite", SQLITE), ("postgresql://nobody@nowhere/x", ())]
)
def test_each_fault_that_fits_the_store_comes_once_before_any_comes_again(
    url: str, own: tuple[str, ...], tmp_path: Path
) -> None:
    known = ServiceSettings("live", {"metadata.storage.url": url})
    chaos = Chaos(LiveService(known, tmp_path), LiveRun(plan(1), known, connect))

    faults = [*ALWAYS, *own]
    drawn = [chaos.draw() for _ in range(2 * len(faults))]

    assert sorted(drawn[: len(faults)]) == sorted(faults)
    assert set(drawn) == set(faults)
