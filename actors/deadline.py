"""Deadlines of calls: set once, where a call enters; everything below keeps to it.

A timer for each call would cost more than all else that a call needs of the loop, and hardly
any ever fires. So calls that may wait are entered in an `AlarmClock`, which has one timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar

from tierledger.events.errors import Overloaded

T = TypeVar("T")
K = TypeVar("K")


class AlarmClock(Generic[K]):
    """Calls back for each entry when its time has come, with one timer for all entries."""

    def __init__(self, ring: Callable[[K], None]) -> None:
        """`ring` is called with each entry whose time has come, after it was taken out."""
        self._ring = ring
        self._ends: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")
        """When the timer fires: never later than the first entry is due."""

    def enter(self, one: K, at: float) -> None:
        """Call back for `one` at time `at` of the loop, unless it is taken out before."""
        self._ends[one] = at
        if at < self._next:
            self._wind(at)

    def take_out(self, one: K) -> None:
        self._ends.pop(one, None)

    def stop(self) -> None:
        """Take out all entries and cancel the timer."""
        self._ends.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next = None, float("inf")

    def _wind(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)
        self._next = at

    def _look(self) -> None:
        self._timer, self._next = None, float("inf")
        now = asyncio.get_running_loop().time()
        for one in [one for one, at in self._ends.items() if at <= now]:
            # A callback for an earlier entry may have taken this one out.
            if self._ends.pop(one, None) is not None:
                self._ring(one)
        first = min(self._ends.values(), default=self._next)
        if first < self._next:
            self._wind(first)


class Deadline:
    """The end of one call."""

    __slots__ = ("_at", "_bounds", "_loop", "seconds")

    def __init__(self, seconds: float, bounds: Bounds | None = None) -> None:
        """The call ends `seconds` from now. Make it on a running loop.

        `bounds`: the alarm clock of the client that makes the call; None: a timer of its own.
        """
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + seconds
        self._bounds = bounds

    def bound(self) -> _Bound:
        """A context manager that ends its block with `TimeoutError` at the deadline."""
        return _Bound(self._at, self._bounds)

    @property
    def left_s(self) -> float:
        """Seconds that are left, below 0 when it has passed."""
        return self._at - self._loop.time()

    async def before_sending(self, turn: Awaitable[T], others: str) -> T:
        """The result of `turn`, which the call has to wait for before anything is sent.

        Raises:
            Overloaded: The deadline passed; nothing was sent. `others` names what it waited
                for, for the message.
        """
        try:
            with self.bound():
                return await turn
        except TimeoutError:
            raise Overloaded(
                f"not sent within {self.seconds:g} s: {others} first, and took as long"
            ) from None


class _Bound:
    """As `asyncio.timeout_at`, with the timer of `Bounds`."""

    __slots__ = ("_at", "_bounds", "_cancelling", "_is_over", "_task")

    def __init__(self, at: float, bounds: Bounds | None) -> None:
        self._at = at
        self._bounds = bounds or Bounds()
        self._is_over = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "calls are made by tasks"
        self._task, self._cancelling = task, task.cancelling()
        self._bounds.enter(self, self._at)

    def end(self) -> None:
        """Cancel the block."""
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self._bounds.take_out(self)
        if not self._is_over:
            return
        # If other code has cancelled the task as well, that cancellation goes on.
        is_ours = self._task.uncancel() <= self._cancelling
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error


class Bounds(AlarmClock[_Bound]):
    """The alarm clock of a client: ends its calls at their deadlines."""

    def __init__(self) -> None:
        super().__init__(_Bound.end)


class Attempt:
    """One attempt of a call; notes whether it may have reached its receiver."""

    __slots__ = ("_deadline", "is_sent", "request_id")

    def __init__(self, deadline: Deadline | None = None, request_id: bytes = b"") -> None:
        """`deadline`: when the caller gives up, if known; `request_id`: names the call."""
        self.is_sent = False
        self.request_id = request_id
        self._deadline = deadline

    @property
    def left_ms(self) -> int:
        """Time (ms) for which the caller goes on waiting, at least 1; 0 if not known."""
        return 0 if self._deadline is None else max(1, int(self._deadline.left_s * 1000))
