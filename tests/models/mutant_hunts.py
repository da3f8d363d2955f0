"""Searches for mutants in other processes, as a mutant may crash or hang its process."""

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import TypeAlias

from tierledger.simulation.campaign.campaign import mutant_named, outcome
from tierledger.simulation.mutants.catalogue import Mutant
from tierledger.simulation.orphans import end_with_parent

JOBS = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
"""Processes that run seeds: one if pytest itself runs on several workers."""

SHOWN_BY = {
    "D6 frozen-host-asked-on": 59,
    "M27 checksums-not-checked": 475,
    "M39 never-probed": 90,
    "M43 custom-limit-not-enforced": 89,
}
"""For mutants that few seeds catch, a seed that did; it is tried first, to save minutes."""

Hunts: TypeAlias = "dict[str, Future[int | None]]"
"""By a mutant's name: a seed that catches it, or none if no seed does."""


@contextmanager
def hunts(mutants: Iterable[Mutant], world: str) -> Iterator[Hunts]:
    """Search for all of `mutants`, each in one process, which ends at its first seed."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(JOBS, context, end_with_parent) as pool:
        yield {one.name: pool.submit(_caught_at, one.name, world) for one in mutants}
        pool.shutdown(cancel_futures=True)


def _caught_at(name: str, world: str) -> int | None:
    mutant = mutant_named(name)
    seeds = mutant.seeds()
    first = seeds.index(SHOWN_BY.get(name, mutant.first))
    for seed in chain(seeds[first:], seeds[:first]):
        if {one.checker for one in outcome(seed, world, name).violations} & mutant.caught_by:
            return seed
    return None
