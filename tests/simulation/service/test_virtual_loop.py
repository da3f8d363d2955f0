"""Time passes only when nobody has anything to do, and processes stop between two steps."""

import asyncio
from collections.abc import Iterator
from contextvars import Context

import pytest

from tierledger.simulation.service.virtual_loop import (
    VirtualLoop,
    VirtualProcess,
    current_process,
)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()  # type: ignore[abstract]  # What it lacks nobody calls.
    yield made
    made.close()
    made.discard()


def test_sleepers_wake_in_order_of_their_time_and_nobody_waits_for_it(
    loop: VirtualLoop,
) -> None:
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((name, loop.time()))

    process = VirtualProcess("one")
    for name, seconds in (("late", 3600.0), ("early", 0.5), ("middle", 60.0)):
        loop.spawn(process, sleep(name, seconds))
    loop.run(until=10_000.0)

    assert woken == [("early", 0.5), ("middle", 60.0), ("late", 3600.0)]
    assert loop.time() == 10_000.0


def test_a_paused_process_goes_on_where_it_was_and_its_timers_fire_late(
    loop: VirtualLoop,
) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1.0)
            ticks.append(loop.time())

    process = VirtualProcess("one")
    loop.spawn(process, tick())
    loop.run(until=2.5)
    loop.pause(process)
    loop.run(until=10.0)
    loop.resume(process)
    loop.run(until=11.5)

    assert ticks == [1.0, 2.0, 10.0, 11.0]


def test_a_killed_process_runs_no_step_more_and_who_waits_for_it_hears(
    loop: VirtualLoop,
) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            steps.append("begun")
            await asyncio.sleep(1.0)
            steps.append("done")
        finally:
            steps.append("cleaned up")

    process = VirtualProcess("one")
    process.when_killed[1] = lambda: steps.append("somebody heard")
    loop.spawn(process, work())
    loop.run(until=0.5)
    loop.kill(process)
    loop.kill(process)
    loop.run(until=5.0)

    assert steps == ["begun", "somebody heard"]
    assert not process.is_reachable


def test_a_fuse_ends_a_process_before_the_step_it_was_set_for(loop: VirtualLoop) -> None:
    steps: list[int] = []

    async def count() -> None:
        for number in range(10):
            steps.append(number)
            await asyncio.sleep(0)

    process = VirtualProcess("one")
    process.fuse = 4
    loop.spawn(process, count())
    loop.run(until=1.0)

    assert steps == [0, 1, 2, 3]


def test_a_step_belongs_to_the_process_that_scheduled_it(loop: VirtualLoop) -> None:
    owners: list[str] = []

    def note() -> None:
        process = current_process()
        owners.append("nobody" if process is None else process.site)

    async def work() -> None:
        asyncio.get_running_loop().call_later(1.0, note)
        await asyncio.create_task(child())

    async def child() -> None:
        note()

    for name in ("one", "two"):
        loop.spawn(VirtualProcess(name), work())
    loop.run(until=2.0)
    note()

    assert owners == ["one", "two", "one", "two", "nobody"]


def test_a_failed_task_is_a_failure_of_the_world(loop: VirtualLoop) -> None:
    async def fail() -> None:
        raise ValueError("a mistake")

    loop.spawn(VirtualProcess("one"), fail())
    loop.run(until=1.0)

    assert [str(error) for error in loop.failures] == ["a mistake"]


def test_what_is_left_suspended_is_closed_with_a_loop_its_task_and_silently(
    loop: VirtualLoop,
) -> None:
    cleaned: list[str] = []
    cleaning: list[asyncio.Task[None] | None] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            cleaning.append(asyncio.current_task())
            await asyncio.gather(asyncio.sleep(1e9), return_exceptions=True)
            cleaned.append(name)

    tasks = [loop.spawn(VirtualProcess(name), wait(name)) for name in ("one", "two")]
    loop.run(until=1.0)
    loop.close()

    loop.discard()

    assert all(task.get_coro().cr_frame is None for task in tasks)  # type: ignore[union-attr]
    assert set(cleaning) == set(tasks)
    assert not cleaned


def test_a_step_of_nobody_is_nobodys_whoever_has_scheduled_it(loop: VirtualLoop) -> None:
    nobody = Context()
    owners: list[VirtualProcess | None] = []

    async def schedule() -> None:
        loop.call_later(1.0, lambda: owners.append(current_process()), context=nobody)
        loop.call_soon(lambda: owners.append(current_process()), context=nobody)

    process = VirtualProcess("one")
    loop.spawn(process, schedule())
    loop.run(until=0.5)
    loop.kill(process)
    loop.run(until=2.0)

    assert owners == [None, None]
