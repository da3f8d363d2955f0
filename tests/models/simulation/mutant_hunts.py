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
    "D2": 230,
    "D3": 200,
    "D4": 80,
    "D5": 70,
    "D6": 10,
    "D7": 30,
    "D11": 200,
    "D12": 9,
    "D14": 7,
    "M03": 47,
    "M04": 140,
    "M06": 63,
    "M07": 34,
    "M09": 23,
    "M10": 72,
    "M12": 13,
    "M16": 33,
    "M17": 49,
    "M18": 3,
    "M20": 28,
    "M22": 140,
    "M25": 19,
    "M26": 19,
    "M27": 475,
    "M28": 80,
    "M29": 31,
    "M33": 63,
    "M35": 35,
    "M36": 11,
    "M39": 102,
    "M40": 10,
    "M41": 68,
    "M42": 8,
    "M43": 89,
    "M49": 34,
    "M58": 62,
    "M59": 52,
    "M61": 50,
    "M63": 24,
    "M66": 3,
    "M67": 101,
    "M68": 50,
    "M70": 5,
    "M72": 3,
    "M73": 79,
    "M74": 33,
    "M75": 5,
    "M76": 253,
    "M78": 3,
    "M79": 3,
    "M80": 13,
    "M81": 3,
    "M83": 26,
    "M85": 14,
    "M87": 24,
    "M88": 50,
    "M89": 69,
    "M91": 1717,
    "M92": 5781,
    "M96": 453,
    "M97": 341,
    "M98": 725,
    "M100": 7365,
    "M102": 997,
    "M104": 437,
    "M105": 2373,
}
"""By a mutant's number, a seed that caught it, for mutants whose first three seeds do not.
It is tried first, which takes a tenth of the time; all others follow if it no longer does."""

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
    first = seeds.index(SHOWN_BY.get(name.partition(" ")[0], mutant.first))
    for seed in chain(seeds[first:], seeds[:first]):
        if {one.checker for one in outcome(seed, world, name).violations} & mutant.caught_by:
            return seed
    return None
