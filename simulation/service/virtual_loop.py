"""An asyncio event loop with virtual time, on which several simulated processes run.

When no process is runnable, time jumps to the next timer. A step belongs to the process in
whose context it was scheduled, so a process can be paused (its steps are held) or killed (they
are dropped) between any two of its steps, as SIGSTOP and SIGKILL do. The order of steps depends
only on what the program does: steps of one instant run first come, first served.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from math import ceil
from typing import Any, TypeVar

from typing_extensions import override

from tierledger.simulation.machines.environment.clockwork import Clockwork, ProcessLife, S

T = TypeVar("T")

_OWNER: ContextVar[VirtualProcess] = ContextVar("owner")


class VirtualProcess(ProcessLife):
    """Something that can be paused and killed; its steps run on the world's loop."""

    def __init__(self, site: str, number: int = 0) -> None:
        super().__init__(site, number)
        self.is_frozen = False
        """Paused for good: it does not go on when all heals."""
        self.steps = 0
        self.fuse: int | None = None
        """The number of steps after which the process is killed; none: it is not."""
        self.when_killed: dict[int, Callable[[], None]] = {}
        """What to call when the process dies or is believed dead, as on a broken connection."""

    def context(self) -> Context:
        """A context whose steps are this process's."""
        context = copy_context()
        context.run(_OWNER.set, self)
        return context


class LoopStep:
    """A callback that is due; asyncio calls it a handle."""

    __slots__ = ("_loop", "args", "callback", "context", "due")

    def __init__(
        self,
        loop: VirtualLoop,
        due: float,
        callback: Callable[..., Any] | None,
        args: tuple[Any, ...],
        context: Context,
    ) -> None:
        self._loop = loop
        self.due = due
        self.callback = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        """The callback will not run."""
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due

    def run(self) -> None:
        """Run the callback, unless the fuse of its process ends that process first."""
        if self.callback is None:
            return
        process = self.context.get(_OWNER)
        if process is not None:
            process.steps += 1
            if process.fuse is not None and process.steps > process.fuse:
                process.fuse = None
                process.held.append((self.run, ()))
                self._loop.kill(process)
                return
        try:
            self.context.run(self.callback, *self.args)
        except Exception as error:
            if process is None:  # The world itself, which must not go on.
                raise
            self._loop._failures.append(error)  # As a real loop, which then goes on.


class VirtualLoop(asyncio.AbstractEventLoop):  # It has what a world uses.
    """Runs steps in order of their virtual time (seconds since the world began)."""

    def __init__(self) -> None:
        self.clock = Clockwork()
        self._is_closed = False
        self._spawned: list[asyncio.Task[Any]] = []
        """Keeps the suspended tasks of dead processes. Often nothing else refers to them, and
        the garbage collector would close them in the middle of the run."""
        self._failures: list[BaseException] = []

    @property
    def failures(self) -> list[BaseException]:
        """Exceptions that nobody awaited: errors of the program, never faults."""
        # A task reports such an exception only when it is finalized.
        self._spawned = [task for task in self._spawned if not task.done()]
        return self._failures

    # What asyncio asks of a loop.

    @override
    def time(self) -> float:
        return self.clock.now / S

    @override
    def call_soon(  # type: ignore[override]  # A handle of our own, lighter than asyncio's.
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> LoopStep:
        return self.call_at(self.time(), callback, *args, context=context)

    @override
    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> LoopStep:
        step = LoopStep(self, when, callback, args, _own(context))
        if not self._is_closed:
            at = ceil(when * S)
            at += at / S < when  # Rounded up, as a waiter woken too early would sleep again.
            self.clock.at(max(self.clock.now, at), step.context.get(_OWNER), step.run)
        return step

    @override
    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> LoopStep:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    @override
    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    @override
    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    @override
    def get_debug(self) -> bool:
        return False

    @override
    def is_running(self) -> bool:
        return not self._is_closed

    @override
    def is_closed(self) -> bool:
        return self._is_closed

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # A plain future is no error: an answer to a process that was killed meanwhile.
        if error is not None and isinstance(context.get("future"), asyncio.Task):
            self._failures.append(error)

    @override
    def stop(self) -> None:
        self.clock.is_stopped = True

    @override
    def close(self) -> None:
        """Run no more steps, and drop those that are scheduled; then call `discard`."""
        self._is_closed = True
        self.clock.heap.clear()

    def discard(self) -> None:
        """Close every coroutine that the end of the run left suspended.

        Otherwise the garbage collector would close them at any later moment. Without a running
        loop, a clean-up that awaits would then print an error. Here clean-ups have a loop and
        their task, and their exceptions are dropped. They may change the world's objects: judge
        those first.
        """
        former = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            # A clean-up may start tasks, and suspend again.
            while left := [task for task in asyncio.all_tasks(self) if _is_open(task)]:
                for task in left:
                    work: Any = task.get_coro()
                    asyncio.tasks._enter_task(self, task)
                    with contextlib.suppress(BaseException):
                        work.close()
                    asyncio.tasks._leave_task(self, task)
        finally:
            asyncio._set_running_loop(former)

    # Processes.

    def spawn(self, process: VirtualProcess, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as `process`."""
        task = self.create_task(work, context=process.context())
        self._spawned.append(task)
        return task

    def pause(self, process: VirtualProcess) -> None:
        """Freeze `process` between two steps; steps that fall due meanwhile wait."""
        process.is_paused = True

    def resume(self, process: VirtualProcess) -> None:
        """Let `process` go on as if no time had passed: its timers fire all at once."""
        self.clock.resume(process)

    def kill(self, process: VirtualProcess) -> None:
        """End `process` between two steps: nothing of it runs again, no clean-up either."""
        if process.is_dead:
            return
        process.is_dead = True
        self._call_when_killed(process)

    def cut_off(self, process: VirtualProcess) -> None:
        """Let all others believe that `process` is dead, while it goes on."""
        process.is_cut_off = True
        self._call_when_killed(process)

    @staticmethod
    def _call_when_killed(process: VirtualProcess) -> None:
        callbacks, process.when_killed = process.when_killed, {}
        for call in callbacks.values():
            call()

    # The run.

    def run(self, *, until: float) -> None:
        """Run until that virtual time, until `stop`, or until nothing is left to do."""
        former = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            self.clock.run(ceil(until * S))
        finally:
            asyncio._set_running_loop(former)


def _is_open(task: asyncio.Task[Any]) -> bool:
    work = task.get_coro()
    return inspect.iscoroutine(work) and inspect.getcoroutinestate(work) != "CORO_CLOSED"


def _own(context: Context | None) -> Context:
    # An empty context is false, but valid: it belongs to no process.
    return copy_context() if context is None else context


def current_process() -> VirtualProcess | None:
    """The process whose step runs now."""
    return _OWNER.get(None)
