"""Shrinks a failing run: to fewer decisions first, then to a simpler world.

Decisions strike by time and place, so those that are left mostly do what they did before. Each
smaller run is tried, to find out whether it still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.machines.scenario.shape import shaped, simpler

RUNS_MAX = 600
"""Runs that are spent on one failing seed."""

AFTERWARDS = 500 * MS
"""How long a run may go on after its last decision."""

FEW = 15
"""With more decisions left than this, shrinking is tried again from the other end."""

PAIRS_OF_MAX = 20
"""With at most so many decisions left, any two are left out together on trial."""


class Shrunk(NamedTuple):
    """What is left of a failing run."""

    scenario: Scenario
    kept: tuple[int, ...]
    """The indexes of the decisions that are left, in the scenario that was given."""
    settings: tuple[str, ...]
    """The settings of `shape` that made the world simpler."""
    runs: int


def shrunk(
    scenario: Scenario, fails: Callable[[Scenario], bool], *, runs_max: int = RUNS_MAX
) -> Shrunk:
    """The smallest scenario found that still fails, as `scenario` is known to.

    The result is deterministic if `fails` is. After `runs_max` runs the search ends.
    """
    shrinking = _Shrinking(scenario, fails, runs_max)
    shrinking.shrink()
    runs = shrinking.runs
    if len(shrinking.kept) > FEW:  # It is stuck; from the other end it may not be.
        again = _Shrinking(scenario, fails, runs_max - runs, from_the_front=True)
        again.shrink()
        runs += again.runs
        shrinking = min(shrinking, again, key=lambda one: len(one.kept))
    small = shrinking.scenario(shrinking.kept, shrinking.settings)
    return Shrunk(small, tuple(shrinking.kept), tuple(shrinking.settings), runs)


class _Shrinking:
    """One failing run, as small as it got so far."""

    def __init__(
        self,
        whole: Scenario,
        fails: Callable[[Scenario], bool],
        runs_max: int,
        *,
        from_the_front: bool = False,
    ) -> None:
        self.whole = whole
        self.kept = list(range(len(whole.decisions)))
        self.settings: list[str] = []
        self.runs = 0
        self._fails = fails
        self._runs_max = runs_max
        self._from_the_front = from_the_front

    def scenario(self, kept: Sequence[int], settings: Sequence[str]) -> Scenario:
        return shaped(self.whole.kept(frozenset(kept)), settings)

    def shrink(self) -> None:
        self._leave_out_the_end()
        self._end_early()
        self._leave_out_groups()
        self._leave_out_parts()
        is_smaller = True
        while is_smaller:
            is_smaller = self._simplify()
            is_smaller = self._leave_out_pairs() or is_smaller
            is_smaller = self._leave_out_parts() or is_smaller
        self._end_early()

    def _try(self, kept: Sequence[int], settings: Sequence[str] | None = None) -> bool:
        """Try a smaller run, and keep it if it still fails."""
        settings = self.settings if settings is None else settings
        if self.runs >= self._runs_max or (
            list(kept) == self.kept and settings is self.settings
        ):
            return False
        self.runs += 1
        if not self._fails(self.scenario(kept, settings)):
            return False
        self.kept, self.settings = list(kept), list(settings)
        return True

    def _leave_out_the_end(self) -> None:
        """Leave out the last decisions: most failures need none that came after them."""
        everything = self.kept
        low, high = 0, len(everything)
        while low < high:
            middle = (low + high) // 2
            if self._try(everything[:middle]):
                high = middle
            else:
                low = middle + 1

    def _end_early(self) -> None:
        last = max((self.whole.decisions[at].at for at in self.kept), default=0)
        ends_ms = (last + AFTERWARDS) // MS
        others = [setting for setting in self.settings if not setting.startswith("duration=")]
        if ends_ms * MS < self.scenario(self.kept, self.settings).duration:
            self._try(self.kept, [*others, f"duration={ends_ms}"])

    def _leave_out_groups(self) -> None:
        """Leave out all decisions of one kind, or of one kind that strike in one place."""
        for depth in (1, 2, 3):
            groups: dict[Hashable, list[int]] = {}
            for at in self.kept:
                decision = self.whole.decisions[at]
                groups.setdefault((decision.kind, *decision.args[: depth - 1]), []).append(at)
            for group in groups.values():
                if depth == 1 or len(group) > 1:
                    leaving = set(group)
                    self._try([at for at in self.kept if at not in leaving])

    def _leave_out_parts(self) -> bool:
        """Leave out halves, quarters, and so on, down to single decisions."""
        before = len(self.kept)
        size = max(1, before // 2)
        while size > 1:
            self._leave_out_each(size)
            size = min(size // 2, len(self.kept) // 2)
        while self._leave_out_each(1):
            pass
        return len(self.kept) < before

    def _leave_out_each(self, size: int) -> bool:
        is_smaller = False
        parts = [self.kept[at : at + size] for at in range(0, len(self.kept), size)]
        for part in parts if self._from_the_front else reversed(parts):
            leaving = set(part)
            is_smaller |= self._try([at for at in self.kept if at not in leaving])
        return is_smaller

    def _leave_out_pairs(self) -> bool:
        """Leave out two at once: each may be needed only as long as the other is there."""
        if len(self.kept) > PAIRS_OF_MAX:
            return False
        is_smaller = False
        pairs = [(one, two) for at, two in enumerate(self.kept) for one in self.kept[:at]]
        for pair in pairs:
            if self._holds(pair):
                is_smaller |= self._try([at for at in self.kept if at not in pair])
        return is_smaller

    def _holds(self, pair: tuple[int, int]) -> bool:
        return pair[0] in self.kept and pair[1] in self.kept

    def _simplify(self) -> bool:
        """Simplify the world, as far as the same decisions still fail in it."""
        is_smaller = False
        done: set[str] = set()
        for setting in simpler(self.scenario(self.kept, self.settings)):
            name = setting.partition("=")[0]
            if name not in done and self._try(self.kept, [*self._without(name), setting]):
                done.add(name)
                is_smaller = True
        return is_smaller

    def _without(self, name: str) -> list[str]:
        return [setting for setting in self.settings if setting.partition("=")[0] != name]
