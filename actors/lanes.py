"""Calls on their way to hosts: what waits for one host travels together.

At most two submissions to a host are in flight; what is asked meanwhile is the next one. So a
lone call is sent at once, and many share the cost of a round trip.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tierledger.actors.calls import Pending, ResumeCall
from tierledger.events.errors import OutcomeUnknown, Overloaded, RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.actors.calls import Call
    from tierledger.actors.deadline import Attempt

IN_FLIGHT_MAX = 2
"""Submissions to one host at a time: one travels while the other is worked on."""

CALLS_PER_SUBMISSION = 512
"""Calls of one submission: enough to fill a commit, few enough to answer in time."""

WAITING_MAX = 20_000
"""Calls that may wait for a host; the next is refused at once."""


class SubmittedHost(Protocol):
    """What a lane leads to: see `HostHandle.submit`; it raises our errors only."""

    async def submit(self, calls: Sequence[Call]) -> list[Any]: ...


class Lane:
    """The way to one host."""

    def __init__(self, host: SubmittedHost) -> None:
        self._host = host
        self._waiting: deque[tuple[Call, asyncio.Future[Any], Attempt]] = deque()
        self._pending: list[tuple[Call, asyncio.Future[Any]]] = []
        """Calls that are under way there, with the ticket for each result."""
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._resuming: asyncio.Task[None] | None = None
        self._count = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way or waits."""
        return not (self._waiting or self._in_flight or self._resuming)

    async def call(self, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401 - Whatever it is.
        """The result of `call`; `attempt` notes when it is sent.

        Raises:
            RemoteStorageError: What the host answered, or `OutcomeUnknown` if it was lost.
        """
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} calls wait for this host; try again later")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, future, attempt))
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
            for _, _, attempt in taken:
                attempt.is_sent = True
            self._count += 1
            number = self._count
            sent = [(call, future) for call, future, _ in taken]
            task = asyncio.get_running_loop().create_task(self._submit(sent))
            self._in_flight[number] = task
            task.add_done_callback(partial(self._sent, number))

    def _sent(self, number: int, _task: asyncio.Task[None]) -> None:
        self._in_flight.pop(number, None)
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
            if future.done():
                continue
            if isinstance(result, Pending):
                self._pending.append((ResumeCall(result.ticket), future))
            else:
                future.set_result(result)
        if self._pending and self._resuming is None:
            self._resuming = asyncio.get_running_loop().create_task(self._resume())

    async def _resume(self) -> None:
        """Ask for what takes long, beside everything else, until all of it is there."""
        try:
            while self._pending:
                taken, self._pending = self._pending, []
                taken = [one for one in taken if not one[1].done()]
                if taken:
                    await self._submit(taken)
        finally:
            self._resuming = None

    async def close(self) -> None:
        """Give up on what is under way."""
        tasks = list(self._in_flight.values())
        if self._resuming is not None:
            tasks.append(self._resuming)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
