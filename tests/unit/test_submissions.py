"""A submission is answered soon; what takes longer is asked for with a ticket."""

import asyncio
from typing import Any

import pytest

from tierledger.actors import submissions
from tierledger.actors.calls import PageCall, Pending, ResumeCall
from tierledger.actors.submissions import LINGER_S, Submissions
from tierledger.events.errors import NotReady, OutcomeUnknown

CALLS = [PageCall("1"), PageCall("2")]


def future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_results_come_in_order_and_errors_as_values() -> None:
    first, second = future(), future()
    asyncio.get_running_loop().call_soon(first.set_result, "one")
    asyncio.get_running_loop().call_soon(second.set_exception, NotReady("later"))

    found = await Submissions().results(CALLS, [first, second])

    assert found[0] == "one"
    assert isinstance(found[1], NotReady)


async def test_a_slow_call_gives_a_ticket_for_its_result() -> None:
    waiting = Submissions()
    quick, slow = future(), future()
    quick.set_result("one")
    loop = asyncio.get_running_loop()
    begun = loop.time()

    one, pending = await waiting.results(CALLS, [quick, slow])

    assert one == "one"
    assert isinstance(pending, Pending)
    assert loop.time() - begun >= LINGER_S
    slow.set_result("two")
    assert await waiting.resume(pending.ticket) == "two"


async def test_a_ticket_serves_once() -> None:
    waiting = Submissions()
    slow = future()
    _, pending = await waiting.results(CALLS, [future(), slow])
    slow.set_result("two")
    await waiting.resume(pending.ticket)

    assert isinstance(await waiting.resume(pending.ticket), OutcomeUnknown)


async def test_a_result_that_is_still_not_there_gives_the_next_ticket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submissions, "RESUME_LINGER_S", 0.01)
    waiting = Submissions()
    slow = future()
    (first,) = await waiting.results(CALLS[:1], [slow])

    (second,) = await waiting.results(
        [ResumeCall(first.ticket)], [waiting.resume(first.ticket)]
    )

    assert second != first
    slow.set_result("at last")
    assert await waiting.resume(second.ticket) == "at last"


async def test_only_so_many_tickets_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "TICKETS_MAX", 2)
    waiting = Submissions()
    pending = await waiting.results([*CALLS, PageCall("3")], [future() for _ in range(3)])

    assert isinstance(await waiting.resume(pending[0].ticket), OutcomeUnknown)
    assert not waiting.resume(pending[2].ticket).done()
