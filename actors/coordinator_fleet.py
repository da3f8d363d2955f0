"""The hosts as processes: started, told, watched, and given up when they are gone.

What this module believes is a hint. Which process serves as which host is an event of the
coordinator's log, and who may write is decided in each partition's log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from tierledger.actors.coordinator_state import SetAside
from tierledger.actors.ports import HostFailed, HostGone
from tierledger.events.errors import (
    OutcomeUnknown,
    RemoteStorageError,
    RetryableError,
    StorageUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from tierledger.actors.calls import CloseCall, PartitionKey, Placement
    from tierledger.actors.coordinator import HostWork
    from tierledger.actors.ports import Clock, HostHandle, HostLauncher

WATCH_INTERVAL_S = 0.2
"""How often each host is asked whether it lives; less often if there are many."""

PINGS_PER_S = 100
"""What a coordinator spends on all of them together."""

PINGS_MISSED = 3
"""Unanswered pings in a row after which a silent host is given up."""

PING_TIMEOUT_S = 0.8

PING_TIMEOUT_MAX_S = 4.0
PING_PATIENCE = 4.0
"""A host may take so many times as long as it took of late: where everything is slow, silence
says less, and a host that is given up for nothing costs the start of another."""

PING_FADES = 0.9
"""What is left of "of late" at the next answer."""

LATE_S = 0.25
"""How late a timer of this process may be before its own loop counts as what was too busy."""

LAUNCH_TIMEOUT_S = 30.0
"""How long a process may take to start and open its store before another node is tried."""

WRITER_LAUNCH_TIMEOUT_S = 120.0
"""The same for the one that writes for all, which can start on the store's node only."""

LAUNCHES_AT_ONCE = 8
"""Processes that start side by side; more would only make each slower."""

BACKOFF_MIN_S = 0.2
BACKOFF_MAX_S = 10.0
"""Pause before a host that died at once is started once more; doubles in between."""

AT_ONCE_S = 1.0
"""A host that lived for less than this may have died of its start."""

FREE_DEATHS = 20
"""Such deaths in a row before there is a pause: hosts are also killed quickly, in drills."""

PLACEMENTS_PER_CALL = 500

_log = structlog.get_logger("tierledger.coordinator")


def patience(took: float) -> float:
    """How long a host may take to answer that took so long of late (s)."""
    return min(max(PING_TIMEOUT_S, PING_PATIENCE * took), PING_TIMEOUT_MAX_S)


class Running:
    """A process that serves as a host, and what it has still to be told."""

    def __init__(
        self, name: str, address: str, process: str, handle: HostHandle, door: str | None = None
    ) -> None:
        """`door`: where clients reach it (HOST:PORT), if it listens."""
        self.name = name
        self.door = door
        self.address = address
        self.process = process
        self.handle = handle
        self.untold: deque[HostWork] = deque()
        self.has_work = asyncio.Event()
        self.set_aside: dict[tuple[PartitionKey, str], SetAside] = {}
        """What it lives and could not do, by partition and role, until it can."""
        self.since = asyncio.get_running_loop().time()


class FleetOwner(Protocol):
    """Who decides on hosts."""

    def address_for(self, name: str, failures: int) -> str:
        """Where the next process of `name` is to be found."""
        ...

    async def joined(self, running: Running) -> None:
        """A process serves as a host from now on."""
        ...

    async def heard(self, running: Running, said: dict[str, Any]) -> None:
        """A host lives."""
        ...

    def give_up(self) -> None:
        """Something failed that nobody foresaw."""
        ...

    async def gone(self, running: Running) -> None:
        """A host is dead, or silent for too long; it is no part of the fleet any more."""
        ...


