"""A depth-first search through late messages and crashes, never twice from one state.

To go back to an earlier moment, the world runs again from the beginning with the same choices.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple, TypeAlias

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.campaign.campaign import unforeseen
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.exhaust.orders import Choice, Orders
from tierledger.simulation.exhaust.script import BEGINS, Bounds, Variant, scenario_of
from tierledger.simulation.machines.run import run
from tierledger.simulation.machines.verdict import verdict_of
from tierledger.simulation.machines.world import World
from tierledger.simulation.mutants.catalogue import Mutant, planted

Choices: TypeAlias = "tuple[tuple[int, Choice], ...]"
"""Steps of a schedule, and the choice made at each in place of the default."""

SHARES = 4
"""How many parts the schedules of a variant are divided into, by their first choice."""


class Part(NamedTuple):
    """A share of the schedules; each schedule belongs to exactly one part."""

    bounds: Bounds
    variant: Variant
    share: int


class Found(NamedTuple):
    """A schedule that breaks something."""

    variant: Variant
    choices: Choices
    violations: list[Violation]


class Searched(NamedTuple):
    """The result of a search."""

    schedules: int
    """Schedules that were begun; each ended, or was cut at a state that was known already."""
    states: int
    """Different states among those with a choice to make or with nothing under way."""
    pruned: int
    """Schedules that were cut."""
    found: Found | None


class Cut(Exception):
    """The state was searched before with at least as many late messages left."""


class Search:
    """The search through all schedules of one part, with a mutant planted if one is given."""

    def __init__(self, part: Part, mutant: Mutant | None = None) -> None:
        self._part, self._mutant = part, mutant
        self._states: dict[bytes, int] = {}
        """Each state, with the least number of late messages that led to it."""
        self._stack: list[Choices] = [()]

    def run(self) -> Searched:
        """Try all schedules, or stop at the first that breaks something."""
        schedules, pruned = 0, 0
        while self._stack:
            choices = self._stack.pop()
            schedules += 1 if choices or self._part.share == 0 else 0
            try:
                violations = self._followed(choices)
            except Cut:
                pruned += 1
                continue
            if not choices:  # All parts begin alike and share the first choices.
                self._stack = self._stack[self._part.share :: SHARES]
            if violations:
                found = Found(self._part.variant, choices, violations)
                return Searched(schedules, len(self._states), pruned, found)
        return Searched(schedules, len(self._states), pruned, None)

    def _followed(self, choices: Choices) -> list[Violation]:
        """Violations of the schedule that makes `choices` and then follows the default."""
        bounds, left = self._part.bounds, list(reversed(choices))

        def decide(orders: Orders) -> Choice | None:
            if left:
                return left.pop()[1] if left[-1][0] == orders.asked else None
            others = orders.alternatives(bounds)
            if others or orders.is_quiet:
                key = orders.key()
                if self._states.get(key, orders.late + 1) <= orders.late:
                    raise Cut
                self._states[key] = orders.late
                self._stack += ((*choices, (orders.asked, one)) for one in others)
            return None

        return violations_of(bounds, self._part.variant, decide, self._mutant)


def violations_of(
    bounds: Bounds,
    variant: Variant,
    decide: Callable[[Orders], Choice | None],
    mutant: Mutant | None = None,
    lines: list[str] | None = None,
) -> list[Violation]:
    """Violations of one schedule; the mutant is planted anew, since some keep counts."""
    orders = Orders(BEGINS, decide, lines)
    orders.world = world = World(scenario_of(bounds, variant), clock=orders)
    with nullcontext() if mutant is None else planted(mutant):
        try:
            run(world)
            return verdict_of(world).violations
        except (Cut, InvalidArgument):
            raise
        except Exception as error:  # noqa: BLE001 - A mistake may show itself as any of them.
            return [unforeseen(error)]
