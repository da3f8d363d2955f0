"""Long work goes by turns of those who asked for it, one piece at a time."""

import asyncio

from tierledger.actors.turns import Turns


async def test_one_works_at_a_time_and_names_take_turns() -> None:
    turns, order, working = Turns(), list[str](), set[str]()

    async def work(name: str, number: int) -> None:
        async with turns.of(name):
            assert not working
            working.add(name)
            await asyncio.sleep(0)
            working.remove(name)
            order.append(f"{name}{number}")

    many = [work("a", number) for number in range(4)]
    await asyncio.gather(*many, work("b", 0), work("c", 0))

    assert order == ["a0", "a1", "b0", "c0", "a2", "a3"]


async def test_other_tasks_run_after_each_piece_of_work_that_never_waits() -> None:
    turns, order = Turns(), list[str]()

    async def work() -> None:
        async with turns.of("a"):
            order.append("work")

    async def other() -> None:
        for _ in range(3):
            order.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(work(), work(), work(), other())

    assert order[:4] == ["work", "other", "other", "work"]


async def test_who_gives_up_passes_the_turn_on() -> None:
    turns, order = Turns(), list[str]()

    async def work(name: str) -> None:
        async with turns.of(name):
            order.append(name)

    async with turns.of("first"):
        waiting, next_one = asyncio.create_task(work("a")), asyncio.create_task(work("b"))
        await asyncio.sleep(0)
    waiting.cancel()  # Its turn has come, and it has not run yet.
    await asyncio.wait([waiting, next_one])
    async with turns.of("last"):
        order.append("last")

    assert order == ["b", "last"]
