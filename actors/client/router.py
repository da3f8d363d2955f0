"""Finds the host that serves a partition, and retries calls while that changes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tierledger.actors.calls import (
    LEADER,
    Answered,
    Call,
    CommandCall,
    PageCall,
    PartitionKey,
    Request,
    of_request,
)
from tierledger.actors.client.retries import LASTING_AT_COORDINATOR, Retries
from tierledger.actors.client.service_link import ServiceLink
from tierledger.actors.client.window import WRITES_MAX, Window
from tierledger.actors.coordinator.requests import AskedCoordinator
from tierledger.actors.deadline import Attempt, Bounds, Deadline
from tierledger.actors.routes import Routes
from tierledger.events.commands import AddSegment, PutPartitionDelete, UpdateSegment
from tierledger.events.errors import (
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RemoteStorageError,
    RetryableError,
)

T = TypeVar("T")

SENT_WITH_S = 0.001
"""A call with less left is not sent: deadlines travel in milliseconds."""


class Router:
    """Sends calls to whichever host serves a partition in a role."""

    def __init__(self, link: ServiceLink, deadline_s: float, own_id: bytes) -> None:
        """Calls that come without a deadline get one of `deadline_s` (seconds).

        `own_id`: the client's; ids of its calls begin so, but those that writes have already.
        """
        self.link = link
        self._own_id = own_id
        self._numbers = itertools.count(1)
        self._deadline_s = deadline_s
        self._routes = Routes(link.coordinator)
        self._windows: dict[PartitionKey, Window] = {}
        self._generation = link.generation
        self._is_closed = False
        self._bounds = Bounds()

    async def ask(
        self,
        key: PartitionKey,
        role: str,
        make: Callable[[str], Call],
        deadline: Deadline | None = None,
    ) -> Any:  # noqa: ANN401
        """The answer to the query that `make` builds for the role that will answer it.

        Raises:
            NotReady: No host answered within the deadline.
            RemoteStorageError: The last refusal within the deadline, or one that a retry would
                not change.
        """
        return await self._send(key, role, make, deadline or self.deadline())

    async def change(
        self, key: PartitionKey, call: Call, deadline: Deadline | None = None
    ) -> Any:  # noqa: ANN401
        """The result of `call`, which the leader of the partition carries out.

        Failed attempts are retried. Attempts in doubt are, too: the request id in `call` lets
        the leader recognise a repeat. It remembers a limited number of ids, so no call begins
        too far ahead of the oldest one that has not ended: see `Window`.

        Raises:
            OutcomeUnknown: The deadline passed, or a retry was refused, and an earlier attempt
                in doubt may have succeeded.
            RetryableError: The deadline passed; nothing was sent, or all attempts were refused.
            RemoteStorageError: A refusal that a retry would not change.
        """
        deadline = deadline or self.deadline()
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = Window()
        number: int | None = None
        try:
            if window.is_full:
                number = await deadline.before_sending(
                    window.enter(), f"one of the {WRITES_MAX} writes before it had to end"
                )
            else:
                number = window.begin()
            return await self._send(
                key, LEADER, lambda _: call, deadline, _id_in(call) or self._new_id()
            )
        finally:
            if number is not None:
                window.leave(number)
            if window.is_idle and self._windows.get(key) is window:
                del self._windows[key]

    def deadline(self) -> Deadline:
        """The end of a call that enters now."""
        return Deadline(self._deadline_s, self._bounds)

    async def _send(
        self,
        key: PartitionKey,
        role: str,
        make: Callable[[str], Call],
        deadline: Deadline,
        change_id: bytes | None = None,
    ) -> Any:  # noqa: ANN401
        """See `ask` and `change`, which has an id."""

        async def attempt(one: Attempt) -> Any:  # noqa: ANN401
            name, serving = self._at_hand(key, role) or await self._where(key, role)
            return await self.link.call(name, make(serving), one)

        def forget() -> None:
            self._routes.forget(key)

        retries = Retries(is_change=change_id is not None)
        return await self._persist(
            attempt, forget, deadline, retries, change_id or self._new_id()
        )

    def _new_id(self) -> bytes:
        return self._own_id + (next(self._numbers) % (1 << 32)).to_bytes(4, "big")

    async def coordinate(
        self, request: Request[AskedCoordinator, T], deadline: Deadline | None = None
    ) -> T:
        """The coordinator's answer to `request`, which is retried like any call."""

        async def attempt(one: Attempt) -> T:
            await self.link.ready()
            one.is_sent = True
            return await self.link.coordinator.ask(request)

        retries = Retries(is_change=True, lasting=LASTING_AT_COORDINATOR)
        return await self._persist(attempt, lambda: None, deadline or self.deadline(), retries)

    async def _persist(
        self,
        attempt: Callable[[Attempt], Awaitable[T]],
        forget_route: Callable[[], None],
        deadline: Deadline,
        retries: Retries,
        request_id: bytes = b"",
    ) -> T:
        """The result of the last attempt; `request_id` names them all.

        The error has it, too, if any was sent: then hosts may have logged it.
        """
        if deadline.left_s < SENT_WITH_S:
            # The older writes that it waited for ended too late for it.
            raise Overloaded(f"not sent within {deadline.seconds:g} s: older ones took as long")
        is_sent = False
        while True:
            one = Attempt(deadline, request_id)
            try:
                with deadline.bound():
                    self._refuse_if_closed()
                    return await attempt(one)
            except TimeoutError as error:
                is_sent = is_sent or one.is_sent
                forget_route()
                late = retries.timed_out(deadline.seconds, is_sent=one.is_sent)
                raise _named(late, request_id if is_sent else b"") from error
            except RemoteStorageError as error:
                is_sent = is_sent or one.is_sent
                if isinstance(error, RetryableError | OutcomeUnknown):
                    forget_route()
                left_s = 0.0 if self._is_closed else deadline.left_s
                after = retries.failed(error, left_s)
                if isinstance(after, RemoteStorageError):
                    named = _named(after, request_id if is_sent else b"")
                    raise named from (None if after is error else error)
                await asyncio.sleep(after)

    async def next_page(
        self, key: PartitionKey, role: str, cursor: str, deadline: Deadline | None = None
    ) -> Answered:
        """The next page of a list that `role` opened. No retry: only one host has the list.

        Raises:
            NotReady: The list was lost, or the page did not come within the deadline.
        """
        deadline = deadline or self.deadline()
        try:
            with deadline.bound():
                name, _ = await self._where(key, role)
                call, attempt = PageCall(cursor), Attempt(deadline, self._new_id())
                page: Answered = await self.link.call(name, call, attempt)
        except TimeoutError as error:
            raise NotReady(f"no page within {deadline.seconds:g} s") from error
        except OutcomeUnknown as error:
            raise NotReady(f"the list was lost: {error}") from error
        return page

    def _at_hand(self, key: PartitionKey, role: str) -> tuple[str, str] | None:
        """See `Routes.at_hand`."""
        if self._generation != self.link.generation:
            return None
        return self._routes.at_hand(key, role)

    async def _where(self, key: PartitionKey, role: str) -> tuple[str, str]:
        """See `Routes.where`."""
        if self._generation != self.link.generation:
            # A new connection, perhaps to another service.
            self._generation = self.link.generation
            self._routes.clear()
        return await self._routes.where(key, role)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise NotReady("the manager was closed")

    async def close(self) -> None:
        """Close the connection: calls under way end, and none is retried."""
        self._is_closed = True
        await self.link.close()


def _id_in(call: Call) -> bytes | None:
    """The id that a write has anyway, by which its leader knows a repeat."""
    match call:
        case CommandCall(
            command=AddSegment(origin=origin)
            | UpdateSegment(origin=origin)
            | PutPartitionDelete(origin=origin)
        ):
            return origin.request_id
        case _:
            return None


def _named(error: RemoteStorageError, request_id: bytes) -> RemoteStorageError:
    return of_request(error, request_id) if request_id else error
