"""Finds the host that serves a partition, and retries calls while that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tierledger.actors.calls import LEADER, Answered, Call, PageCall, PartitionKey
from tierledger.actors.client.service_link import ServiceLink
from tierledger.actors.client.window import WRITES_MAX, Window
from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.deadline import Attempt, Bounds, Deadline
from tierledger.actors.routes import Routes
from tierledger.events.errors import (
    DataError,
    Fenced,
    InvalidArgument,
    InvalidStateTransition,
    NotAuthorized,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    PartitionDeleted,
    RemoteResourceNotFound,
    RemoteStorageError,
    RetryableError,
)

T = TypeVar("T")

RETRY_PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Pauses between attempts; the last repeats until the deadline."""

SENT_WITH_S = 0.001
"""A call with less left is not sent: deadlines travel in milliseconds."""

RETRIED_WITH_S = 0.1
"""A retry with less left would mostly turn a certain refusal into an unknown outcome."""

MAY_YET_HAPPEN = (InvalidStateTransition, RemoteResourceNotFound)
"""Refusals that depend on the state: after another write the same request may be allowed."""


class Router:
    """Sends calls to whichever host serves a partition in a role."""

    def __init__(self, link: ServiceLink, deadline_s: float) -> None:
        """Calls that come without a deadline get one of `deadline_s` (seconds)."""
        self.link = link
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
        try:
            return await self._send(key, role, make, self._deadline(deadline))
        except OutcomeUnknown as error:
            # A query changes nothing, so it leaves nothing in doubt: its last refusal, if it
            # got one, tells the caller more.
            if isinstance(error.__cause__, RetryableError):
                raise error.__cause__ from None
            raise NotReady(str(error)) from error

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
        deadline = self._deadline(deadline)
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
            return await self._send(key, LEADER, lambda _: call, deadline, MAY_YET_HAPPEN)
        finally:
            if number is not None:
                window.leave(number)
            if window.is_idle and self._windows.get(key) is window:
                del self._windows[key]

    def _deadline(self, given: Deadline | None) -> Deadline:
        return given or Deadline(self._deadline_s, self._bounds)

    async def _send(
        self,
        key: PartitionKey,
        role: str,
        make: Callable[[str], Call],
        deadline: Deadline,
        open_refusals: tuple[type[RemoteStorageError], ...] = (),
    ) -> Any:  # noqa: ANN401

        async def attempt(one: Attempt) -> Any:  # noqa: ANN401
            name, serving = self._at_hand(key, role) or await self._where(key, role)
            return await self.link.call(name, make(serving), one)

        def forget(_: RemoteStorageError) -> None:
            self._routes.forget(key)

        return await self._persist(attempt, forget, deadline, open_refusals)

    async def coordinate(
        self,
        ask: Callable[[CoordinatorHandle], Awaitable[T]],
        deadline: Deadline | None = None,
    ) -> T:
        """The coordinator's answer to `ask`, which is retried like any call."""

        async def attempt(one: Attempt) -> T:
            await self.link.ready()
            one.is_sent = True
            return await ask(self.link.coordinator)

        return await self._persist(attempt, lambda _: None, self._deadline(deadline))

    async def _persist(
        self,
        attempt: Callable[[Attempt], Awaitable[T]],
        failed: Callable[[RemoteStorageError], None],
        deadline: Deadline,
        open_refusals: tuple[type[RemoteStorageError], ...] = (),
    ) -> T:
        attempts = 0
        refusal: RetryableError | None = None
        doubt: OutcomeUnknown | None = None
        if deadline.left_s < SENT_WITH_S:
            # The older writes that it waited for ended too late for it.
            raise Overloaded(f"not sent within {deadline.seconds:g} s: older ones took as long")
        while True:
            one = Attempt(deadline)
            try:
                with deadline.bound():
                    self._refuse_if_closed()
                    return await attempt(one)
            except TimeoutError as error:
                lost = OutcomeUnknown(f"no answer within {deadline.seconds:g} s")
                failed(lost)
                if one.is_sent or doubt is not None:
                    raise (doubt or lost) from (refusal or error)
                if refusal is not None:
                    raise refusal from error
                raise NotReady(
                    f"not sent within {deadline.seconds:g} s: no host to send it to"
                ) from error
            except (RetryableError, OutcomeUnknown) as error:
                failed(error)
                if isinstance(error, OutcomeUnknown):
                    doubt = error  # Kept: a later refusal says nothing about this attempt.
                else:
                    refusal = error
                pause = RETRY_PAUSES_S[min(attempts, len(RETRY_PAUSES_S) - 1)]
                attempts += 1
                if self._is_closed or pause + RETRIED_WITH_S > deadline.left_s:
                    raise (doubt or error) from (refusal if doubt else None)
                await asyncio.sleep(pause)
            except (Fenced, DataError, NotAuthorized, InvalidArgument) as error:
                # This refuses the last attempt only. The process that refused it may never
                # have seen an earlier attempt in doubt, which may have been stored.
                raise (doubt or error) from None
            except open_refusals as error:
                if isinstance(error, PartitionDeleted):
                    raise
                # An earlier attempt in doubt may still arrive, and the state may allow then
                # what it forbids now.
                raise (doubt or error) from None

    async def next_page(
        self, key: PartitionKey, role: str, cursor: str, deadline: Deadline | None = None
    ) -> Answered:
        """The next page of a list that `role` opened. No retry: only one host has the list.

        Raises:
            NotReady: The list was lost, or the page did not come within the deadline.
        """
        deadline = self._deadline(deadline)
        try:
            with deadline.bound():
                name, _ = await self._where(key, role)
                call, attempt = PageCall(cursor), Attempt(deadline)
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
