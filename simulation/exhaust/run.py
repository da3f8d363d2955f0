"""Every schedule of a small world in which few messages are late and few processes crash.

It is the world of `machines` with two hosts, two brokers and one partition, on a clock that
asks what happens next. All schedules within the bounds are tried, so finding no violation
proves that this small world has none; it is not a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tierledger.simulation.campaign.campaign import Workers
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.exhaust.schedule import again_with, repeated
from tierledger.simulation.exhaust.script import VARIANTS, Bounds, Variant
from tierledger.simulation.exhaust.search import SHARES, Found, Part, Search, Searched
from tierledger.simulation.mutants.catalogue import Mutant


class Explored(NamedTuple):
    """What was tried, and the schedule that breaks something, if one does."""

    bounds: Bounds
    schedules: int
    states: int
    pruned: int
    """The sums over all parts of the numbers in `Searched`."""
    found: Found | None
    """The first schedule that breaks something; later ones are not tried."""
    mutant: Mutant | None
    """The mutant that was planted, if one was."""

    @property
    def violations(self) -> list[Violation]:
        return [] if self.found is None else self.found.violations

    @property
    def again(self) -> str | None:
        """The command that repeats the schedule in `found`; none without one."""
        planted = None if self.mutant is None else self.mutant.name.partition(" ")[0]
        return self.found and again_with(self.bounds, self.found, planted)


def explore(
    bounds: Bounds = Bounds(),  # noqa: B008 - A tuple.
    on_part: Callable[[], None] = lambda: None,
    *,
    jobs: int = 1,
    variants: tuple[Variant, ...] = VARIANTS,
    mutant: Mutant | None = None,
) -> Explored:
    """Try every schedule within `bounds`; the numbers do not depend on `jobs`.

    `on_part` is called after each of `PARTS`.
    """
    parts = [Part(bounds, one, share) for one in variants for share in range(SHARES)]
    results: list[Searched] = []
    with Workers(jobs) as workers:
        for result in workers.each(partial(_searched, mutant), parts):
            results.append(result)
            on_part()
            if result.found is not None:
                break
    schedules, states, pruned, _ = (list(column) for column in zip(*results, strict=True))
    return Explored(bounds, sum(schedules), sum(states), sum(pruned), results[-1].found, mutant)


PARTS = len(VARIANTS) * SHARES


def _searched(mutant: Mutant | None, part: Part) -> Searched:
    return Search(part, mutant).run()


def lines_of(explored: Explored, seconds: float) -> list[str]:
    """The result as text, with the schedule that breaks something, if one does."""
    bounds = explored.bounds
    limits = (
        f"{bounds.delays} late messages, {bounds.crashes} crashes, "
        f"{bounds.appends} appends, {bounds.changes} leadership changes, {bounds.reads} reads"
    )
    lines = [
        f"bounds      {limits}",
        f"schedules   {explored.schedules}",
        f"states      {explored.states}",
        f"cut         {explored.pruned} schedules, at a state that was known",
        f"time        {seconds:.1f} s",
        f"violations  {len(explored.violations)}",
    ]
    if explored.found is not None:
        found = explored.found
        lines += [f"  {one.checker}: {one.message}" for one in explored.violations]
        lines.append(f"again with  {explored.again}")
        lines += repeated(bounds, found.variant, found.choices, explored.mutant)[0]
    return lines
