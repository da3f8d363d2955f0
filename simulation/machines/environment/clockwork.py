"""Virtual time for state machines: a heap of calls, each of which belongs to a process's life.

A call is one step: a life can be paused (its calls are held) or ended (they are dropped)
between any two. Calls of one instant run first come, first served.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

MS = 1000
"""A clockwork counts microseconds."""

S = 1_000_000


STEPS_MAX = 350_000
"""Eight times as many as a whole world takes. A mutant after which the store says that what it
has done was not done takes 300,000."""


class EndlessRun(Exception):
    """A world goes on and on."""


class ProcessLife:
    """One process from its start to its end."""

    __slots__ = ("held", "is_cut_off", "is_dead", "is_paused", "name", "number", "sent", "site")

    def __init__(self, site: str, number: int) -> None:
        self.site = site
        """The place of the process, like "host-1"; its successor there has the same."""
        self.number = number
        self.name = f"{site}/{number}"
        self.is_dead = False
        self.is_paused = False
        self.is_cut_off = False
        """Whether all others believe it dead: no call reaches it, but its own calls go out."""
        self.held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.sent = 0

    @property
    def is_reachable(self) -> bool:
        return not (self.is_dead or self.is_cut_off)


class Clockwork:
    """Runs calls in order of their time."""

    def __init__(self) -> None:
        self.now = 0
        self.steps = 0
        self.is_stopped = False
        self.heap: list[
            tuple[int, int, ProcessLife | None, Callable[..., None], tuple[Any, ...]]
        ] = []
        self._count = 0

    def at(
        self,
        when: int,
        life: ProcessLife | None,
        call: Callable[..., None],
        *args: Any,  # noqa: ANN401
    ) -> None:
        """Plan `call` for `when` (us), as a step of `life`; None: as the world's own step."""
        self._count += 1
        heappush(self.heap, (when, self._count, life, call, args))

    def after(
        self,
        delay: int,
        life: ProcessLife | None,
        call: Callable[..., None],
        *args: Any,  # noqa: ANN401
    ) -> None:
        self._count += 1
        heappush(self.heap, (self.now + delay, self._count, life, call, args))

    def step(self, life: ProcessLife, call: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        """Make `call` as a step of `life` now; later if it is paused, never if it is dead."""
        if life.is_paused:
            life.held.append((call, args))
        elif not life.is_dead:
            call(*args)

    def run(self, until: int) -> None:
        """Run until that time, until `is_stopped`, or until nothing is left to do.

        Raises:
            EndlessRun: That takes more than `STEPS_MAX` steps.
        """
        heap = self.heap
        self.is_stopped = False
        steps = 0
        while heap and heap[0][0] <= until and not self.is_stopped:
            self.now, _, life, call, args = heappop(heap)
            if life is None or not (life.is_dead or life.is_paused):
                steps += 1
                if self.steps + steps > STEPS_MAX:
                    now = f"{self.now / MS:,.3f} ms"
                    raise EndlessRun(f"no end after {STEPS_MAX:,} steps, at {now}")
                call(*args)
            else:  # A dead life's calls are kept for ever, so that nothing is finalized.
                life.held.append((call, args))
        self.steps += steps
        if not self.is_stopped:
            self.now = max(self.now, until)

    def resume(self, life: ProcessLife) -> None:
        """Let `life` go on as if no time had passed: what fell due runs now, in order."""
        life.is_paused = False
        held, life.held = life.held, []
        for call, args in held:
            self.at(self.now, life, call, *args)
