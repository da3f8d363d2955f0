"""Many seeds, on all cores: which fail, what was seen in them, which mutants are caught."""

from __future__ import annotations

import gc
import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.mutants import MUTANTS, planted
from tierledger.simulation.service.plan import drawn
from tierledger.simulation.service.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tierledger.simulation.mutants import Mutant
    from tierledger.simulation.service.verdict import Verdict

SEEDS_PER_TASK = 10
"""Seeds that a worker takes at once: a second or two of work."""


class Summary:
    """What the seeds of a campaign came to together."""

    def __init__(self) -> None:
        self.seeds = 0
        self.calls = 0
        self.ok_calls = 0
        self.changes = 0
        self.virtual_s = 0.0
        self.failed: list[Verdict] = []
        self.marks: Counter[str] = Counter()
        """Faults and rare situations: in how many seeds each came about."""

    def add(self, verdict: Verdict) -> None:
        self.seeds += 1
        self.calls += verdict.calls
        self.ok_calls += verdict.ok_calls
        self.changes += verdict.changes
        self.virtual_s += verdict.virtual_s
        self.marks.update(verdict.marks.keys())
        if verdict.violations:
            self.failed.append(verdict)


class Hunt(NamedTuple):
    """How a mutant fared."""

    mutant: Mutant
    caught_at: int | None
    """The first seed that caught it, by a checker of those that have to."""
    caught: int
    seeds: int
    checkers: Counter[str]
    """In how many seeds each checker found something."""


def mutant_named(name: str) -> Mutant:
    """The mutant of that name.

    Raises:
        InvalidArgument: There is none; the message lists those there are.
    """
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    known = ", ".join(mutant.name for mutant in MUTANTS)
    raise InvalidArgument(f"no mutant {name!r}; there are {known}")


def verdicts(
    seeds: Sequence[int], *, jobs: int, mutant: str | None = None
) -> Iterator[Verdict]:
    """Each seed's verdict, as they come; the same ones whatever the number of `jobs`."""
    chunks = [
        list(seeds[start : start + SEEDS_PER_TASK])
        for start in range(0, len(seeds), SEEDS_PER_TASK)
    ]
    if jobs == 1:
        for chunk in chunks:
            yield from _judged(chunk, mutant)
        return
    # Fork would copy whatever threads and loops the caller has.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as workers:
        try:
            for done in as_completed([workers.submit(_judged, one, mutant) for one in chunks]):
                yield from done.result()
        finally:
            workers.shutdown(cancel_futures=True)


def _judged(seeds: Sequence[int], mutant: str | None) -> list[Verdict]:
    gc.freeze()  # Worlds come and go; what was there before need not be looked through.
    if mutant is None:
        return [judge(drawn(seed)) for seed in seeds]
    with planted(mutant_named(mutant)):
        return [judge(drawn(seed)) for seed in seeds]


def hunt(mutant: Mutant, seeds: Sequence[int], *, jobs: int, to_the_end: bool = False) -> Hunt:
    """Look for `mutant` until a seed catches it; `to_the_end` counts how many of all do."""
    checkers: Counter[str] = Counter()
    caught: list[int] = []
    looked = 0
    step = len(seeds) if to_the_end else SEEDS_PER_TASK * jobs
    for start in range(0, len(seeds), step):
        for verdict in verdicts(seeds[start : start + step], jobs=jobs, mutant=mutant.name):
            looked += 1
            names = {violation.checker for violation in verdict.violations}
            checkers.update(names)
            if names & mutant.caught_by:
                caught.append(verdict.seed)
        if caught and not to_the_end:
            break
    return Hunt(mutant, min(caught, default=None), len(caught), looked, checkers)
