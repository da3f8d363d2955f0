"""Finds where a partition is served, and keeps trying while that changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from tierledger.actors.calls import LEADER, STORAGE, PageCall, PartitionKey
from tierledger.actors.lanes import Lane
from tierledger.actors.window import Window
from tierledger.events.errors import (
    DataError,
    Fenced,
    InvalidStateTransition,
    NotReady,
    OutcomeUnknown,
    PartitionDeleted,
    RemoteResourceNotFound,
    RetryableError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tierledger.actors.calls import Answered, Call
    from tierledger.actors.coordinator_events import Route
    from tierledger.actors.ports import CoordinatorHandle, ServiceConnection
    from tierledger.events.errors import RemoteStorageError

T = TypeVar("T")

RETRY_PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Pauses between attempts; the last repeats until the deadline."""


MAY_YET_HAPPEN = (InvalidStateTransition, RemoteResourceNotFound)
"""Refusals that another write can turn into the opposite."""


class Router:
    """Sends calls to whichever host serves a partition in a role."""

    def __init__(self, connection: ServiceConnection, deadline_s: float) -> None:
        """Give up on a call after `deadline_s` (seconds)."""
        self.connection = connection
        self._deadline_s = deadline_s
        self._routes: dict[PartitionKey, Route] = {}
        self._lanes: dict[str, Lane] = {}
        self._windows: dict[PartitionKey, Window] = {}
        self._is_closed = False

    async def ask(self, key: PartitionKey, role: str, make: Callable[[str], Call]) -> Any:  # noqa: ANN401
        """The result of the question that `make` builds for the role that answers.

        Raises:
            NotReady: Nobody answered within the deadline.
            RemoteStorageError: The last failure before it, or any that repeating would not
                change.
        """
        try:
            return await self._send(key, role, make)
        except OutcomeUnknown as error:
            raise NotReady(str(error)) from error

    async def change(self, key: PartitionKey, call: Call) -> Any:  # noqa: ANN401
        """The result of `call`, which the leader of the partition carries out.

        Retries what certainly did not happen, and what carries its own repeat protection; for
        which no call begins too far ahead of the oldest one: see `Window`.

        Raises:
            OutcomeUnknown: The deadline passed, and an attempt before it may have succeeded.
            RemoteStorageError: The last failure once the deadline has passed, or any that
                repeating would not change.
        """
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = Window()
        number = await window.enter()
        try:
            return await self._send(key, LEADER, lambda _: call, MAY_YET_HAPPEN)
        finally:
            window.leave(number)
            if window.is_idle:
                self._windows.pop(key, None)

    async def _send(
        self,
        key: PartitionKey,
        role: str,
        make: Callable[[str], Call],
        open_refusals: tuple[type[RemoteStorageError], ...] = (),
    ) -> Any:  # noqa: ANN401

        async def attempt() -> Any:  # noqa: ANN401
            name, serving = await self._where(key, role)
            return await self._lane(name).call(make(serving))

        def forget(error: RemoteStorageError) -> None:
            self._routes.pop(key, None)
            if isinstance(error, OutcomeUnknown):
                self._lanes.clear()

        return await self._persist(attempt, forget, open_refusals)

    async def coordinate(self, ask: Callable[[CoordinatorHandle], Awaitable[T]]) -> T:
        """What the coordinator answers to `ask`, which is repeated like any call."""
        return await self._persist(lambda: ask(self.connection.coordinator), lambda _: None)

    async def _persist(
        self,
        attempt: Callable[[], Awaitable[T]],
        failed: Callable[[RemoteStorageError], None],
        open_refusals: tuple[type[RemoteStorageError], ...] = (),
    ) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._deadline_s
        attempts = 0
        doubt: OutcomeUnknown | None = None
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    self._refuse_if_closed()
                    return await attempt()
            except TimeoutError as error:
                raise OutcomeUnknown(f"no answer within {self._deadline_s:g} s") from error
            except (RetryableError, OutcomeUnknown) as error:
                failed(error)
                if isinstance(error, OutcomeUnknown):
                    doubt = error  # A refusal later on says nothing about this attempt.
                pause = RETRY_PAUSES_S[min(attempts, len(RETRY_PAUSES_S) - 1)]
                attempts += 1
                if self._is_closed or loop.time() + pause > deadline:
                    raise (doubt or error) from None
                await asyncio.sleep(pause)
            except (Fenced, DataError) as error:
                # Said of this attempt, by somebody who may never have seen the one before.
                raise (doubt or error) from None
            except open_refusals as error:
                if isinstance(error, PartitionDeleted):
                    raise
                # The attempt before may still arrive, when what is refused now is allowed.
                raise (doubt or error) from None

    async def next_page(self, key: PartitionKey, role: str, cursor: str) -> Answered:
        """The next page of a list that `role` opened; never retried: one host has the list."""
        name, _ = await self._where(key, role)
        page: Answered = await self._lane(name).call(PageCall(cursor))
        return page

    async def _where(self, key: PartitionKey, role: str) -> tuple[str, str]:
        """The host to ask, and the role in which it will answer.

        Raises:
            RemoteResourceNotFound: The partition was never announced and has no log.
            NotReady: It is being placed.
        """
        route = self._routes.get(key)
        if route is None:
            (route,) = await self.connection.coordinator.route([key])
            self._routes[key] = route
        if not route.known:
            del self._routes[key]
            raise RemoteResourceNotFound(
                f"{key.named('?')} is unknown: never announced, no log"
            )
        host = route.leader_host if role == LEADER else route.follower_host
        if host is not None:
            return host, role
        if route.leader_host is not None:
            return route.leader_host, LEADER  # Nobody follows it: its leader answers as well.
        self._routes.pop(key, None)
        if route.leader is None and role != LEADER:
            # Released: known, served by nobody; any host can read it from storage.
            addresses = (await self.connection.coordinator.hosts()).values()
            for address in addresses:
                return address, STORAGE
        raise NotReady(f"{key.named('?')} has no {role} at the moment")

    def _lane(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(self.connection.host(name))
        return lane

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise NotReady("the manager was closed")

    async def close(self) -> None:
        """Give up on what is under way, and on all that would be tried again."""
        self._is_closed = True
        for lane in list(self._lanes.values()):
            await lane.close()
        await self.connection.close()
