"""Ray actors as ports: every `.remote()` is here, with a timeout and our errors.

A call whose actor dies may or may not have been carried out: that is `OutcomeUnknown`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar

from typing_extensions import override

from tierledger.actors.calls import CoordinatedHost, Request
from tierledger.actors.coordinator.requests import FollowedCoordinator, HostsCall
from tierledger.actors.foreign_errors import documenting
from tierledger.actors.host_settings import ServiceSettings, with_absolute_store
from tierledger.actors.ports import HostFailed, HostGone
from tierledger.actors.processes import node_of
from tierledger.actors.ray.cluster import actor_names, beside, find_actor, ray
from tierledger.events.errors import (
    NotReady,
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.storage.connector import URL_SETTING, setting
from tierledger.storage.locate import public_url

T = TypeVar("T")

COORDINATOR = "coordinator"
"""The name of its actor."""

FORESEE_S = 5.0
"""How often a host looks for the process that will write next, and for the coordinator."""

REPLACED_S = 1.0
"""How long a call waits while no host writes for all, before it fails."""

LOOK_AGAIN_S = 0.02
"""How often the coordinator is asked for that host meanwhile."""

CALL_TIMEOUT_S = 60.0
"""Longest wait for one call; callers with their own deadline give up earlier."""

START_TIMEOUT_S = 180.0
"""The same for a call that waits for processes to start: a second each, and half a minute on a
machine that is busy with other work."""

SEARCH_S = 1.0
"""How long a call waits until the host that writes for all is found by its name. Without the
control store of Ray no search ends, and by the next call another process may write."""

COORDINATOR_TIMEOUT_S = 10.0
"""The same for a request to the coordinator; a frozen coordinator has a successor by then."""


def namespace_of(settings: ServiceSettings) -> str:
    """The Ray namespace of the service on this store; user and password do not change it."""
    known = with_absolute_store(settings)
    url = public_url(setting(known.storage, URL_SETTING) or "")
    digest = blake2b(f"{known.cluster_id}\0{url}".encode(), digest_size=8)
    return f"tierledger-{digest.hexdigest()}"


def named_actor(kind: Any, *arguments: Any, name: str, namespace: str, on: Any) -> Any:
    """The handle of a named, detached actor of `kind`, which is made if there is none.

    `on` is the scheduling strategy that determines its node.

    Raises:
        NotReady: Another process made it, and it ended before it was found here; try again.
    """
    options = kind.options(
        name=name,
        namespace=namespace,
        lifetime="detached",
        get_if_exists=True,
        scheduling_strategy=on,
    )
    try:
        return options.remote(*arguments)
    except ValueError as error:
        # Ray looks for the name, makes the actor if it finds none, and looks again if the name
        # was taken meanwhile. The last search fails if that actor has ended.
        raise NotReady(f"{name} ended while it was looked for") from error


async def call(
    actor: Any,
    method: str,
    *arguments: Any,
    timeout_s: float = CALL_TIMEOUT_S,
    what: str | None = None,
) -> Any:
    """The result of one actor call; `what` names it in messages, if not `method`.

    Raises:
        RemoteStorageError: The actor's error, `HostFailed` if that is not one of ours,
            `HostGone` if the actor is dead, or `OutcomeUnknown` if it did not answer.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await getattr(actor, method).remote(*arguments)
    except TimeoutError as error:
        raise OutcomeUnknown(f"{what or method}: no answer within {timeout_s:g} s") from error
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, RemoteStorageError):
            raise cause from None
        raise HostFailed(f"{what or method} failed: {cause!r}") from error
    except ray.exceptions.ActorUnavailableError as error:
        raise OutcomeUnknown(f"{what or method}: the actor cannot be reached") from error
    except ray.exceptions.RayActorError as error:
        raise HostGone(f"{what or method}: {type(error).__name__}") from error
    except ray.exceptions.RayError as error:
        raise OutcomeUnknown(f"{what or method}: {type(error).__name__}") from error


