"""When a caller's call ends: decided once, where it enters; all below goes by it.

A timer of its own for each call costs more than what else a call needs of the loop, and nearly
none ever rings. So calls that may wait are entered in an `AlarmClock`, which has one for all.
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
    """Tells of each thing that was entered when its time has come, with one timer for all."""

    def __init__(self, ring: Callable[[K], None]) -> None:
        """`ring` is called with each that is over; it is entered no more then."""
        self._ring = ring
        self._ends: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")
        """When the timer rings: not after the first of what is entered ends."""

    def enter(self, one: K, at: float) -> None:
        """Ring for `one` at a time of the running loop's clock, unless it is out by then."""
        self._ends[one] = at
        if at < self._next:
            self._wind(at)

    def take_out(self, one: K) -> None:
        self._ends.pop(one, None)

    def stop(self) -> None:
        """Ring for nothing any more."""
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
            # What rang before may have taken it out.
            if self._ends.pop(one, None) is not None:
                self._ring(one)
        first = min(self._ends.values(), default=self._next)
        if first < self._next:
            self._wind(first)


class Deadline:
    """The end of one call, and whether what it wants may be under way."""

    __slots__ = ("_at", "_bounds", "_loop", "seconds")

    def __init__(self, seconds: float, bounds: Bounds | None = None) -> None:
        """Made on a running loop; the call ends `seconds` from now.

        `bounds`: of the client whose call it is; else it has a timer of its own.
        """
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + seconds
        self._bounds = bounds

    def bound(self) -> _Bound:
        """Ends what runs inside it with `TimeoutError` when the time is over."""
        return _Bound(self._at, self._bounds)

    @property
    def left_s(self) -> float:
        """Seconds that are left, below 0 when it has passed."""
        return self._at - self._loop.time()

    async def before_sending(self, turn: Awaitable[T], others: str) -> T:
        """What `turn` comes to, which is waited for before anything is sent.

        Raises:
            Overloaded: The time is over; nothing was sent. `others` says what was in the way.
        """
        try:
            with self.bound():
                return await turn
        except TimeoutError:
            raise Overloaded(
                f"not sent within {self.seconds:g} s: {others} first, and took as long"
            ) from None


class _Bound:
    """What `asyncio.timeout_at` gives, with the timer of `Bounds`."""

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
        """Cancel what runs inside."""
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
        # Unless somebody else has cancelled it, too: then that is what happened.
        is_ours = self._task.uncancel() <= self._cancelling
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error


class Bounds(AlarmClock[_Bound]):
    """Ends those calls of a client whose time is over."""

    def __init__(self) -> None:
        super().__init__(_Bound.end)


class Attempt:
    """One attempt of a call: whether it may have reached the other side."""

    __slots__ = ("_deadline", "is_sent")

    def __init__(self, deadline: Deadline | None = None) -> None:
        """`deadline`: when its caller gives up, where that is known."""
        self.is_sent = False
        self._deadline = deadline

    @property
    def left_ms(self) -> int:
        """For how long its caller goes on waiting; 0 if that is not known, else at least 1."""
        return 0 if self._deadline is None else max(1, int(self._deadline.left_s * 1000))