class Fleet:
    """All processes that serve, by host."""

    def __init__(
        self, launcher: HostLauncher, owner: FleetOwner, writer: str | None, clock: Clock
    ) -> None:
        """`writer`: the host whose process must have ended before its successor starts."""
        self.running: dict[str, Running] = {}
        self.starting: dict[str, asyncio.Task[None]] = {}
        self.writer = writer
        self._clock = clock
        self._launcher = launcher
        self._owner = owner
        self._launches = asyncio.Semaphore(LAUNCHES_AT_ONCE)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._task_numbers = 0
        self._deaths: dict[str, int] = {}
        """Host to how often in a row it was gone soon after its start."""

    def set_aside(self) -> list[SetAside]:
        """What hosts that live could not do."""
        return [one for running in self.running.values() for one in running.set_aside.values()]

    # Processes.

    async def find(self, name: str, address: str, process: str) -> Running | None:
        """The process, if it still serves; takes a few pings to be sure that it does not."""
        handle = await self._launcher.find(address)
        if handle is None:
            return None
        for _ in range(PINGS_MISSED):
            try:
                async with asyncio.timeout(PING_TIMEOUT_S):
                    said = await handle.ping()
            except HostGone:
                return None
            except Exception:  # noqa: BLE001 - As below.
                continue
            if said["process"] != process:
                return None
            return Running(name, address, process, handle, said.get("door"))
        return None

    async def launch(self, name: str, address: str) -> Running:
        """A new process, or the one that somebody else has just started there.

        Raises:
            RemoteStorageError: It does not start; what is left of it is ended.
        """
        timeout_s = WRITER_LAUNCH_TIMEOUT_S if name == self.writer else LAUNCH_TIMEOUT_S
        try:
            async with self._launches, asyncio.timeout(timeout_s):
                handle = await self._launcher.launch(address)
                said = await handle.ping()
        except TimeoutError as error:
            self.spawn(self.end(address, None))
            raise StorageUnavailable(
                f"{address} did not start within {timeout_s:g} s"
            ) from error
        return Running(name, address, said["process"], handle, said.get("door"))

    async def end(self, address: str, process: str | None) -> None:
        """End what is left of a process, as far as that can be done from here."""
        try:
            await self._launcher.end(address, process)
        except RemoteStorageError as error:
            # The log fences whatever it still tries to write.
            _log.warning("a process was not ended", address=address, error=str(error))

    def add(self, running: Running) -> None:
        """Tell and watch it from now on."""
        self.running[running.name] = running
        self.spawn(self._watch(running))
        self.spawn(self._keep_telling(running))

    def drop(self, running: Running) -> None:
        """It serves no more; what it was not told is of no use any more."""
        if self.running.get(running.name) is running:
            del self.running[running.name]
        running.untold.clear()
        running.has_work.set()

    def start(self, name: str, former: Running | None = None) -> None:
        """Start a process for `name` beside everything else, until one serves."""
        if name not in self.starting and name not in self.running:
            self.starting[name] = self.spawn(self._start(name, former))

    async def _start(self, name: str, former: Running | None) -> None:
        failures = 0
        try:
            while (running := await self._try_start(name, former, failures)) is None:
                # What did not even start pauses from the first time on.
                self._deaths[name] = max(self._deaths.get(name, 0), FREE_DEATHS) + 1
                failures += name != self.writer
        finally:
            self.starting.pop(name, None)
        self.add(running)
        await self._owner.joined(running)

    async def _try_start(
        self, name: str, former: Running | None, failures: int
    ) -> Running | None:
        await self._back_off(name)
        try:
            address = self._owner.address_for(name, failures)
            if former is not None and name == self.writer:
                self._launcher.prepare(address)
                # Two must not write: the store would refuse the second.
                await self._launcher.end(former.address, former.process)
            return await self.launch(name, address)
        except RemoteStorageError as error:
            _log.warning("a host does not start", host=name, error=str(error))
            return None

    async def _back_off(self, name: str) -> None:
        deaths = self._deaths.get(name, 0) - FREE_DEATHS
        if deaths > 0:
            await asyncio.sleep(min(BACKOFF_MIN_S * 2 ** (deaths - 1), BACKOFF_MAX_S))

    # Watching.

    async def _watch(self, running: Running) -> None:
        loop = asyncio.get_running_loop()
        missed, took = 0, 0.0
        while self.running.get(running.name) is running:
            begun = loop.time()
            deadline = begun + patience(took)
            try:
                async with asyncio.timeout_at(deadline):
                    said = await running.handle.ping()
            except HostGone:
                break
            except Exception:  # noqa: BLE001 - Whatever it is, it is no answer.
                missed += loop.time() - deadline < LATE_S
                if missed == PINGS_MISSED:
                    break
            else:
                missed = 0
                took = max(loop.time() - begun, took * PING_FADES)
                await self._owner.heard(running, said)
            await asyncio.sleep(max(WATCH_INTERVAL_S, len(self.running) / PINGS_PER_S))
        if self.running.get(running.name) is running:
            await self._lose(running)

    async def _lose(self, running: Running) -> None:
        name = running.name
        _log.warning("host is gone", host=name, process=running.process)
        lived = asyncio.get_running_loop().time() - running.since
        self._deaths[name] = self._deaths.get(name, 0) + 1 if lived < AT_ONCE_S else 0
        self.drop(running)
        if name == self.writer:
            self.start(name, running)  # Nothing can be decided without it.
        else:
            self.spawn(self.end(running.address, running.process))
            await self._owner.gone(running)

    # Telling.

    def tell(self, works: list[HostWork]) -> None:
        """Let hosts know, each in order; a slow one holds up no other."""
        for work in works:
            running = self.running.get(work.host)
            if running is not None:
                running.untold.append(work)
                running.has_work.set()

    async def _keep_telling(self, running: Running) -> None:
        while self.running.get(running.name) is running:
            await running.has_work.wait()
            running.has_work.clear()
            while running.untold:
                try:
                    await self._tell_next(running)
                except RemoteStorageError as error:
                    # The watch finds out whether it lives; a living one is told again.
                    _log.warning("a host was not told", host=running.name, error=str(error))
                    await asyncio.sleep(WATCH_INTERVAL_S)

    async def _tell_next(self, running: Running) -> None:
        """Tell it the first piece of work, and the placements behind it that go along."""
        works, handle = running.untold, running.handle
        if works[0].closes:
            await self._told(running, handle.close_sessions, works[0].closes)
            if works:
                works[0] = works[0]._replace(closes=())
            return
        placements: list[Placement] = []
        told = 0
        for work in works:
            if work.closes or (told and len(placements) >= PLACEMENTS_PER_CALL):
                break
            placements += work.placements
            told += 1
        if placements:
            await self._told(running, handle.place, placements)
        for _ in range(min(told, len(works))):
            works.popleft()

    async def _told(
        self,
        running: Running,
        tell: Callable[[Sequence[Any]], Awaitable[None]],
        items: Sequence[Placement | CloseCall],
    ) -> None:
        """Tell it `items`: what the host fails at is set aside, alone, and blocks nothing.

        Raises:
            RemoteStorageError: It may not have heard; all of it has to be told again.
        """
        try:
            await tell(items)
        except Exception as error:
            if _is_unreachable(error):
                raise
            if len(items) == 1:
                self._set_aside(running, items[0], error)
                return
            for item in items:
                await self._told(running, tell, [item])
        else:
            for item in items if running.set_aside else ():
                running.set_aside.pop(_seat(item), None)

    def _set_aside(
        self, running: Running, item: Placement | CloseCall, error: Exception
    ) -> None:
        key, role = _seat(item)
        what = f"{key.named('?')}, {role} on {running.name}"
        reason = f"{type(error).__name__}: {error}"
        running.set_aside[key, role] = SetAside(what, reason, self._clock.now_ms())
        _log.error("alarm", kind="SetAside", what=what, reason=reason)

    # Tasks.

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` until the fleet is closed."""
        self._task_numbers += 1
        number = self._task_numbers
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[number] = task
        task.add_done_callback(lambda done: self._finished(number, done))
        return task

    def _finished(self, number: int, task: asyncio.Task[None]) -> None:
        self._tasks.pop(number, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the coordinator failed", exc_info=task.exception())
            # What it left undone nobody knows: a successor reads the log and does all of it.
            self._owner.give_up()

    async def close(self) -> None:
        """Stop telling and watching; the processes are left as they are."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_unreachable(error: Exception) -> bool:
    """Whether a host may not have heard; else it did, and failed at what it was told."""
    may_be = isinstance(error, OutcomeUnknown | RetryableError)
    return may_be and not isinstance(error, HostFailed)


def _seat(item: Placement | CloseCall) -> tuple[PartitionKey, str]:
    """What of which partition a host is told to change."""
    return item.key, getattr(item, "role", "session to close")
