"""Ray actors as ports: every `.remote()` is here, with a timeout and our errors.

A call that ends with its actor may or may not have happened: `OutcomeUnknown`, never a guess.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

from tierledger.actors.ray_cluster import find_actor, process_of, ray
from tierledger.actors.ray_host import create_host
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.actors.calls import Call, CloseCall, PartitionKey, Placement
    from tierledger.actors.coordinator_events import Announcement, Route
    from tierledger.actors.host_settings import ServiceSettings

CALL_TIMEOUT_S = 60.0
"""Longest wait for one call; callers with a deadline of their own give up earlier."""

END_TIMEOUT_S = 15.0
"""How long an ended process may take to be gone."""


async def call(actor: Any, method: str, *arguments: Any) -> Any:
    """The result of one actor call.

    Raises:
        RemoteStorageError: What the actor raised, or `OutcomeUnknown` if it did not answer.
    """
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await getattr(actor, method).remote(*arguments)
    except TimeoutError as error:
        raise OutcomeUnknown(f"{method}: no answer within {CALL_TIMEOUT_S:g} s") from error
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, RemoteStorageError):
            raise cause from None
        raise OutcomeUnknown(f"{method} failed: {cause!r}") from error
    except ray.exceptions.RayError as error:
        raise OutcomeUnknown(f"{method}: {type(error).__name__}") from error


class RayHost:
    """A handle on a host in the cluster."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    async def submit(self, calls: Sequence[Call]) -> list[Any]:
        results: list[Any] = await call(self.actor, "submit", list(calls))
        return results

    async def place(self, placements: Sequence[Placement]) -> None:
        await call(self.actor, "place", list(placements))

    async def close_sessions(self, closes: Sequence[CloseCall]) -> None:
        await call(self.actor, "close_sessions", list(closes))

    async def store(
        self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        return await call(self.actor, "store", method, list(arguments), dict(named))

    async def ping(self) -> dict[str, Any]:
        said: dict[str, Any] = await call(self.actor, "ping")
        return said

    async def partitions(self) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = await call(self.actor, "partitions")
        return said

    async def close(self) -> None:
        """Drain and stop the host."""
        await call(self.actor, "close")


class RayLauncher:
    """Starts and ends hosts of the cluster this process is in."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._pids: dict[str, int] = {}

    async def launch(self, name: str) -> RayHost:
        """The running host of that name, or a new one, whose store is open.

        Raises:
            StoreRefused: The store cannot be opened; no host is left behind.
        """
        host = RayHost(create_host(name, self._settings))
        try:
            await call(host.actor, "open")
        except OutcomeUnknown:
            raise
        except RemoteStorageError:
            ray.kill(host.actor, no_restart=True)
            raise
        self._pids[name] = process_of((await host.ping())["process"])
        return host

    async def end(self, name: str) -> None:
        """Kill what runs under `name`, and return once its process is gone.

        `ray.kill` comes back before the process is gone, and a frozen one would outlive it
        with the store's lock: so the process is ended by its pid, too.
        """
        actor = find_actor(name)
        if actor is not None:
            ray.kill(actor, no_restart=True)
        pid = self._pids.pop(name, None)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + END_TIMEOUT_S
        while (pid is not None and _lives(pid)) or find_actor(name) is not None:
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if loop.time() > deadline:
                raise StorageUnavailable(f"{name} (pid {pid}) does not end")
            await asyncio.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class RayCoordinator:
    """A handle on the coordinator; finds its successor when it is lost."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._actor: Any = None

    async def _call(self, method: str, *arguments: Any) -> Any:
        from tierledger.actors.ray_coordinator import create_coordinator  # noqa: PLC0415

        for attempt in (1, 2):
            if self._actor is None:
                self._actor = create_coordinator(self._settings)
                await call(self._actor, "start")
            try:
                return await call(self._actor, method, *arguments)
            except OutcomeUnknown as error:
                # Requests to the coordinator can be repeated: it decides on what its log says.
                self._actor = None
                if attempt == 2 or not isinstance(
                    error.__cause__, ray.exceptions.RayActorError
                ):
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def register(self, broker_id: int) -> int:
        incarnation: int = await self._call("register", broker_id)
        return incarnation

    async def announce(self, announcement: Announcement) -> None:
        await self._call("announce", announcement)

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        routes: list[Route] = await self._call("route", list(keys))
        return routes

    async def status(self) -> dict[str, Any]:
        said: dict[str, Any] = await self._call("status")
        return said
