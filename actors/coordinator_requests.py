"""What waits for a decision: taken together, decided one by one, appended in one step."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

import structlog

from tierledger.actors import coordinator as rules
from tierledger.actors.slices import Slices
from tierledger.events.errors import (
    OutcomeUnknown,
    Overloaded,
    RejectedError,
    RemoteStorageError,
)
from tierledger.events.event_codec import chain

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierledger.actors.coordinator_events import CoordinatorBody
    from tierledger.actors.coordinator_log import CoordinatorLog
    from tierledger.actors.coordinator_state import CoordinatorState

Decide: TypeAlias = "Callable[[CoordinatorState], list[CoordinatorBody]]"
"""What a request comes to, on top of everything before it."""

WAITING_MAX = 20_000
"""Requests that may wait; the next is refused at once."""

REQUESTS_PER_BATCH = 1000
"""Requests that are decided together, or the partitions that they are about."""

_log = structlog.get_logger("tierledger.coordinator")


class Request:
    """Something to decide, and who waits for it."""

    def __init__(self, decide: Decide, items: int) -> None:
        self.decide = decide
        self.items = items
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refusal: RemoteStorageError | None = None
        self.is_hopeless = False
        """Deciding on it failed in a way that nobody foresaw; it is not tried again."""

    def settle(self) -> None:
        """Tell who waits."""
        if self.future.done():
            return
        if self.refusal is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.refusal)


class Requests:
    """A bounded queue of requests, and how they are carried out."""

    def __init__(self, log: CoordinatorLog) -> None:
        self._log = log
        self._waiting: deque[Request] = deque()
        self._wake = asyncio.Event()
        self._is_nudged = False

    async def put(self, decide: Decide, items: int = 1) -> None:
        """Return once what `decide` calls for is durable; it may be asked several times.

        `items`: how many partitions it is about.

        Raises:
            RemoteStorageError: What `decide` raised, at the end of the log.
            RejectedError: It failed in a way that nobody foresaw; nothing changed.
            Overloaded: Too many wait; nothing was queued.
            OutcomeUnknown: The store did not answer.
        """
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} requests wait for the coordinator; try later")
        request = Request(decide, items)
        self._waiting.append(request)
        self._wake.set()
        await request.future

    def nudge(self) -> None:
        """Let whoever takes requests look around, although nothing may wait."""
        self._is_nudged = True
        self._wake.set()

    async def take(self) -> list[Request]:
        """All that wait now, up to a batch; none only after a nudge."""
        while not self._waiting and not self._is_nudged:
            self._wake.clear()
            await self._wake.wait()
        self._is_nudged = False
        taken: list[Request] = []
        items = 0
        while self._waiting and items < REQUESTS_PER_BATCH:
            taken.append(self._waiting.popleft())
            items += max(1, taken[-1].items)
        return taken

    def abandon(self, error: RemoteStorageError) -> None:
        """Let nobody wait any longer."""
        while self._waiting:
            request = self._waiting.popleft()
            request.refusal = error
            request.settle()

    async def carry_out(self, requests: list[Request]) -> None:
        """Decide each on all before it, and make that durable; who waits is not told yet.

        A refusal, or a word that changes nothing, is a read: it is said only at the end of
        the log, together with an append or after a look.
        """
        try:
            while True:
                while (decided := await self._decide(requests)) is None:
                    pass  # One request less each time.
                position, stored = decided
                if stored and await self._log.append(stored, position):
                    break
                if not stored and not await self._log.read_on():
                    break
        except RemoteStorageError as error:
            _refuse(requests, error)
        except Exception as error:  # noqa: BLE001 - Who waits is answered, whatever it was.
            _log.exception("requests to the coordinator were not carried out")
            _refuse(requests, OutcomeUnknown(f"the coordinator's log: {error!r}"))

    async def _decide(self, requests: list[Request]) -> tuple[int, list[bytes]] | None:
        """What `requests` come to: the position of the first event, and all as bytes.

        None if one of them spoiled the draft on which the others were decided.
        """
        state = self._log.state
        position, draft = state.next_position, state.draft()
        decided: list[bytes] = []
        slices = Slices()
        for request in requests:
            await slices.breathe()
            if request.is_hopeless:
                continue
            request.refusal = None
            try:
                bodies = request.decide(draft)
                events, stored = self._log.encoded(
                    bodies, draft.next_position, draft.chain_hash
                )
                for event in events:
                    rules.evolve_strictly(draft, event)
            except RemoteStorageError as error:
                request.refusal = error
                continue
            except Exception as error:  # noqa: BLE001
                # Nobody foresaw it, so it is this request's fault, and ends nothing else.
                _log.exception("a request to the coordinator cannot be decided on")
                request.refusal = RejectedError(f"the coordinator cannot do this: {error!r}")
                request.is_hopeless = True
                return None
            if stored:
                draft.chain_hash = chain(stored[-1])
            decided += stored
        return position, decided


def _refuse(requests: list[Request], error: RemoteStorageError) -> None:
    for request in requests:
        if not request.is_hopeless:
            request.refusal = error