async def put(actor: Any, request: Request[Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
    """The actor's answer to `request`; raises as `call` does."""
    answer: T = await call(
        actor, "ask", request, timeout_s=timeout_s, what=type(request).__name__
    )
    return answer


class RayHost:
    """A handle on a process that serves as a host."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    async def ask(self, request: Request[CoordinatedHost, T]) -> T:
        return await put(await self._found(), request)

    async def _found(self) -> Any:
        return self.actor

    async def close(self) -> None:
        """Drain and stop the host."""
        await call(await self._found(), "close")


def addresses_of(name: str, namespace: str) -> list[str]:
    """The addresses of processes that serve as `name`, or are to; the newest last."""
    found = [one for one in actor_names(namespace) if one.rpartition("/")[0] == name]
    return sorted(found, key=lambda one: int(one.rpartition("/")[2]))


class NamedHost(RayHost):
    """The process at an address, or the newest that serves as a host.

    It is searched for at the first call. Every call raises `NotReady` if there is no such
    process; nothing was sent then.
    """

    def __init__(self, name: str, namespace: str, patience_s: float = START_TIMEOUT_S) -> None:
        """`patience_s`: how long a call waits for the search, which goes on after it."""
        super().__init__(None)
        self._name = name
        self._namespace = namespace
        self._patience_s = patience_s
        self._search: asyncio.Task[Any] | None = None

    @override
    async def _found(self) -> Any:
        if self.actor is None:
            if self._search is None:
                self._search = asyncio.create_task(self._find())
            search = self._search
            await asyncio.wait([search], timeout=self._patience_s)
            if not search.done():
                raise NotReady(f"{self._name} was not found within {self._patience_s:g} s")
            if self._search is search:
                self._search = None
            self.actor = search.result()
        if self.actor is None:
            raise NotReady(f"{self._name} is not running")
        return self.actor

    async def _find(self) -> Any:
        name, namespace = self._name, self._namespace
        if "/" in name:
            return await beside(lambda: find_actor(name, namespace))
        for address in reversed(await beside(lambda: addresses_of(name, namespace))):
            actor = await beside(partial(find_actor, address, namespace))
            with suppress(RemoteStorageError):  # It may end just now.
                if actor is not None and await call(actor, "is_open"):
                    return actor
        return None


class RayCoordinator:
    """A handle on the coordinator; finds or makes a successor when the coordinator is lost."""

    _node: str | None = None
    """Where the last one ran. A handle that comes from a former release has no such field."""

    def __init__(self, create: Callable[..., Any]) -> None:
        """`create`: gives the actor, made if there is none; travels to other processes.

        It is told which node it should avoid (`avoid`).
        """
        self._create = create
        self._actor: Any = None

    async def ask(self, request: Request[FollowedCoordinator, T]) -> T:
        return await self._asked(lambda actor: put(actor, request, COORDINATOR_TIMEOUT_S))

    async def process(self) -> str:
        """The name of the coordinator's process."""
        process: str = await self._watched("process")
        return process

    async def hindrance(self) -> str | None:
        """Why nothing can be written for want of a host; None if that is possible."""
        hindrance: str | None = await self._watched("hindrance")
        return hindrance

    async def serving(self) -> dict[str, str]:
        """The processes that serve, by host."""
        serving: dict[str, str] = await self._watched("serving")
        return serving

    async def _watched(self, method: str) -> Any:
        return await self._asked(
            lambda actor: call(actor, method, timeout_s=COORDINATOR_TIMEOUT_S)
        )

    async def _asked(self, ask: Callable[[Any], Awaitable[T]]) -> T:
        for attempt in (1, 2):
            try:
                if self._actor is None:
                    # What Ray raises by itself is no answer of the coordinator.
                    with documenting("the coordinator", is_sent=False):
                        actor = await beside(partial(self._create, avoid=self._node))
                    await self._meet(actor)
                return await ask(self._actor)
            except OutcomeUnknown as error:
                # Requests to the coordinator are idempotent: it decides on its whole log.
                self._actor = None
                if attempt == 2 or not isinstance(error, HostGone):
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def foresee(self, settings: ServiceSettings) -> None:
        """Find the coordinator that runs before it is needed, for ever; none is made.

        Without the control store of Ray none is found by its name.
        """
        find = partial(find_actor, COORDINATOR, namespace_of(settings))
        while True:
            with suppress(RemoteStorageError), documenting("the coordinator"):
                found = await beside(find)
                if found not in {None, self._actor}:
                    await self._meet(found)
            await asyncio.sleep(FORESEE_S)

    async def _meet(self, actor: Any) -> None:
        """Ask `actor` from now on; then Ray knows where it is."""
        await call(actor, "start", timeout_s=START_TIMEOUT_S)
        process = await call(actor, "process", timeout_s=COORDINATOR_TIMEOUT_S)
        self._actor, self._node = actor, node_of(process)


class WritingHost:
    """Finds the host that writes for all, and again after a call on it was lost."""

    def __init__(
        self, coordinator: RayCoordinator, settings: ServiceSettings, name: str
    ) -> None:
        self._coordinator = coordinator
        self._namespace = namespace_of(settings)
        self._name = name
        self._host: RayHost | None = None
        self._address: str | None = None
        self._named: tuple[str, NamedHost] | None = None
        """The last process that was searched for by its name, and its address."""
        self._search: asyncio.Task[None] | None = None
        """Asks the coordinator for all calls that wait: each that asked by itself would keep it
        from starting the next host."""
        self._next: tuple[str, RayHost] | None = None
        """The process that waits in reserve, and its address."""

    async def current(self) -> RayHost:
        """The host that writes for all.

        Raises:
            StorageUnavailable: No host has written for `REPLACED_S`; nothing was sent.
        """
        while self._host is None:
            if self._search is None:
                self._search = asyncio.create_task(self._searched())
            await asyncio.shield(self._search)
        return self._host

    async def _searched(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            until_s = loop.time() + REPLACED_S
            while not await self._is_found():
                if loop.time() >= until_s:
                    raise StorageUnavailable(
                        f"{self._name}, which writes for all, is being replaced"
                    )
                await asyncio.sleep(LOOK_AGAIN_S)
        finally:
            self._search = None

    async def _is_found(self) -> bool:
        try:
            self._address = (await self._coordinator.ask(HostsCall())).get(self._name)
        except OutcomeUnknown as error:
            raise StorageUnavailable(f"the writing host is unknown: {error}") from error
        if self._address is not None:
            self._host = self._handle(self._address)
        return self._host is not None

    def _handle(self, address: str) -> RayHost:
        # For some seconds after a loss the coordinator may name the process that was lost: its
        # successor stays foreseen meanwhile.
        if self._next is not None and self._next[0] == address:
            foreseen, self._next = self._next[1], None
            return foreseen  # If it fails, the next search is by name.
        if self._named is None or self._named[0] != address:
            self._named = (address, NamedHost(address, self._namespace, SEARCH_S))
        return self._named[1]

    async def foresee(self) -> None:
        """Find the host's next process while it waits in reserve, for ever.

        Without the control store of Ray no process is found by its name.
        """
        while True:
            await asyncio.sleep(FORESEE_S)
            with suppress(RemoteStorageError), documenting("the next writing host"):
                await self._foreseen()

    async def _foreseen(self) -> None:
        await self.current()
        assert self._address is not None, "its handle was made with it"
        former = self._address
        name, _, number = former.rpartition("/")
        address = f"{name}/{int(number) + 1}"
        known = self._next
        if known is None or known[0] != address:
            actor = await beside(lambda: find_actor(address, self._namespace))
            known = None if actor is None else (address, RayHost(actor))
        if known is not None:
            try:
                # Ray says now where it is.
                await call(known[1].actor, "is_open", timeout_s=FORESEE_S)
            except RemoteStorageError:
                known = None  # It may have died, and another one may be there.
                raise
            finally:
                if self._address == former:
                    self._next = known

    def forget(self) -> None:
        """Search for the host again before the next call, since one was lost."""
        self._host = None
