"""Calls to one host share submissions, and each hears its own result."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tierledger.actors.calls import (
    Call,
    CloseCall,
    PageCall,
    Pending,
    Placement,
    ResumeCall,
)
from tierledger.actors.deadline import Attempt
from tierledger.actors.lanes import (
    CALLS_PER_SUBMISSION,
    IN_FLIGHT_MAX,
    WAITING_MAX,
    Lane,
)
from tierledger.events.errors import Fenced, OutcomeUnknown, Overloaded


class HeldHost:
    """A host whose submissions wait until a test answers them."""

    def __init__(self) -> None:
        self.submissions: list[tuple[list[Call], asyncio.Future[list[Any]]]] = []

    async def submit(self, calls: Sequence[Call]) -> list[Any]:
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.submissions.append((list(calls), answer))
        return await answer

    def answer(self, which: int, results: list[Any] | None = None) -> None:
        calls, answer = self.submissions[which]
        answer.set_result(calls if results is None else results)

    async def place(self, placements: Sequence[Placement]) -> None: ...

    async def close_sessions(self, closes: Sequence[CloseCall]) -> None: ...

    async def store(
        self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> None: ...

    async def ping(self) -> dict[str, Any]:
        return {}

    async def partitions(self) -> list[dict[str, Any]]:
        return []


def call(number: int) -> PageCall:
    return PageCall(str(number))


async def sent(lane: Lane, numbers: Sequence[int]) -> list[asyncio.Task[Any]]:
    """The calls, on their way as far as the lane lets them."""
    tasks = [asyncio.ensure_future(lane.call(call(number), Attempt())) for number in numbers]
    await turns()
    return tasks


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_lone_call_is_sent_at_once_and_the_rest_waits_for_two_in_flight() -> None:
    host = HeldHost()
    lane = Lane(host)
    tasks = []
    for number in range(4):
        tasks += await sent(lane, [number])
    assert [len(calls) for calls, _ in host.submissions] == [1] * IN_FLIGHT_MAX

    host.answer(0)
    await turns()

    assert [calls for calls, _ in host.submissions[2:]] == [[call(2), call(3)]]
    host.answer(1)
    host.answer(2)
    assert await asyncio.gather(*tasks) == [call(number) for number in range(4)]


async def test_a_submission_is_bounded_and_keeps_the_order() -> None:
    host = HeldHost()
    lane = Lane(host)
    tasks = await sent(lane, range(2))
    tasks += await sent(lane, range(2, CALLS_PER_SUBMISSION + 10))
    sent_first = len(host.submissions)
    for which in range(10):
        await turns()
        if which < len(host.submissions):
            host.answer(which)
    results = await asyncio.gather(*tasks)

    assert sent_first <= IN_FLIGHT_MAX
    assert results == [call(number) for number in range(CALLS_PER_SUBMISSION + 10)]
    assert max(len(calls) for calls, _ in host.submissions) == CALLS_PER_SUBMISSION


async def test_an_error_reaches_its_own_caller_only() -> None:
    host = HeldHost()
    lane = Lane(host)
    first, *others = await sent(lane, [0])
    host.answer(0, [Fenced("replaced")])

    with pytest.raises(Fenced):
        await first
    others = await sent(lane, [1])
    host.answer(1)
    assert await others[0] == call(1)


async def test_a_lost_host_leaves_every_call_of_the_submission_unknown() -> None:
    host = HeldHost()
    lane = Lane(host)
    tasks = await sent(lane, [0, 1])
    for _, answer in host.submissions:
        answer.set_exception(OutcomeUnknown("the host died"))
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in results] == [OutcomeUnknown, OutcomeUnknown]


async def test_a_call_whose_caller_gave_up_before_it_was_sent_is_not_sent() -> None:
    host = HeldHost()
    lane = Lane(host)
    await sent(lane, [0])
    await sent(lane, [1])
    waiting, kept = await sent(lane, [2, 3])
    waiting.cancel()
    await turns()
    host.answer(0)
    host.answer(1)
    await turns()

    assert [calls for calls, _ in host.submissions[2:]] == [[call(3)]]
    host.answer(2)
    assert await kept == call(3)


async def test_too_many_waiting_calls_are_refused_at_once() -> None:
    host = HeldHost()
    lane = Lane(host)
    tasks = []
    for number in range(IN_FLIGHT_MAX):
        tasks += await sent(lane, [number])
    tasks += await sent(lane, range(WAITING_MAX))

    with pytest.raises(Overloaded):
        await lane.call(call(-1), Attempt())
    await lane.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_closing_answers_what_is_under_way() -> None:
    host = HeldHost()
    lane = Lane(host)
    (task,) = await sent(lane, [0])
    await lane.close()

    with pytest.raises(OutcomeUnknown):
        await task


async def test_what_takes_long_is_asked_for_beside_the_rest_until_it_is_there() -> None:
    host = HeldHost()
    lane = Lane(host)
    (slow,) = await sent(lane, [0])
    (quick,) = await sent(lane, [1])
    host.answer(0, [Pending(7)])
    host.answer(1)
    await turns()
    tasks = [*await sent(lane, [2]), *await sent(lane, [3])]

    assert await quick == call(1)
    assert [calls for calls, _ in host.submissions[2:]] == [
        [ResumeCall(7)],
        [call(2)],
        [call(3)],
    ]
    host.answer(2, [Pending(8)])
    await turns()
    assert host.submissions[-1][0] == [ResumeCall(8)]
    host.answer(-1, ["at last"])
    assert await slow == "at last"
    host.answer(3)
    host.answer(4)
    assert await asyncio.gather(*tasks) == [call(2), call(3)]


async def test_a_host_that_is_lost_takes_what_was_pending_along() -> None:
    host = HeldHost()
    lane = Lane(host)
    (slow,) = await sent(lane, [0])
    host.answer(0, [Pending(1)])
    await turns()
    host.submissions[1][1].set_exception(OutcomeUnknown("the host died"))

    with pytest.raises(OutcomeUnknown, match="the host died"):
        await slow


async def test_closing_answers_what_is_pending() -> None:
    host = HeldHost()
    lane = Lane(host)
    (slow,) = await sent(lane, [0])
    host.answer(0, [Pending(1)])
    await turns()
    await lane.close()

    with pytest.raises(OutcomeUnknown):
        await slow
