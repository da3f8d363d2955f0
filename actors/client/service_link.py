"""A client's link to the service: it turns all errors into ours, and reconnects.

Below the link, handles, transports and the search for the service may raise anything. Above it
there are only the errors of `events.errors`. The next call replaces a connection that failed.
This module is the one place for both.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tierledger.actors.calls import Call, Request
from tierledger.actors.connection import CoordinatorHandle, ServiceConnection
from tierledger.actors.coordinator.requests import AskedCoordinator
from tierledger.actors.deadline import Attempt
from tierledger.actors.foreign_errors import documented, documenting, is_cancelled
from tierledger.events.errors import NotReady, OutcomeUnknown, RemoteStorageError

T = TypeVar("T")

SILENCE_S = 5.0
"""Time without any answer after which a connection is replaced: a host that died is out of the
routes by then, and a coordinator has a successor."""

PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 5.0
"""Shortest and longest pause before the next search for the service; doubles each time."""

PAUSE_DOUBLED_MAX = 16


class ServiceLink:
    """The present connection, made when it is needed and dropped once it has failed."""

    def __init__(self, connect: Callable[[], Awaitable[ServiceConnection]]) -> None:
        """`connect` finds the service."""
        self.coordinator: CoordinatorHandle = _LinkedCoordinator(self)
        self.generation = 0
        """Counts connections: routes learnt over an earlier one may be another service's."""
        self._connect = connect
        self._connection: ServiceConnection | None = None
        self._connecting: asyncio.Task[ServiceConnection] | None = None
        self._closing: list[asyncio.Task[None]] = []
        self._failures = 0
        """Searches in a row that found no connection, or one without any answer."""
        self._silent_since: float | None = None
        """When the first call after the last answer began; None if there is no such call."""
        self._is_closed = False

    async def call(self, name: str, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401 - Whatever it is.
        """The result of `call` by the host at an address; `attempt` notes when it is sent.

        Raises:
            RemoteStorageError: The host's error, or `OutcomeUnknown` if the answer was lost.
        """
        result = await self.ask(name, lambda one: one.host(name).call(call, attempt))
        if isinstance(result, BaseException):
            raise documented(name, result)
        return result

    async def ready(self) -> ServiceConnection:
        """A connection, found again if there is none.

        Raises:
            RemoteStorageError: The service was not found: the error of `connect`, or
                `NotReady` for an unforeseen one. Nothing was sent.
        """
        now = asyncio.get_running_loop().time()
        if self._connection is not None:
            if now - (self._silent_since or now) <= SILENCE_S:
                return self._connection
            self._drop(self._connection)
        if self._is_closed:
            raise NotReady("the manager was closed")
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._found())
            self._connecting.add_done_callback(self._was_found)
        # A caller that gives up does not end the search: other callers wait for it, too.
        return await asyncio.shield(self._connecting)

    async def _found(self) -> ServiceConnection:
        if self._failures:
            exponent = min(self._failures - 1, PAUSE_DOUBLED_MAX)
            await asyncio.sleep(min(PAUSE_MIN_S * 2**exponent, PAUSE_MAX_S))
        self._failures += 1  # Reset by the next answer.
        with documenting("the service is not found", is_sent=False):
            self._connection = await self._connect()
        self._silent_since = None
        return self._connection

    def _was_found(self, task: asyncio.Task[ServiceConnection]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # Marked as seen: no caller may be waiting for it any more.

    async def ask(self, what: str, ask: Callable[[ServiceConnection], Awaitable[T]]) -> T:
        """The result of `ask`, called with the present connection.

        `ask` returns an awaitable; nothing is sent before that is awaited. `what` names the
        other side in messages.

        Raises:
            RetryableError: Nothing was sent, or the other side refused it.
            OutcomeUnknown: The request may have been carried out, whatever was raised.
            RemoteStorageError: The other side's error.
        """
        connection = self._connection
        if connection is None or self._silent_since is not None:
            connection = await self.ready()
        if self._silent_since is None:
            self._silent_since = asyncio.get_running_loop().time()
        is_sent = False
        try:
            asked = ask(connection)
            is_sent = True
            answer = await asked
        except (Exception, asyncio.CancelledError) as error:
            self._failed(connection, error)
            raised = documented(what, error, is_sent=is_sent)
            if raised is error:
                raise
            raise raised from error
        self._answered()
        return answer

    def _failed(self, connection: ServiceConnection, error: BaseException) -> None:
        """Note a failure. After an unforeseen error the connection is dropped as broken."""
        if not isinstance(error, RemoteStorageError):
            if not is_cancelled(error):
                self._drop(connection)
        elif not isinstance(error, OutcomeUnknown):
            self._answered()  # It is an answer.

    def _answered(self) -> None:
        self._failures, self._silent_since = 0, None

    def _drop(self, connection: ServiceConnection) -> None:
        if self._connection is not connection:
            return  # Another call has dropped it already.
        self._connection = None
        self.generation += 1
        closing = asyncio.get_running_loop().create_task(self._let_go(connection))
        self._closing = [*(task for task in self._closing if not task.done()), closing]

    async def _let_go(self, connection: ServiceConnection) -> None:
        with contextlib.suppress(Exception):  # The connection is not used any more.
            await connection.close()

    async def close(self) -> None:
        """Close the connection and end the search for one; the service goes on."""
        self._is_closed = True
        tasks = [*self._closing, *([self._connecting] if self._connecting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._let_go(connection)


class _LinkedCoordinator:
    """The coordinator over the link's connection."""

    def __init__(self, link: ServiceLink) -> None:
        self._link = link

    async def ask(self, request: Request[AskedCoordinator, T]) -> T:
        return await self._link.ask("the coordinator", lambda one: one.coordinator.ask(request))
