"""Mutants looked for in processes of their own: a mistake may not end as pytest wants it to."""

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
"""Processes that run seeds; beside one of several workers more would only be in their way."""

SHOWN_BY = {
    "D6 frozen-host-asked-on": 59,
    "M27 checksums-not-checked": 475,
    "M39 never-probed": 90,
    "M43 custom-limit-not-enforced": 89,
}
"""A seed that showed a mutant which few show; it is looked at first, for it saves minutes."""

Hunts: TypeAlias = "dict[str, Future[int | None]]"
"""By a mutant's name: a seed in which one of its checkers finds something."""


@contextmanager
def hunts(mutants: Iterable[Mutant], world: str) -> Iterator[Hunts]:
    """Look for all of `mutants`; each by one process, so that nothing runs beyond the find."""
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
