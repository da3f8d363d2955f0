"""What a host answers to a submission: what is done soon, and a ticket for each of the rest.

So one call that waits for its position, or for a store, delays no other that travelled with it.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from tierledger.actors.calls import Pending, ResumeCall
from tierledger.events.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.actors.calls import Call

LINGER_S = 0.02
"""How long a submission waits for its slowest call: a few commits."""

RESUME_LINGER_S = 0.2
"""The same for a submission that only asks for results that were not there before."""

TICKETS_MAX = 50_000
"""Results that wait to be asked for; the oldest goes for the next."""


class Submissions:
    """Results that are on their way."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = itertools.count(1)

    def resume(self, ticket: int) -> asyncio.Future[Any]:
        """The result that `ticket` stands for."""
        found = self._waiting.pop(ticket, None)
        if found is None:
            found = asyncio.get_running_loop().create_future()
            found.set_result(OutcomeUnknown("the result was not asked for in time"))
        return found

    async def results(
        self, calls: Sequence[Call], futures: Sequence[asyncio.Future[Any]]
    ) -> list[Any]:
        """One result per call, errors as values, `Pending` for what takes longer."""
        undone = [future for future in futures if not future.done()]
        if undone:
            patient = all(isinstance(call, ResumeCall) for call in calls)
            await asyncio.wait(undone, timeout=RESUME_LINGER_S if patient else LINGER_S)
        return [self._result(future) for future in futures]

    def _result(self, future: asyncio.Future[Any]) -> Any:  # noqa: ANN401 - As calls have it.
        if not future.done():
            return self._ticket(future)
        if future.cancelled():
            return OutcomeUnknown("the host is closing")
        return future.exception() or future.result()

    def _ticket(self, future: asyncio.Future[Any]) -> Pending:
        while len(self._waiting) >= TICKETS_MAX:
            del self._waiting[next(iter(self._waiting))]
        ticket = next(self._tickets)
        self._waiting[ticket] = future
        return Pending(ticket)
