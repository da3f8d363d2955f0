"""Calls on their way to hosts: what waits for one host travels together.

At most two submissions to a host are in flight; what is asked meanwhile is the next one. So a
lone call is sent at once, and many share the cost of a round trip.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from tierledger.events.errors import OutcomeUnknown, Overloaded, RemoteStorageError

if TYPE_CHECKING:
    from tierledger.actors.calls import Call
    from tierledger.actors.ports import HostHandle

IN_FLIGHT_MAX = 2
"""Submissions to one host at a time: one travels while the other is worked on."""

CALLS_PER_SUBMISSION = 512
"""Calls of one submission: enough to fill a commit, few enough to answer in time."""

WAITING_MAX = 20_000
"""Calls that may wait for a host; the next is refused at once."""


class Lane:
    """The way to one host."""

    def __init__(self, host: HostHandle) -> None:
        self._host = host
        self._waiting: deque[tuple[Call, asyncio.Future[Any]]] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()

    async def call(self, call: Call) -> Any:  # noqa: ANN401 - Whatever the call results in.
        """The result of `call`.

        Raises:
            RemoteStorageError: What the host answered, or `OutcomeUnknown` if it was lost.
        """
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} calls wait for this host; try again later")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, future))
        self._send()
        result = await future
        if isinstance(result, BaseException):
            raise result
        return result

    def _send(self) -> None:
        while self._waiting and len(self._in_flight) < IN_FLIGHT_MAX:
            count = min(len(self._waiting), CALLS_PER_SUBMISSION)
            taken = [self._waiting.popleft() for _ in range(count)]
            taken = [waiting for waiting in taken if not waiting[1].done()]
            if not taken:
                continue  # Their callers gave up before they were sent.
            task = asyncio.get_running_loop().create_task(self._submit(taken))
            self._in_flight.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._send()

    async def _submit(self, taken: list[tuple[Call, asyncio.Future[Any]]]) -> None:
        results: list[Any]
        try:
            results = await self._host.submit([call for call, _ in taken])
        except RemoteStorageError as error:
            results = [error] * len(taken)
        except asyncio.CancelledError:
            results = [OutcomeUnknown("the client was closed")] * len(taken)
        for (_, future), result in zip(taken, results, strict=True):
            if not future.done():
                future.set_result(result)

    async def close(self) -> None:
        """Give up on what is under way."""
        for task in list(self._in_flight):
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
