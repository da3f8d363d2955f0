"""The search: depth first over what may be late and who may crash, never twice from one state.

Whatever happens next by default just happens. A delivery is late by being held; it arrives
right after another delivery to the same process, which overtook it, or when all is quiet.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.exhaust.judge import Judge
from tierledger.simulation.exhaust.machines import KEY, NONE, Machines, Plain
from tierledger.simulation.exhaust.script import Bounds, Script, Variant
from tierledger.simulation.exhaust.world import Frozen, SmallWorld

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS_MAX = 1000
"""Of one schedule; one that goes on for longer never ends."""

REPORT_EVERY = 10_000
"""Schedules between two words about how far a search is: about a second."""

Path: TypeAlias = "tuple[Path, int, Plain] | None"
"""What was chosen, the last first: before it, the step, the choice."""

Choices: TypeAlias = "tuple[tuple[int, Plain], ...]"
"""Steps of a schedule, and what was chosen there instead of what happens by default."""


class Part(NamedTuple):
    """A share of the schedules; those of all parts together are all, each counted once."""

    bounds: Bounds
    variant: Variant
    crash_site: int
    """Where the first crash is; `NONE` if there is none."""
    counts_crashless: bool
    """Whether schedules without a crash are this part's, too."""


class Found(NamedTuple):
    """A schedule that breaks something."""

    variant: Variant
    choices: Choices
    violations: list[Violation]
    told: tuple[str, ...] = ()
    """What happens in it, a line per step."""


class Searched(NamedTuple):
    """What a search came to."""

    schedules: int
    states: int
    pruned: int
    outcomes: int
    found: Found | None


def parts_of(bounds: Bounds, variants: tuple[Variant, ...]) -> list[Part]:
    """How to share the work; only states before the first crash are in two parts."""
    sites = (0, 1) if bounds.crashes else (NONE,)
    return [Part(bounds, one, site, site <= 0) for one in variants for site in sites]


class Search:
    """All schedules of one part."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.script = Script(part.bounds, part.variant)
        self.machines = Machines(self.script.terms, self.script.calls)
        self.judge = Judge(self.script, self.machines)
        self.world = SmallWorld(self.script, self.machines, self.judge)
        self.schedules = self.states = self.pruned = 0
        self.found: Found | None = None
        self._seen: dict[bytes, int] = {}
        """Every state's digest, and the least number of late deliveries that led to it."""
        self._stack: list[tuple[Frozen, Plain | None, Path, int, int]] = []

    def run(self, on_progress: Callable[[float, int], bool]) -> Searched:
        """Try them all, or until one breaks something, or `on_progress` returns true.

        It is told now and then which share is done, roughly, and how many states are known.
        """
        self.world.settle()
        self._stack.append((self.world.frozen(), None, None, 0, 0))
        self._follow()
        first = left = max(1, len(self._stack))
        turn, levels = 0, max(1, self.part.bounds.delays + self.part.bounds.crashes)
        while self._stack and self.found is None:
            self._follow()
            left, turn = min(left, len(self._stack)), turn + 1
            # The earlier a choice the more can follow; the earliest are left for the end.
            share = ((first - left) / first) ** levels
            if turn % REPORT_EVERY == 0 and on_progress(share, self.states):
                break
        outcomes = self.judge.verdicts
        return Searched(self.schedules, self.states, self.pruned, outcomes, self.found)

    def _follow(self) -> None:
        """Go on from one choice to the end, or to where another schedule has been."""
        world, part = self.world, self.part
        frozen, choice, path, step, late = self._stack.pop()
        world.thaw(frozen)
        touched = NONE
        if choice is not None:
            touched = world.apply(choice)
            path, step = (path, step, choice), step + 1
        counts = int(part.counts_crashless or world.crashes > 0)
        self.schedules += counts
        while not world.violations and step < STEPS_MAX:
            default = world.next()
            choices = self._choices(default, touched, late)
            if choices or world.is_quiet:
                frozen = world.frozen()
                if self._is_known(frozen, touched, late, counts):
                    return
                for one in choices:
                    costs = late + (one[0] == "hold")
                    self._stack.append((frozen, one, path, step, costs))
            if default is None:
                break
            touched = world.apply(default)
            step += 1
        self._judge(path, step)

    def _choices(self, default: Plain | None, touched: int, late: int) -> list[Plain]:
        """What may happen instead of what happens by default."""
        world, bounds = self.world, self.part.bounds
        if world.is_healed:
            return []
        choices: list[Plain] = []
        if world.head != NONE:
            if late < bounds.delays:
                choices.append(("hold",))
            if world.crashes < bounds.crashes:
                choices += [one for one in world.crash_choices() if self._may_crash(one[1])]
        if world.held:
            is_quiet = world.is_quiet
            for at, (queue, _) in enumerate(world.held):
                if is_quiet or queue == touched:
                    choices.append(("release", at))
            if is_quiet and world.can_give_up():
                choices.append(("give up",))
        return [one for one in choices if one != default]

    def _may_crash(self, site: int) -> bool:
        return self.world.crashes > 0 or site == self.part.crash_site

    def _is_known(self, frozen: Frozen, touched: int, late: int, counts: int) -> bool:
        """Whether all that can follow has been tried, with as many late deliveries left."""
        world = self.world
        # Which late deliveries may arrive now depends on what was delivered last.
        overtook = touched if any(queue == touched for queue, _ in world.held) else NONE
        key = world.key(frozen) + bytes([overtook - NONE])
        digest = blake2b(key, digest_size=16).digest()
        before = self._seen.get(digest)
        if before is not None and before <= late:
            self.pruned += counts
            return True
        self._seen[digest] = late
        if before is None:
            self.states += counts
        return False

    def _judge(self, path: Path, step: int) -> None:
        world = self.world
        violations = list(world.violations)
        if not violations and step >= STEPS_MAX:
            message = f"no end after {STEPS_MAX} steps"
            violations.append(Violation("liveness", KEY, message))
        violations = violations or self.judge.of_end(world)
        if violations:
            self.found = Found(self.part.variant, _choices_of(path), violations)


def _choices_of(path: Path) -> Choices:
    found: list[tuple[int, Plain]] = []
    while path is not None:
        path, step, choice = path
        found.append((step, choice))
    return tuple(reversed(found))
