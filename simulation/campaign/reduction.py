"""Failing seeds shrunk to few decisions, each with the command that repeats it."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from tierledger.simulation.campaign.campaign import UNFORESEEN, drawn, judged, mutant_named
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.machines.scenario.shape import numbers_text
from tierledger.simulation.machines.scenario.shrink import shrunk
from tierledger.simulation.machines.timeline_of import decision_text
from tierledger.simulation.worlds import SERVICE


class Reduction(NamedTuple):
    """A failing seed, shrunk, for people."""

    seed: int
    mutant: str | None
    violation: Violation
    """The violation that the shrunk run still shows."""
    decisions: list[str]
    """The decisions that are kept, as text."""
    of: int
    """How many decisions the seed has."""
    keep: tuple[int, ...]
    """The numbers of the kept decisions among those."""
    shape: tuple[str, ...]
    """Names of the simplifications of its world."""
    runs: int
    world: str = SERVICE

    @property
    def command(self) -> str:
        """The command that repeats the shrunk run."""
        return replay_command(self.seed, self.mutant, self.keep, self.shape, self.world)


def replay_command(
    seed: int,
    mutant: str | None = None,
    keep: tuple[int, ...] | None = None,
    shape: tuple[str, ...] = (),
    world: str = SERVICE,
) -> str:
    """The command line that repeats a run."""
    parts = ["tierledger", "simulate", "replay", "--seed", str(seed)]
    if world != SERVICE:
        parts += ["--world", world]
    if mutant is not None:
        parts += ["--mutant", mutant.partition(" ")[0]]
    if keep is not None:
        parts += ["--keep", numbers_text(keep)]
    if shape:
        parts += ["--shape", ",".join(shape)]
    return shlex.join(parts)


def symptom(violation: Violation) -> str:
    """What two violations of the same mistake share, as far as one can tell."""
    if violation.checker != UNFORESEEN:
        return violation.checker
    return f"{UNFORESEEN}: {violation.message.partition(':')[0]}"


def reduced(seed: int, *, mutant: str | None = None, world: str = SERVICE) -> Reduction | None:
    """A failing seed, shrunk; none if the seed does not fail."""
    whole = drawn(seed, world)
    first = _to_shrink_for(judged(whole, mutant, world).violations, mutant)
    if first is None:
        return None
    wanted, last = symptom(first), first

    def fails(scenario: Scenario) -> bool:
        nonlocal last
        for violation in judged(scenario, mutant, world).violations:
            if symptom(violation) == wanted:
                last = violation
                return True
        return False

    small = shrunk(whole, fails)
    return Reduction(
        seed, mutant, last, [decision_text(one) for one in small.scenario.decisions],
        len(whole.decisions), small.kept, small.settings, small.runs, world,
    )  # fmt: skip


def _to_shrink_for(violations: list[Violation], mutant: str | None) -> Violation | None:
    """The violation to shrink for: if possible, one by a checker that must find the mutant."""
    if mutant is not None:
        caught_by = mutant_named(mutant).caught_by
        for violation in violations:
            if violation.checker in caught_by:
                return violation
    return violations[0] if violations else None
