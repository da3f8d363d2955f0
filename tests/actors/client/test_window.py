"""No write begins so far ahead of the oldest that its repeat would not be recognised."""

import asyncio

import pytest

from tierledger.actors.client.window import WRITES_MAX, Window
from tierledger.events.partition.state import REQUESTS_KEPT


async def test_the_newest_write_waits_for_the_oldest_however_many_have_ended() -> None:
    window = Window()
    oldest = await window.enter()
    for _ in range(WRITES_MAX - 1):
        window.leave(await window.enter())

    newest = asyncio.ensure_future(window.enter())
    await asyncio.sleep(0)
    assert not newest.done()

    window.leave(oldest)
    assert await newest == WRITES_MAX
    assert WRITES_MAX < REQUESTS_KEPT


async def test_who_waits_goes_on_in_the_order_of_coming_and_nobody_is_forgotten() -> None:
    window = Window()
    first = [await window.enter() for _ in range(WRITES_MAX)]
    order: list[int] = []

    async def write(name: int) -> None:
        number = await window.enter()
        order.append(name)
        await asyncio.sleep(0)
        window.leave(number)

    waiting = [asyncio.ensure_future(write(name)) for name in range(3 * WRITES_MAX)]
    await asyncio.sleep(0)
    assert not order

    for number in first:
        window.leave(number)
    await asyncio.wait_for(asyncio.gather(*waiting), 5)

    assert order == list(range(3 * WRITES_MAX))
    assert window.is_idle


@pytest.mark.parametrize("its_turn_had_come", [False, True])
async def test_a_write_that_is_given_up_while_it_waits_holds_up_nobody(
    its_turn_had_come: bool,
) -> None:
    window = Window()
    numbers = [await window.enter() for _ in range(WRITES_MAX)]
    given_up = asyncio.ensure_future(window.enter())
    behind = asyncio.ensure_future(window.enter())
    await asyncio.sleep(0)

    if its_turn_had_come:
        window.leave(numbers.pop(0))
    given_up.cancel()
    for number in numbers:
        window.leave(number)

    window.leave(await asyncio.wait_for(behind, 5))
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert window.is_idle
