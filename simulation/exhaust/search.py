"""The search: depth first over what may be late and who may crash, never twice from one state.

A moment is taken up again by a run from the beginning that makes the same choices.
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
"""Steps of a schedule, and what was chosen there instead of what happens by default."""

SHARES = 4
"""Into which the schedules of a variant are divided, by their first choice."""


class Part(NamedTuple):
    """A share of the schedules; those of all parts together are all, each counted once."""

    bounds: Bounds
    variant: Variant
    share: int


class Found(NamedTuple):
    """A schedule that breaks something."""

    variant: Variant
    choices: Choices
    violations: list[Violation]


class Searched(NamedTuple):
    """What a search came to."""

    schedules: int
    """Orders that were begun; each ended, or was cut where another had been already."""
    states: int
    """Different ones, of those in which there was something to choose, or all was quiet."""
    pruned: int
    """Schedules that were cut."""
    found: Found | None


class Cut(Exception):
    """All that can follow has been tried, with as many late messages left."""


class Search:
    """All schedules of one part, with a mistake planted if one is given."""

    def __init__(self, part: Part, mutant: Mutant | None = None) -> None:
        self._part, self._mutant = part, mutant
        self._states: dict[bytes, int] = {}
        """Every state, and the least number of late messages that led to it."""
        self._stack: list[Choices] = [()]

    def run(self) -> Searched:
        """Try them all, or until one breaks something."""
        schedules, pruned = 0, 0
        while self._stack:
            choices = self._stack.pop()
            schedules += 1 if choices or self._part.share == 0 else 0
            try:
                violations = self._followed(choices)
            except Cut:
                pruned += 1
                continue
            if not choices:  # All parts begin alike; what they do instead is shared out.
                self._stack = self._stack[self._part.share :: SHARES]
            if violations:
                found = Found(self._part.variant, choices, violations)
                return Searched(schedules, len(self._states), pruned, found)
        return Searched(schedules, len(self._states), pruned, None)

    def _followed(self, choices: Choices) -> list[Violation]:
        """What is wrong with the schedule that goes on by default behind `choices`."""
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
    told: list[str] | None = None,
) -> list[Violation]:
    """What is wrong with one schedule. A mutant is planted anew: some count what they do."""
    orders = Orders(BEGINS, decide, told)
    orders.world = world = World(scenario_of(bounds, variant), clock=orders)
    with nullcontext() if mutant is None else planted(mutant):
        try:
            run(world)
            return verdict_of(world).violations
        except (Cut, InvalidArgument):
            raise
        except Exception as error:  # noqa: BLE001 - A mistake may show itself as any of them.
            return [unforeseen(error)]
