"""Calls that fail where a test plans it: before they take effect, or after."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class When(Enum):
    """Whether a call fails before or after it takes effect."""

    BEFORE = "before"
    AFTER = "after"


class Killed(BaseException):
    """The process was killed: the code under test may neither catch this nor go on after it."""


class PlannedFaults:
    """Counts the calls of all fakes that share it, and fails those that were planned.

    After a planned `Killed` every further call is killed as well, until `restart`.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        """The names of all calls so far, in their order."""
        self._by_number: dict[int, tuple[When, BaseException]] = {}
        self._by_name: dict[str, list[tuple[When, BaseException]]] = {}
        self._is_dead = False

    def fail_call(self, number: int, when: When, error: BaseException) -> None:
        """Let call `number`, counted from 0, fail with `error`."""
        self._by_number[number] = (when, error)

    def fail_next(self, name: str, when: When, error: BaseException) -> None:
        """Let the next call of `name` fail with `error`; several plans apply in order."""
        self._by_name.setdefault(name, []).append((when, error))

    def restart(self) -> None:
        """Start as a new process: forget all plans and calls, and that it was killed."""
        self._by_number.clear()
        self._by_name.clear()
        self._is_dead = False
        self.calls.clear()

    async def call(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, unless this call is to fail."""
        if self._is_dead:
            raise Killed
        planned = self._by_number.get(len(self.calls))
        if planned is None and self._by_name.get(name):
            planned = self._by_name[name].pop(0)
        self.calls.append(name)
        await asyncio.sleep(0)  # Other tasks may run at each call, as with a network.
        if planned is None:
            return await work()
        when, error = planned
        if when == When.AFTER:
            await work()
        self._is_dead = isinstance(error, Killed)
        raise error
